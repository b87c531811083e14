import Backend
import Coordination
import Foundation
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

/// Large contents on their way, and what goes on beside them.
@Suite(.serialized) struct LargeTransferTests {
  private static let large = 40 << 20

  /// Two devices at work, of which the first uploads `Documents/large` to a store that holds its
  /// packs.
  private func whileUploading(
    _ body: (EngineDevice, EngineDevice, NarrowStore) async throws -> Void
  ) async throws {
    let store = NarrowStore(MemoryStore())
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    let result: Result<Void, any Error>
    do {
      await first.sync.start()
      await second.sync.start()
      try await first.sync.sync(timeout: .seconds(240))
      store.holdsUploads.withLock { $0 = true }
      try first.write("Documents/large", noise(Self.large))
      try await eventually("the upload begins") { store.heldUploads > 0 }
      result = .success(try await body(first, second, store))
    } catch {
      result = .failure(error)
    }
    store.letGo()
    await first.end()
    await second.end()
    try result.get()
  }

  @Test("a small file passes a large upload, in both directions")
  func aSmallFilePassesALargeUpload() async throws {
    try await whileUploading { first, second, store in
      try first.write("Documents/small", Array(repeating: 1, count: 3_000))
      try await eventually("the other device has it") {
        try second.find("Documents/small") != nil
      }
      #expect(try await second.read("Documents/small").count == 3_000)
      try first.rename("Documents/small", "Documents/renamed")
      try await eventually("the other device has its name") {
        try second.find("Documents/renamed") != nil
      }
      try second.write("Documents/other", Array(repeating: 2, count: 3_000))
      try await eventually("this device has the other's file") {
        try first.find("Documents/other") != nil
      }
      #expect(store.heldUploads > 0)
      store.letGo()
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/large").count == Self.large)
    }
  }

  @Test("a small change passes the download of a large file's newer content")
  func aSmallFilePassesALargeDownload() async throws {
    let path = "Documents/large"
    try await whileDownloading([path], size: Self.large) { first, second, store in
      try await expectSmallChangesPass(first, second)
      // Until the newer content is local, the older one is.
      #expect(try await second.read(path) == noise(Self.large))
      store.letGo()
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read(path) == noise(Self.large, seed: 12))
    }
  }

  private func expectSmallChangesPass(_ first: EngineDevice, _ second: EngineDevice) async throws {
    try first.write("Documents/small", Array(repeating: 1, count: 3_000))
    try await eventually("the other device has the small file") {
      try second.find("Documents/small") != nil
    }
    try second.write("Documents/other", Array(repeating: 2, count: 3_000))
    try await eventually("this device has the other's file") {
      try first.find("Documents/other") != nil
    }
  }

  /// A device whose files have newer contents in a store that gives no large part of a pack.
  private func whileDownloading(
    _ paths: [String], size: Int, in directory: String? = nil,
    _ body: (EngineDevice, EngineDevice, NarrowStore) async throws -> Void
  ) async throws {
    let store = NarrowStore(MemoryStore())
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    let result: Result<Void, any Error>
    do {
      if let directory { try first.makeDirectory(directory) }
      for path in paths { try first.write(path, noise(size)) }
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      for path in paths { _ = try await second.read(path) }
      await first.sync.start()
      store.holdsDownloads.withLock { $0 = true }
      for (index, path) in paths.enumerated() {
        try first.write(path, noise(size, seed: 12 + UInt64(index)))
      }
      try await first.sync.sync(timeout: .seconds(240))
      // It sees all newer contents at once.
      await second.sync.start()
      result = .success(try await body(first, second, store))
    } catch {
      result = .failure(error)
    }
    store.letGo()
    await first.end()
    await second.end()
    try result.get()
  }

  @Test("a small change passes the downloads of many files' newer contents")
  func aSmallFilePassesManyDownloads() async throws {
    let paths = (0..<12).map { "Documents/\($0)" }
    try await whileDownloading(paths, size: 3 << 20) { first, second, store in
      // The cycle waits for two files, and then starts to bring others. The bytes that are left are
      // not enough for a third file, after which the cycle would wait for two more.
      store.letDownload(bytes: 7 << 20)
      try await expectSmallChangesPass(first, second)
      store.letGo()
      try await second.sync.sync(timeout: .seconds(240))
      for (index, path) in paths.enumerated() {
        #expect(try await second.read(path) == noise(3 << 20, seed: 12 + UInt64(index)))
      }
    }
  }

  @Test("the newer contents of a package's large files come one after the other")
  func largeFilesOfAPackage() async throws {
    let paths = (0..<3).map { "Documents/p.pages/\($0)" }
    try await whileDownloading(paths, size: 9 << 20, in: "Documents/p.pages") { _, second, store in
      store.letGo()
      try await second.sync.sync(timeout: .seconds(240))
      for (index, path) in paths.enumerated() {
        #expect(try await second.read(path) == noise(9 << 20, seed: 12 + UInt64(index)))
      }
    }
  }

  @Test("sync does not return before a large upload is in the log")
  func syncWaitsForUploads() async throws {
    try await whileUploading { first, _, store in
      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .milliseconds(300))
      }
      store.letGo()
      try await first.sync.sync(timeout: .seconds(240))
      #expect(try first.catalog.differing() == [])
    }
  }

  @Test("removing a file ends its upload and frees its blocks")
  func aRemovedFileStopsUploading() async throws {
    try await whileUploading { first, _, store in
      let inode = try #require(try first.find("Documents/large"))
      let key = ContentKey(item: inode.item, generation: inode.generation)
      #expect(first.content.exists(key))
      try first.remove("Documents/large")
      try await eventually("its blocks are free") {
        try !first.content.exists(key) && first.openWithoutName() == 0
      }
      try await eventually("nothing is sent any more") { store.heldUploads == 0 }
      store.letGo()
      try await first.sync.sync(timeout: .seconds(240))
      #expect(try first.catalog.sentChunks(since: Timestamp(nanoseconds: 0)) == [])
    }
  }

  @Test("a file that is written to stops uploading, and its new content is uploaded")
  func aChangedFileStopsUploading() async throws {
    try await whileUploading { first, second, store in
      let before = store.refusedUploads
      try first.write("Documents/large", Array(repeating: 3, count: 5_000))
      try await eventually("the old content is abandoned") {
        store.refusedUploads > before
      }
      try await eventually("the new content is there") {
        try second.find("Documents/large")?.size == 5_000
      }
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/large") == Array(repeating: 3, count: 5_000))
    }
  }

  @Test("a file that is saved again and again does not hold up the others of its size")
  func aRestlessFileLetsOthersPass() async throws {
    let store = NarrowStore(MemoryStore())
    let device = try EngineDevice(store: store, secret: .generate())
    let result: Result<Void, any Error>
    do {
      store.holdsUploads.withLock { $0 = true }
      try device.write("Documents/restless", noise(Self.large))
      try device.write("Documents/other", noise(Self.large + (4 << 20), seed: 13))
      let restless = try #require(try device.find("Documents/restless"))
      let other = try #require(try device.find("Documents/other"))
      await device.sync.start()
      try await eventually("the first one is being sent") {
        try store.heldUploads > 0 && device.coordinator.status(of: restless.number).isUploading
      }
      try device.write("Documents/restless", noise(Self.large, seed: 14))
      try await eventually("then the other one is sent") {
        try device.coordinator.status(of: other.number).isUploading
      }
      result = .success(())
    } catch {
      result = .failure(error)
    }
    store.letGo()
    await device.end()
    try result.get()
  }

  @Test("stopping a device ends its uploads, and what is up need not be sent again")
  func aStoppedDeviceGoesOnLater() async throws {
    let store = NarrowStore(MemoryStore())
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: store, secret: secret)
    await first.sync.start()
    try await first.sync.sync(timeout: .seconds(240))
    store.packsUntilHeld.withLock { $0 = 2 }
    store.holdsUploads.withLock { $0 = true }
    try first.write("Documents/large", noise(Self.large))
    try await eventually("the upload begins") { store.heldUploads > 0 }
    try await eventually("two packs are up") {
      try !first.catalog.sentChunks(since: Timestamp(nanoseconds: 0)).isEmpty
    }
    await first.stop()
    #expect(store.heldUploads == 0)
    store.letGo()
    let meter = MeteredStore(store)
    let again = try EngineDevice(store: meter, secret: secret, after: first)
    try await again.sync.sync(timeout: .seconds(240))
    #expect(meter.traffic.bytesUploaded < UInt64(Self.large - (8 << 20)))
    await again.end()
  }
}

