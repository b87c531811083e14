import Backend
import Catalog
import Coordination
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// Files that another device has told of and not sent.
@Suite(.serialized) struct PendingContentTests {
  /// Two devices, of which the first has announced `Documents/file` and cannot send it yet; the
  /// second has it open and reads.
  private func whileAnnounced(
    _ change: (EngineDevice) async throws -> Void
  ) async throws -> Result<[UInt8], any Error> {
    let store = HoldingStore(MemoryStore())
    let secret = AccountSecret.generate()
    let writer = try EngineDevice(store: store, secret: secret)
    let reader = try EngineDevice(store: store, secret: secret)
    store.isHeld.withLock { $0 = true }
    try writer.write("Documents/file", Array(repeating: 1, count: 1_000))
    let sending = Task { try await writer.sync.sync() }
    var inode = try reader.find("Documents/file")
    while inode == nil {
      try await reader.sync.sync()
      inode = try reader.find("Documents/file")
    }
    let number = try #require(inode).number
    reader.coordinator.opened(number, forWriting: false)
    let reading = Task { try await reader.readOpen(number) }
    try await Task.sleep(for: .milliseconds(200))
    try await change(writer)
    store.isHeld.withLock { $0 = false }
    try await sending.value
    try await writer.sync.sync()
    try await reader.sync.sync()
    let result = await reading.result
    reader.coordinator.closed(number, forWriting: false)
    reader.coordinator.reclaim(number)
    await writer.end()
    await reader.end()
    return result
  }

  /// Nobody can send it any more: its reader is told so, and does not wait for the time limit.
  @Test func whatIsRemovedBeforeItIsSentIsStale() async throws {
    let result = try await whileAnnounced { try $0.remove("Documents/file") }
    #expect(throws: FetchFailure.neverSent) { try result.get() }
    #expect(FetchFailure.neverSent.errno == .staleNFSFileHandle)
  }

  /// The reader has read nothing yet; it gets what the file holds now.
  @Test func whatIsWrittenAgainBeforeItIsSentArrives() async throws {
    let new: [UInt8] = Array(repeating: 2, count: 3_000)
    let result = try await whileAnnounced { try $0.write("Documents/file", new) }
    #expect(try result.get() == new)
  }

  @Test func whatIsSentLateArrives() async throws {
    let result = try await whileAnnounced { _ in }
    #expect(try result.get() == Array(repeating: 1, count: 1_000))
  }
}

/// A backend that takes no contents while it is held.
private final class HoldingStore: ObjectStore {
  private let store: any ObjectStore
  let isHeld = Lock(false)

  init(_ store: any ObjectStore) { self.store = store }

  var description: String { store.description }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await store.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    while key.contains("/packs/"), isHeld.withLock({ $0 }) {
      try? await Task.sleep(for: .milliseconds(5))
    }
    return try await store.putIfAbsent(key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await store.replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await store.list(prefix: prefix, after: after, limit: limit)
  }

  func delete(_ key: String) async throws(StoreError) { try await store.delete(key) }

  func news(prefix: String) -> AsyncStream<Void> { store.news(prefix: prefix) }
}
