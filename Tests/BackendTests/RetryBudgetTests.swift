import Backend
import Platform
import TestWaiting
import Testing

@Suite struct RetryBudgetTests {
  private static let down = ScriptedStore.Step.fail(.unavailable("down"))

  /// Without a budget it would be four calls for each caller.
  @Test func manyCallersShareTheRetries() async {
    let script = ScriptedStore(then: Self.down)
    let store = RetryingStore(script, sleep: { _ in })
    await withTaskGroup { group in
      for number in 0..<200 {
        group.addTask { _ = try? await store.get("key\(number)") }
      }
    }
    #expect(script.calls == 200 + 32)
    await #expect(throws: StoreError.unavailable("down")) { try await store.get("one") }
    #expect(script.calls == 200 + 32 + 1)
  }

  @Test func whatSucceedsPaysBack() async throws {
    let steps = Array(repeating: Self.down, count: 36)
    let script = ScriptedStore(script: steps + Array(repeating: .work, count: 5) + [Self.down])
    let store = RetryingStore(script, sleep: { _ in })
    // 36 calls: eight of them with three retries each take 24, four more the rest.
    for _ in 0..<9 { _ = try? await store.get("key") }
    #expect(script.calls == 36)
    for _ in 0..<5 { _ = try await store.putIfAbsent("key", [1]) }
    // Fails once, and is tried again.
    #expect(try await store.get("key") == [1])
  }

  @Test func aStoreThatAsksForAPauseGetsIt() async throws {
    let script = ScriptedStore(script: [.fail(.busy("slow down", retryAfter: .seconds(7)))])
    let pauses = Lock<[Duration]>([])
    let store = RetryingStore(script, sleep: { pause in pauses.withLock { $0.append(pause) } })
    _ = try await store.putIfAbsent("key", [1])
    let slept = pauses.withLock { $0 }
    #expect(slept.count == 1)
    #expect(slept[0] >= .seconds(7) && slept[0] <= .seconds(7) + .milliseconds(100))
  }

  @Test func aPauseThatIsTooLongIsTheCallers() async {
    let script = ScriptedStore(then: .fail(.busy("come tomorrow", retryAfter: .seconds(86_400))))
    let store = RetryingStore(script, sleep: { _ in Issue.record("it slept") })
    await #expect(throws: StoreError.unavailable("come tomorrow")) { try await store.get("key") }
    #expect(script.calls == 1)
  }

  @Test func itIsNotTriedAgainOnceItIsKnownToBeAway() async {
    let script = ScriptedStore(then: Self.down)
    let store = RetryingStore(
      script, isWorthIt: { false }, sleep: { _ in Issue.record("it slept") })
    await #expect(throws: StoreError.unavailable("down")) { try await store.get("key") }
    #expect(script.calls == 1)
  }

  /// However many ask, a backend that is down for long gets a small call now and then.
  @Test(arguments: [1, 10, 300]) func aStoreThatIsDownIsLeftAlone(_ callers: Int) async throws {
    let script = ScriptedStore(then: Self.down)
    let clock = VirtualClock()
    let reachability = Reachability(
      probe: script, clock: clock, monotonic: { clock.now }, sleep: { try await clock.sleep($0) })
    let store = ReachableStore(
      RetryingStore(script, isWorthIt: { reachability.isReachable }, sleep: { _ in }), reachability)
    func everybodyAsks() async {
      await withTaskGroup { group in
        for number in 0..<callers {
          group.addTask { _ = try? await store.get("key\(number)") }
        }
      }
    }
    await everybodyAsks()
    #expect(!reachability.isReachable)
    let first = script.calls
    #expect(first <= callers + 32 + callers)
    for second in 0..<300 {
      await everybodyAsks()
      clock.advance(.seconds(1))
      if second % 10 == 0 {
        try await eventually("the next try waits for the clock") { clock.sleepers > 0 }
      }
    }
    // One in five seconds while somebody asks, and a few at the start.
    #expect(script.calls - first <= 300 / 5 + 8)
  }
}