/// Bytes that do not compress.
private func noise(_ count: Int, seed: UInt64 = 11) -> [UInt8] {
  var state = seed
  var words = [UInt64](repeating: 0, count: count / 8)
  for index in words.indices {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    words[index] = state ^ state >> 29
  }
  return words.withUnsafeBytes { Array($0) }
}

/// A way to the backend that packs of more than a mebibyte do not get through while it holds them.
private final class NarrowStore: ForwardingStore {
  private struct State {
    var held = 0
    var refused = 0
  }

  let store: any ObjectStore
  private let state = Lock(State())
  let holdsUploads = Lock(false)
  let holdsDownloads = Lock(false)
  /// So many packs still get through.
  let packsUntilHeld = Lock(0)
  private let bytesUntilHeld = Lock(0)

  init(_ store: any ObjectStore) { self.store = store }
  var heldUploads: Int { state.withLock { $0.held } }
  var refusedUploads: Int { state.withLock { $0.refused } }

  func letGo() {
    holdsUploads.withLock { $0 = false }
    holdsDownloads.withLock { $0 = false }
  }

  /// Lets held downloads through, and small parts of the same files, until they are so many bytes.
  func letDownload(bytes: Int) { bytesUntilHeld.withLock { $0 += bytes } }

  private func hold(
    _ gate: Lock<Bool>, bytes: Int = 0, passing: Lock<Int>? = nil
  ) async throws(StoreError) {
    let deadline = Deadline("the test lets packs through", within: .seconds(600))
    while gate.withLock({ $0 }) {
      let mayPass = passing?.withLock { left in
        guard left >= bytes else { return false }
        left -= bytes
        return true
      }
      if mayPass == true { break }
      if Task.isCancelled { throw .cancelled }
      if deadline.isOver { throw .unavailable("\(deadline.timeout)") }
      try? await Task.sleep(for: .milliseconds(5))
    }
    if Task.isCancelled { throw .cancelled }
  }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    let bytes = range?.count ?? 0
    if StoreKey.isPack(key), bytes > 64 << 10 {
      try await hold(holdsDownloads, bytes: bytes, passing: bytesUntilHeld)
    }
    return try await store.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    if StoreKey.isPack(key), bytes.count > 1 << 20 {
      let mayPass = packsUntilHeld.withLock { left in
        left -= 1
        return left >= 0
      }
      if !mayPass {
        state.withLock { $0.held += 1 }
        defer { state.withLock { $0.held -= 1 } }
        do throws(StoreError) {
          try await hold(holdsUploads)
        } catch {
          state.withLock { $0.refused += 1 }
          throw error
        }
      }
    }
    return try await store.putIfAbsent(key, bytes)
  }
}
