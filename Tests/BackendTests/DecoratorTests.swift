import Backend
import Platform
import Testing

@Suite struct DecoratorTests {
  @Test func trafficIsCounted() async throws {
    let store = MeteredStore(MemoryStore())
    _ = try await store.putIfAbsent("a", [1, 2, 3])
    try await store.replace("b", [1])
    _ = try await store.get("a", range: 0..<2)
    _ = try? await store.get("none")
    _ = try await store.list(prefix: "", after: nil, limit: 9)
    try await store.delete("a")
    var expected = TrafficCounters()
    expected.bytesUploaded = 4
    expected.bytesDownloaded = 2
    expected.puts = 2
    expected.gets = 2
    expected.lists = 1
    expected.deletes = 1
    #expect(store.traffic == expected)
    #expect(store.traffic.requests == 6)
  }

  @Test func offlineNothingGoesOut() async throws {
    let meter = MeteredStore(MemoryStore())
    let offline = OfflineSwitch(isOffline: true)
    let store = GatedStore(meter, offline: offline)
    await #expect(throws: StoreError.offline) { try await store.get("a") }
    await #expect(throws: StoreError.offline) { try await store.putIfAbsent("a", []) }
    await #expect(throws: StoreError.offline) { try await store.replace("a", []) }
    await #expect(throws: StoreError.offline) { try await store.delete("a") }
    await #expect(throws: StoreError.offline) {
      try await store.list(prefix: "", after: nil, limit: 1)
    }
    #expect(meter.traffic == TrafficCounters())
    offline.set(offline: false)
    #expect(try await store.putIfAbsent("a", []))
  }

  @Test func goingOfflineEndsWhatIsUnderWay() async throws {
    let slow = ScriptedStore(script: [.hang])
    let offline = OfflineSwitch()
    let store = GatedStore(slow, offline: offline)
    let call = Task { try await store.get("a") }
    await slow.waitForCall()
    offline.set(offline: true)
    await #expect(throws: StoreError.offline) { try await call.value }
  }

  @Test func goingOnlineIsNews() async throws {
    let offline = OfflineSwitch(isOffline: true)
    let store = GatedStore(MemoryStore(), offline: offline)
    var news = store.news(prefix: "log/").makeAsyncIterator()
    offline.set(offline: false)
    #expect(await news.next() != nil)
  }

  @Test func unavailableIsTriedAgainWithGrowingPauses() async throws {
    let script = ScriptedStore(script: [.fail(.unavailable("x")), .fail(.unavailable("x")), .work])
    let pauses = Lock<[Duration]>([])
    let store = RetryingStore(script) { pause in pauses.withLock { $0.append(pause) } }
    _ = try await store.putIfAbsent("a", [1])
    let slept = pauses.withLock { $0 }
    #expect(slept.count == 2)
    #expect(slept[0] >= .milliseconds(50) && slept[0] <= .milliseconds(100))
    #expect(slept[1] >= .milliseconds(100) && slept[1] <= .milliseconds(200))
  }

  @Test func tryingEnds() async throws {
    let script = ScriptedStore(
      script: Array(repeating: .fail(.unavailable("x")), count: 4) + [.work])
    let store = RetryingStore(script) { _ in }
    await #expect(throws: StoreError.unavailable("x")) { try await store.putIfAbsent("a", [1]) }
    #expect(try await store.putIfAbsent("a", [1]))
  }

  @Test(arguments: [
    StoreError.offline, .noSpace("x"), .notPermitted("x"), .notFound("x"), .cancelled,
  ])
  func otherErrorsAreNotTriedAgain(_ error: StoreError) async throws {
    let script = ScriptedStore(script: [.fail(error), .work])
    let store = RetryingStore(script) { _ in Issue.record("it slept") }
    await #expect(throws: error) { try await store.get("a") }
  }

  @Test func aCancelledPauseEndsTheCall() async throws {
    let script = ScriptedStore(script: [.fail(.unavailable("x")), .work])
    let store = RetryingStore(script) { _ in throw CancellationError() }
    await #expect(throws: StoreError.cancelled) { try await store.get("a") }
  }
}

/// Does with each call what its script says, then works as memory does.
private final class ScriptedStore: ObjectStore {
  enum Step {
    case work
    case fail(StoreError)
    /// Until the test ends, whether cancelled or not.
    case hang
  }

  private let script: Lock<[Step]>
  private let memory = MemoryStore()
  private let called = AsyncStream<Void>.makeStream()

  init(script: [Step]) { self.script = Lock(script.reversed()) }

  var description: String { "script" }

  func waitForCall() async {
    var calls = called.stream.makeAsyncIterator()
    await calls.next()
  }

  private func step() async throws(StoreError) {
    called.continuation.yield()
    switch script.withLock({ $0.popLast() }) ?? .work {
    case .work: return
    case .fail(let error): throw error
    case .hang:
      let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
      let waiting = Task.detached { for await _ in stream {} }
      await waiting.value
      continuation.finish()
    }
  }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await step()
    return try await memory.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await step()
    return try await memory.putIfAbsent(key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await step()
    try await memory.replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await step()
    return try await memory.list(prefix: prefix, after: after, limit: limit)
  }

  func delete(_ key: String) async throws(StoreError) {
    try await step()
    try await memory.delete(key)
  }

  func news(prefix: String) -> AsyncStream<Void> { memory.news(prefix: prefix) }
}
