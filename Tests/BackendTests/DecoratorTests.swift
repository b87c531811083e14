import Backend
import Platform
import TestWaiting
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

  @Test func trafficIsCountedByContainer() async throws {
    let meter = MeteredStore(
      ScriptedStore(script: [.fail(.unavailable("x")), .fail(.busy("x", retryAfter: nil))]))
    let store = RetryingStore(meter, retrying: { meter.retrying($0) }, sleep: { _ in })
    _ = try await store.putIfAbsent("containers/a/log/1", [1, 2])
    _ = try await store.putIfAbsent("containers/b/packs/1", [1, 2, 3])
    _ = try await store.get("containers/b/packs/1", range: 0..<2)
    _ = try await store.list(prefix: "containers/a/log/", after: nil, limit: 9)
    try await store.replace("format", [1])
    var a = TrafficCounters()
    a.puts = 3
    a.retries = 2
    a.bytesUploaded = 6
    a.lists = 1
    #expect(meter.traffic(under: "containers/a/") == a)
    var b = TrafficCounters()
    b.puts = 1
    b.bytesUploaded = 3
    b.gets = 1
    b.bytesDownloaded = 2
    #expect(meter.traffic(under: "containers/b/") == b)
    #expect(meter.traffic(under: "containers/c/") == TrafficCounters())
    #expect(meter.traffic.requests == 7)
    #expect(meter.traffic.retries == 2)
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

  @Test func offlineNobodyListensToTheStore() async throws {
    let inner = ListenedStore()
    let offline = OfflineSwitch()
    let store = GatedStore(inner, offline: offline)
    let news = store.news(prefix: "log/")
    #expect(inner.listeners == 1)
    offline.set(offline: true)
    try await eventually("nobody listens to the store") { inner.listeners == 0 }
    offline.set(offline: false)
    try await eventually("somebody listens to the store") { inner.listeners == 1 }
    _ = news
  }

  @Test func unavailableIsTriedAgainWithGrowingPauses() async throws {
    let script = ScriptedStore(script: [.fail(.unavailable("x")), .fail(.unavailable("x")), .work])
    let pauses = Lock<[Duration]>([])
    let store = RetryingStore(script, sleep: { pause in pauses.withLock { $0.append(pause) } })
    _ = try await store.putIfAbsent("a", [1])
    let slept = pauses.withLock { $0 }
    #expect(slept.count == 2)
    #expect(slept[0] >= .zero && slept[0] <= .milliseconds(100))
    #expect(slept[1] >= .zero && slept[1] <= .milliseconds(200))
  }

  @Test func tryingEnds() async throws {
    let script = ScriptedStore(
      script: Array(repeating: .fail(.unavailable("x")), count: 4) + [.work])
    let store = RetryingStore(script, sleep: { _ in })
    await #expect(throws: StoreError.unavailable("x")) { try await store.putIfAbsent("a", [1]) }
    #expect(try await store.putIfAbsent("a", [1]))
  }

  @Test(arguments: [
    StoreError.offline, .noSpace("x"), .notPermitted("x"), .notFound("x"), .cancelled,
  ])
  func otherErrorsAreNotTriedAgain(_ error: StoreError) async throws {
    let script = ScriptedStore(script: [.fail(error), .work])
    let store = RetryingStore(script, sleep: { _ in Issue.record("it slept") })
    await #expect(throws: error) { try await store.get("a") }
  }

  @Test func aCancelledPauseEndsTheCall() async throws {
    let script = ScriptedStore(script: [.fail(.unavailable("x")), .work])
    let store = RetryingStore(script, sleep: { _ in throw CancellationError() })
    await #expect(throws: StoreError.cancelled) { try await store.get("a") }
  }
}

/// Counts who listens to it.
private final class ListenedStore: ObjectStore {
  private let memory = MemoryStore()
  private let count = Lock(0)

  var listeners: Int { count.withLock { $0 } }
  var description: String { "listened" }

  func news(prefix: String) -> AsyncStream<Void> {
    count.withLock { $0 += 1 }
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    continuation.onTermination = { [count] _ in count.withLock { $0 -= 1 } }
    return stream
  }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await memory.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await memory.putIfAbsent(key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await memory.replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await memory.list(prefix: prefix, after: after, limit: limit)
  }

  func delete(_ key: String) async throws(StoreError) { try await memory.delete(key) }
}
