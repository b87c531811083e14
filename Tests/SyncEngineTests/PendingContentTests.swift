import Backend
import Catalog
import Coordination
import Logging
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
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
    let number = try await announced("Documents/file", to: reader)
    reader.coordinator.opened(number, forWriting: false)
    let reading = Task { try await reader.readOpen(number) }
    try await eventually("the download has begun") { reader.sync.fetcher.activeCount > 0 }
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

  /// Waits until a device has the name of a file that another one announces.
  private func announced(_ path: String, to device: EngineDevice) async throws -> InodeNumber {
    try await eventually("the device has the name") {
      try await device.sync.sync()
      return try device.find(path) != nil
    }
    return try #require(try device.find(path)).number
  }

  @Test(
    "reading what its device has not uploaded says so after a moment, then fails as it is configured"
  )
  func unsentContent() async throws {
    for error in [Errno.timedOut, .ioError] {
      let store = HoldingStore(MemoryStore())
      let secret = AccountSecret.generate()
      let writer = try EngineDevice(store: store, secret: secret)
      var settings = SyncSettings()
      settings.unsent = UnsentContent(wait: .seconds(2), error: error, memory: .seconds(3600))
      let notices = NoticeCounter(of: "a program waits for the content")
      let reader = try EngineDevice(
        store: store, secret: secret, settings: settings, log: notices)
      store.isHeld.withLock { $0 = true }
      try writer.write("Documents/file", Array(repeating: 1, count: 1_000))
      let sending = Task { try await writer.sync.sync() }
      let number = try await announced("Documents/file", to: reader)
      let reading = Task { try await reader.readOpen(number) }
      try await eventually("the status says why the download waits") {
        reader.sync.transfer(of: number).downloadingError?.contains("not uploaded it yet") == true
      }
      await #expect(throws: FetchFailure.unsent(error)) { try await reading.value }
      #expect(FetchFailure.unsent(error).errno == error)
      // A program that reads on does not wait for the whole time again: a wait that begins anew is
      // logged again after a second, and lasts for two.
      for _ in 0..<5 {
        await #expect(throws: FetchFailure.unsent(error)) { try await reader.readOpen(number) }
      }
      #expect(notices.count == 1)
      // The content comes when it is uploaded, and nothing is told of it any more.
      store.isHeld.withLock { $0 = false }
      try await sending.value
      try await reader.sync.sync()
      #expect(try await reader.readOpen(number).count == 1_000)
      #expect(reader.sync.transfer(of: number).downloadingError == nil)
      await writer.end()
      await reader.end()
    }
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

/// Counts the messages that contain a text.
private struct NoticeCounter: LogHandler {
  private let text: String
  private let counted = Lock(0)
  var logLevel = Logger.Level.notice
  var metadata: Logger.Metadata = [:]

  init(of text: String) { self.text = text }

  var count: Int { counted.withLock { $0 } }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    if event.message.description.contains(text) { counted.withLock { $0 += 1 } }
  }
}

/// A backend that takes no contents while it is held.
private final class HoldingStore: ForwardingStore {
  let store: any ObjectStore
  let isHeld = Lock(false)

  init(_ store: any ObjectStore) { self.store = store }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    let deadline = Deadline("the test lets packs through", within: .seconds(600))
    while key.contains("/packs/"), isHeld.withLock({ $0 }) {
      if deadline.isOver { throw .unavailable("\(deadline.timeout)") }
      try? await Task.sleep(for: .milliseconds(5))
    }
    return try await store.putIfAbsent(key, bytes)
  }
}
