import Backend
import Model
import Platform
import RemoteStore
import SyncEngine
import Testing

/// Uploads that were interrupted, and the order in which contents go up.
@Suite(.serialized) struct ResumedUploadTests {
  /// The device stops when a part of a large file is in the backend. What is there is not sent
  /// again.
  @Test func whatIsUpStaysUp() async throws {
    let meter = MeteredStore(MemoryStore())
    let store = ClosingStore(meter)
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: meter, secret: secret)
    let bytes = noise(60 << 20)
    try first.write("Documents/large", bytes)
    store.packsLeft.withLock { $0 = 4 }
    await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
    await first.stop()

    store.packsLeft.withLock { $0 = .max }
    let before = meter.traffic.bytesUploaded
    let again = try EngineDevice(store: store, secret: secret, after: first)
    try await again.sync.sync()
    let sent = meter.traffic.bytesUploaded - before
    #expect(sent < 32 << 20, "\(sent) bytes went up again")
    #expect(try again.catalog.sentChunks(since: Timestamp(nanoseconds: 0)) == [])
    try await second.sync.sync()
    #expect(try await second.read("Documents/large") == bytes)
    await again.end()
    await second.end()
  }

  @Test("an upload goes on after a stop without the packs that the store lost meanwhile")
  func lostPacksAreSentAgain() async throws {
    let memory = MemoryStore()
    let store = ClosingStore(memory)
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: memory, secret: secret)
    let bytes = noise(60 << 20)
    try await first.sync.sync()
    try first.write("Documents/large", bytes)
    store.packsLeft.withLock { $0 = 4 }
    await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
    await first.stop()
    var lost = 0
    for key in try await memory.list(prefix: "containers/", after: nil, limit: .max)
    where StoreKey.isPack(key) {
      try await memory.delete(key)
      lost += 1
    }
    #expect(lost > 0)

    store.packsLeft.withLock { $0 = .max }
    let again = try EngineDevice(store: store, secret: secret, after: first)
    try await again.sync.sync()
    try await second.sync.sync()
    #expect(try await second.read("Documents/large") == bytes)
    await again.end()
    await second.end()
  }

  /// An interrupted content that is removed meanwhile leaves nothing to remember.
  @Test func whatIsNotWantedAnyMoreIsForgotten() async throws {
    let store = ClosingStore(MemoryStore())
    let device = try EngineDevice(store: store, secret: .generate())
    try device.write("Documents/large", noise(60 << 20))
    store.packsLeft.withLock { $0 = 2 }
    await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
    #expect(try !device.catalog.sentChunks(since: Timestamp(nanoseconds: 0)).isEmpty)
    try device.remove("Documents/large")
    store.packsLeft.withLock { $0 = .max }
    try await device.sync.sync()
    #expect(try device.catalog.sentChunks(since: Timestamp(nanoseconds: 0)) == [])
    await device.end()
  }
}

/// Bytes that do not compress.
private func noise(_ count: Int) -> [UInt8] {
  var state: UInt64 = 7
  var words = [UInt64](repeating: 0, count: count / 8)
  for index in words.indices {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    words[index] = state ^ state >> 29
  }
  return words.withUnsafeBytes { Array($0) }
}

/// Takes a number of packs, and then no more, nor segments: a backend whose disk is full.
final class ClosingStore: ForwardingStore {
  let store: any ObjectStore
  let packsLeft = Lock(Int.max)

  init(_ store: any ObjectStore) { self.store = store }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    if key.contains("/packs/") {
      let isOpen = packsLeft.withLock { left in
        left -= 1
        return left >= 0
      }
      guard isOpen else { throw .noSpace("the backend is full") }
    }
    return try await store.putIfAbsent(key, bytes)
  }
}

/// Bytes that do not compress.
private enum Random {
  static func bytes(_ count: Int) -> [UInt8] {
    var words = [UInt64](repeating: 0, count: (count + 7) / 8)
    for index in words.indices { words[index] = .random(in: 0 ... .max) }
    return words.withUnsafeBytes { Array($0.prefix(count)) }
  }
}
