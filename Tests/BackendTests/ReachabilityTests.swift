import Backend
import Platform
import TestWaiting
import Testing

@Suite struct ReachabilityTests {
  private static let down = ScriptedStore.Step.fail(.unavailable("down"))

  /// A store, the way to it, and what was told.
  private struct Fixture {
    let script: ScriptedStore
    let clock = VirtualClock()
    let told = Lock<[String?]>([])
    let reachability: Reachability
    let store: ReachableStore

    init(_ steps: [ScriptedStore.Step], then rest: ScriptedStore.Step = .work) {
      let script = ScriptedStore(script: steps, then: rest)
      let (clock, told) = (clock, told)
      self.script = script
      reachability = Reachability(
        probe: script, clock: clock, monotonic: { clock.now },
        sleep: { try await clock.sleep($0) },
        changed: { outage in told.withLock { $0.append(outage?.reason) } })
      store = ReachableStore(script, reachability)
    }

    func fails() async {
      await #expect(throws: StoreError.unavailable("down")) { try await store.get("key") }
    }
  }

  @Test func aBackendThatIsAwayIsNotAsked() async {
    let fixture = Fixture([], then: Self.down)
    await fixture.fails()
    #expect(fixture.reachability.outage?.reason == "down")
    #expect(fixture.reachability.outage?.since == 1_000_000_000)
    // The call, and the small one.
    #expect(fixture.script.calls == 2)
    for _ in 0..<10 {
      await #expect(throws: StoreError.unreachable("down")) { try await fixture.store.get("key") }
    }
    #expect(fixture.script.calls == 2)
    #expect(fixture.told.withLock { $0 } == ["down"])
  }

  @Test func oneObjectThatFailsIsNoOutage() async throws {
    let fixture = Fixture([Self.down, .work, Self.down, .work])
    await fixture.fails()
    await fixture.fails()
    #expect(fixture.reachability.isReachable)
    #expect(try await fixture.store.putIfAbsent("key", [1]))
    #expect(fixture.told.withLock { $0.isEmpty })
  }

  @Test(arguments: [
    StoreError.notFound("key"), .notPermitted("no"), .noSpace("full"), .invalid("odd"),
  ])
  func aRefusalIsNoOutage(_ error: StoreError) async {
    let fixture = Fixture([.fail(error)])
    await #expect(throws: error) { try await fixture.store.get("key") }
    #expect(fixture.reachability.isReachable)
    #expect(fixture.script.calls == 1)
  }

  @Test func itComesBackByItselfAndListenersAreTold() async throws {
    let fixture = Fixture([Self.down, Self.down, Self.down])
    var news = fixture.store.news(prefix: "log/").makeAsyncIterator()
    await fixture.fails()
    try await eventually("the next try waits for the clock") { fixture.clock.sleepers == 1 }
    fixture.clock.advance(.seconds(1))
    try await eventually("the next try has failed too") {
      fixture.script.calls == 3 && fixture.clock.sleepers == 1
    }
    fixture.clock.advance(.seconds(2))
    #expect(await news.next() != nil)
    #expect(fixture.reachability.isReachable)
    #expect(fixture.told.withLock { $0 } == ["down", nil])
    #expect(try await fixture.store.putIfAbsent("key", [1]))
  }

  @Test func pausesGrowToAMinute() async throws {
    let script = ScriptedStore(script: Array(repeating: Self.down, count: 12))
    let pauses = Lock<[Duration]>([])
    let reachability = Reachability(
      probe: script, sleep: { pause in pauses.withLock { $0.append(pause) } })
    let store = ReachableStore(script, reachability)
    _ = try? await store.get("key")
    try await eventually("the store is reachable") { reachability.isReachable }
    let slept = pauses.withLock { $0 }
    #expect(slept.count == 11)
    for (index, pause) in slept.enumerated() {
      let longest = Duration.seconds(min(60, 1 << index))
      #expect(pause >= longest * 0.5 && pause <= longest, "\(index): \(pause)")
    }
  }

  @Test func aHintBringsTheNextTryNear() async throws {
    let fixture = Fixture([Self.down, Self.down])
    await fixture.fails()
    try await eventually("the next try waits for the clock") { fixture.clock.sleepers == 1 }
    fixture.reachability.hint()
    try await eventually("the store is reachable") { fixture.reachability.isReachable }
    #expect(fixture.script.calls == 3)
  }

  @Test func whoAsksByNameIsTriedForAtOnce() async {
    let fixture = Fixture([Self.down, Self.down, Self.down])
    await fixture.fails()
    #expect(await fixture.reachability.verify()?.reason == "down")
    #expect(await fixture.reachability.verify() == nil)
    #expect(fixture.reachability.isReachable)
    let calls = fixture.script.calls
    #expect(await fixture.reachability.verify() == nil)
    #expect(fixture.script.calls == calls)
  }

  /// A lost network makes connections hang for long: it is found out before.
  @Test func aDoubtIsLookedInto() async {
    let fixture = Fixture([.work, Self.down])
    await fixture.reachability.doubt()
    #expect(fixture.reachability.isReachable)
    fixture.clock.advance(.seconds(1))
    await fixture.reachability.doubt()
    #expect(!fixture.reachability.isReachable)
  }

  @Test func airplaneModeEndsTheTrying() async throws {
    let script = ScriptedStore(then: Self.down)
    let offline = OfflineSwitch()
    let clock = VirtualClock()
    let reachability = Reachability(
      probe: GatedStore(script, offline: offline), clock: clock, monotonic: { clock.now },
      sleep: { try await clock.sleep($0) })
    let store = ReachableStore(script, reachability)
    _ = try? await store.get("key")
    try await eventually("the next try waits for the clock") { clock.sleepers == 1 }
    offline.set(offline: true)
    let calls = script.calls
    for _ in 0..<5 {
      clock.advance(.seconds(60))
      await Task.yield()
    }
    try await eventually("no try waits for the clock") { clock.sleepers == 0 }
    #expect(script.calls == calls)
    #expect(!reachability.isReachable)
    // Online again it goes on.
    offline.set(offline: false)
    reachability.hint()
    try await eventually("one more try has failed") {
      script.calls == calls + 1 && clock.sleepers == 1
    }
  }

  @Test func aStoreThatAsksForAPauseIsAwayForThatLong() async throws {
    let busy = StoreError.busy("slow down", retryAfter: .seconds(20))
    let script = ScriptedStore(script: [.fail(busy), .fail(busy), .fail(busy)])
    let pauses = Lock<[Duration]>([])
    let reachability = Reachability(
      probe: script, sleep: { pause in pauses.withLock { $0.append(pause) } })
    _ = try? await ReachableStore(script, reachability).get("key")
    try await eventually("the store is reachable") { reachability.isReachable }
    let slept = pauses.withLock { $0 }
    #expect(slept.count == 2)
    #expect(slept[1] >= .seconds(20))
  }
}
