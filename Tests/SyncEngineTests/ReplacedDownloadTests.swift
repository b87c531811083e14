import Backend
import Catalog
import ContentStore
import Coordination
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

/// Downloads that are under way while what they are of, or who wants it, goes away.
@Suite(.serialized) struct ReplacedDownloadTests {
  /// A writer, and a reader that has `Documents/file` by name alone.
  private func withReader(
    _ size: Int, _ body: (EngineDevice, EngineDevice, HeldReads) async throws -> Void
  ) async throws {
    let store = HeldReads(MemoryStore())
    let secret = AccountSecret.generate()
    let writer = try EngineDevice(store: store, secret: secret)
    // The test holds answers for as long as other things take.
    var settings = SyncSettings()
    settings.answerLimit = .seconds(600)
    let reader = try EngineDevice(store: store, secret: secret, settings: settings)
    let result: Result<Void, any Error>
    do {
      try writer.write("Documents/file", noise(size, seed: 1))
      try await settle(writer, reader)
      result = .success(try await body(writer, reader, store))
    } catch { result = .failure(error) }
    store.isHeld.withLock { $0 = false }
    await writer.end()
    await reader.end()
    try result.get()
  }

  /// Nobody has it open, so that the same inode gets the new version. Who reads it then is not
  /// answered with what came of the old one, and who asked for all of it gets the new one.
  @Test func whatIsReplacedIsNotTakenForItsSuccessor() async throws {
    let size = 3 << 20
    let new = noise(2 * size, seed: 2)
    try await withReader(size) { writer, reader, store in
      let inode = try #require(try reader.find("Documents/file"))
      try await fetched(inode.number, 0..<1000, on: reader).value
      store.isHeld.withLock { $0 = true }
      let whole = fetched(inode.number, 0..<UInt64(size), on: reader)
      try await eventually("the store holds a read") { store.waiting.withLock { $0 } > 0 }
      try writer.write("Documents/file", new)
      try await writer.sync.sync()
      try await reader.sync.sync()
      let now = try #require(try reader.find("Documents/file"))
      #expect(now.number == inode.number && now.generation != inode.generation)
      let beginning = fetched(inode.number, 0..<1000, on: reader)
      store.isHeld.withLock { $0 = false }
      try await beginning.value
      let key = ContentKey(item: now.item, generation: now.generation)
      let isThere =
        try reader.catalog.inode(now.number).content == .local
        || reader.content.existingPartial(key)?.isPresent(0..<1000) ?? false
      #expect(isThere, "it was told of bytes that are not there")
      try await whole.value
      #expect(try reader.catalog.inode(now.number).content == .local)
      #expect(try await reader.read("Documents/file") == new)
    }
  }

  /// What is on its way comes, and no more.
  @Test func whatNobodyWaitsForAnyMoreStops() async throws {
    let size = 48 << 20
    try await withReader(size) { _, reader, store in
      let inode = try #require(try reader.find("Documents/file"))
      store.isHeld.withLock { $0 = true }
      let ticket = reader.sync.fetcher.fetch(
        inode.number, range: 0..<UInt64(size), cause: DownloadCause(.command)
      ) { _ in }
      try await eventually("the store holds a read") { store.waiting.withLock { $0 } > 0 }
      ticket.cancel()
      store.isHeld.withLock { $0 = false }
      try await eventually("no download is under way") { reader.sync.fetcher.activeCount == 0 }
      #expect(try reader.catalog.inode(inode.number).content == .remote)
      // Another one brings the rest.
      #expect(try await reader.read("Documents/file") == noise(size, seed: 1))
    }
  }

  @Test("a download of a file that a read is downloading brings all of it")
  func downloadDuringARead() async throws {
    let size = 12 << 20
    try await withReader(size) { _, reader, store in
      let inode = try #require(try reader.find("Documents/file"))
      reader.coordinator.setFetcher(reader.sync.fetcher)
      store.isHeld.withLock { $0 = true }
      let beginning = fetched(inode.number, 0..<1000, on: reader)
      try await eventually("the store holds a read") { store.waiting.withLock { $0 } > 0 }
      reader.sync.fetcher.fetchInBackground(inode.number, cause: DownloadCause(.command))
      store.isHeld.withLock { $0 = false }
      try await beginning.value
      try await eventually("the content is not remote") {
        try reader.catalog.inode(inode.number).content != .remote
      }
      #expect(try reader.catalog.inode(inode.number).content == .local)
    }
  }

  @Test("reading with keys that the store refuses fails with EACCES")
  func refusedKeys() async throws {
    try await withReader(1 << 20) { _, reader, store in
      let inode = try #require(try reader.find("Documents/file"))
      store.refusal.withLock { $0 = "the bucket does not know the access key" }
      do {
        try await fetched(inode.number, 0..<1000, on: reader).value
        Issue.record("the store gave bytes")
      } catch let failure as FetchFailure {
        #expect(failure.errno == .permissionDenied)
        #expect(failure.description.hasPrefix("the backend refuses the access keys"))
      }
      store.refusal.withLock { $0 = nil }
      try await fetched(inode.number, 0..<1000, on: reader).value
    }
  }

  private func fetched(
    _ number: InodeNumber, _ range: Range<UInt64>, on device: EngineDevice
  ) -> Task<Void, any Error> {
    Task {
      try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
        _ = device.sync.fetcher.fetch(number, range: range, cause: DownloadCause(.command)) {
          done.resume(with: $0.mapError { $0 as any Error })
        }
      }
    }
  }
}

/// Bytes that do not compress.
private func noise(_ count: Int, seed: UInt64) -> [UInt8] {
  var state = seed
  var words = [UInt64](repeating: 0, count: count / 8)
  for index in words.indices {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    words[index] = state ^ state >> 29
  }
  return words.withUnsafeBytes { Array($0) }
}

/// A backend whose packs cannot be read while it is held.
private final class HeldReads: ForwardingStore {
  let store: any ObjectStore
  let isHeld = Lock(false)
  let waiting = Lock(0)
  /// Why nothing may be read.
  let refusal = Lock<String?>(nil)

  init(_ store: any ObjectStore) { self.store = store }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    if let refusal = refusal.withLock({ $0 }) { throw .notPermitted(refusal) }
    if key.contains("/packs/"), isHeld.withLock({ $0 }) {
      waiting.withLock { $0 += 1 }
      let deadline = Deadline("the test lets reads through", within: .seconds(600))
      while isHeld.withLock({ $0 }) {
        if deadline.isOver { throw .unavailable("\(deadline.timeout)") }
        try? await Task.sleep(for: .milliseconds(5))
      }
    }
    return try await store.get(key, range: range)
  }
}
