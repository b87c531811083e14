import Backend
import Catalog
import Coordination
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

/// What the engine leaves alone while bytes cost money, and while the backend is known to be away.
@Suite(.serialized) struct MeteredTests {
  private func packs(_ store: MemoryStore) async throws -> Int {
    try await store.list(prefix: "containers/", after: nil, limit: 10_000)
      .filter { StoreKey.isPack($0) }.count
  }

  @Test func contentWaitsUntilItIsAskedFor() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let writer = try EngineDevice(store: store, secret: secret)
    let reader = try EngineDevice(store: store, secret: secret)
    writer.isMetered.withLock { $0 = true }
    await writer.sync.start()
    try writer.write("Documents/file", Array(repeating: 1, count: 100_000))
    // Its name goes.
    try await eventually("the reader has the name") {
      try await reader.sync.sync()
      return try reader.find("Documents/file") != nil
    }
    #expect(try await packs(store) == 0)
    #expect(await writer.sync.status().pendingUploads == 1)
    await writer.sync.sendNow()
    #expect(try await packs(store) == 1)
    try await reader.sync.sync()
    #expect(try await reader.read("Documents/file").count == 100_000)

    try writer.write("Documents/second", Array(repeating: 2, count: 100_000))
    try await eventually("the reader has the second name") {
      try await reader.sync.sync()
      return try reader.find("Documents/second") != nil
    }
    #expect(try await packs(store) == 1)
    // Nobody has to ask once it costs nothing.
    writer.isMetered.withLock { $0 = false }
    writer.sync.meteredChanged()
    try await eventually("the second pack is uploaded") { try await packs(store) != 1 }
    await writer.end()
    await reader.end()
  }

  @Test func greedyDownloadsWait() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let writer = try EngineDevice(store: store, secret: secret)
    let reader = try EngineDevice(store: store, secret: secret, policy: .greedy)
    reader.isMetered.withLock { $0 = true }
    await reader.sync.start()
    for name in ["a", "b", "c"] {
      try writer.write("Documents/\(name)", Array(name.utf8) + Array(repeating: 0, count: 9_999))
    }
    try await writer.sync.sync()
    try await reader.sync.sync()
    func here() throws -> [String] {
      try ["a", "b", "c"].filter { try reader.find("Documents/\($0)")?.content == .local }
    }
    #expect(try here() == [])
    // What a program reads comes, and what is asked for by name.
    #expect(try await reader.read("Documents/a").count == 10_000)
    let named = try #require(try reader.find("Documents/b")).number
    try reader.coordinator.startDownload(named, cause: DownloadCause(.command))
    try await eventually("the second file is local") { try here() == ["a", "b"] }
    reader.isMetered.withLock { $0 = false }
    reader.sync.meteredChanged()
    try await eventually("all files are local") { try here() == ["a", "b", "c"] }
    await writer.end()
    await reader.end()
  }

  @Test func anOutageIsSaidAndNothingIsTried() async throws {
    let script = MeteredStore(MemoryStore())
    let secret = AccountSecret.generate()
    let device = try EngineDevice(store: script, secret: secret)
    try device.write("Documents/file", Array(repeating: 1, count: 1000))
    try await device.sync.sync()
    let inode = try #require(try device.find("Documents/file"))
    try await device.coordinator.evictAfterLook(inode.number)
    try await device.sync.sync()
    device.outage.withLock { $0 = "the cable is cut" }
    // Nothing is under way that was begun before.
    let before = script.traffic
    await device.sync.start()
    await #expect(throws: SyncFailure.unreachable("the cable is cut")) {
      try await device.sync.sync()
    }
    let failure = FetchFailure.unreachable("the cable is cut")
    await #expect(throws: failure) { try await device.read("Documents/file") }
    #expect(failure.errno == .networkDown)
    #expect(script.traffic == before)
    device.sync.trigger()
    try await eventually("the status has an error") { await !device.sync.status().errors.isEmpty }
    #expect(
      await device.sync.status().errors == ["the backend cannot be reached: the cable is cut"])
    #expect(script.traffic == before)
    device.outage.withLock { $0 = nil }
    try await device.sync.sync()
    #expect(await device.sync.status().errors == [])
    #expect(try await device.read("Documents/file").count == 1000)
    await device.end()
  }
}
