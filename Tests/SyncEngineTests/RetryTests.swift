import Backend
import ContentStore
import Model
import Platform
import RemoteStore
import SyncEngine
import TestWaiting
import Testing

/// Calls that cannot succeed are tried again seldom, and `status` says why.
@Suite struct RetryTests {
  @Test("a store that takes no segment is asked a few times and not without pause")
  func refusedSegments() async throws {
    let store = RefusingStore()
    let device = try EngineDevice(store: store, secret: .generate())
    await device.sync.start()
    try await device.sync.sync(timeout: .seconds(240))
    store.isRefusing.withLock { $0 = true }
    let before = store.calls
    try device.write("Documents/file", [1, 2, 3])
    try await waitForError(of: device)
    // Nothing tells that more calls do not happen.
    try await Task.sleep(for: .seconds(3))
    #expect(store.calls - before < 80)
    let errors = await device.sync.status().errors
    #expect(errors.contains { $0.contains("does not keep") }, "\(errors)")
    store.isRefusing.withLock { $0 = false }
    try await device.sync.sync(timeout: .seconds(240))
    #expect(await device.sync.status().errors == [])
    await device.end()
  }

  @Test("news do not make a cycle run that fails more often")
  func newsDuringFailure() async throws {
    let store = RefusingStore()
    let device = try EngineDevice(store: store, secret: .generate())
    await device.sync.start()
    try await device.sync.sync(timeout: .seconds(240))
    store.isRefusing.withLock { $0 = true }
    try device.write("Documents/file", [1, 2, 3])
    try await waitForError(of: device)
    let before = store.calls
    let news = Task {
      while !Task.isCancelled {
        store.touchLog()
        try? await Task.sleep(for: .milliseconds(5))
      }
    }
    // Nothing tells that more calls do not happen.
    try await Task.sleep(for: .seconds(3))
    news.cancel()
    #expect(store.calls - before < 80)
    await device.end()
  }

  @Test("a file that something writes to unseen is tried again with pauses, and goes up after that")
  func unseenWriter() async throws {
    let store = RefusingStore()
    let device = try EngineDevice(store: store, secret: .generate())
    try device.write("Documents/file", [1, 2, 3])
    let inode = try #require(try device.find("Documents/file"))
    let key = ContentKey(item: inode.item, generation: inode.generation)
    var writer: OpenFile? = try device.content.open(key, writable: true)
    let before = store.calls
    await #expect(throws: SyncFailure.self) { try await device.sync.sync(timeout: .seconds(3)) }
    #expect(store.calls - before < 200)
    try writer?.write([4], at: 0)
    writer = nil
    try await device.sync.sync(timeout: .seconds(240))
    #expect(try device.catalog.differing() == [])
    await device.end()
  }

  private func waitForError(of device: EngineDevice) async throws {
    try await eventually("the status has an error") { await !device.sync.status().errors.isEmpty }
  }

  @Test("rounds that bring nothing take longer and longer pauses, and end")
  func pace() {
    var pace = CyclePace()
    for _ in 0..<50 {
      guard case .goOn(nil) = pace.next(after: .moved) else {
        Issue.record("a round that moved something is followed at once")
        return
      }
    }
    guard case .goOn(.some) = pace.next(after: .moved) else {
      Issue.record("a cycle that goes on and on takes pauses")
      return
    }
    var refused = 0
    loop: while true {
      refused += 1
      switch pace.next(after: .refused) {
      case .goOn(let pause): #expect(pause != nil)
      case .end: break loop
      }
    }
    #expect(refused == 3)
  }
}

/// Says of every segment that another device was first, and shows none.
private final class RefusingStore: ObjectStore {
  private let store = MemoryStore()
  private let count = Lock(0)
  let isRefusing = Lock(false)

  var calls: Int { count.withLock { $0 } }
  var description: String { store.description }

  /// Says that something in the log may be new.
  func touchLog() {
    for continuation in listeners.withLock({ $0 }) { continuation.yield() }
  }

  private let listeners = Lock<[AsyncStream<Void>.Continuation]>([])

  private func refuses(_ key: String) -> Bool {
    count.withLock { $0 += 1 }
    return key.contains("/log/") && isRefusing.withLock { $0 }
  }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    let refuses = refuses(key)
    do throws(StoreError) {
      return try await store.get(key, range: range)
    } catch .notFound where refuses {
      return [0]
    }
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    refuses(key) ? false : try await store.putIfAbsent(key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    _ = refuses(key)
    try await store.replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    _ = refuses(prefix)
    return try await store.list(prefix: prefix, after: after, limit: limit)
  }

  func delete(_ key: String) async throws(StoreError) {
    _ = refuses(key)
    try await store.delete(key)
  }

  func news(prefix: String) -> AsyncStream<Void> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    listeners.withLock { $0.append(continuation) }
    return stream
  }
}
