import Backend
import Catalog
import Coordination
import Model
import Platform
import RemoteStore
import SyncEngine
import Testing

/// A greedy device whose budget is smaller than the container.
@Suite(.serialized) struct EagerBudgetTests {
  private final class Counter: DownloadObserving {
    let bytes = Lock<UInt64>(0)

    func fetched(_ bytes: UInt64, of number: InodeNumber, for cause: DownloadCause) {
      self.bytes.withLock { $0 += bytes }
    }

    func denied(_ number: InodeNumber, for cause: DownloadCause) {}
  }

  private static let size = 256 << 10

  private func content(_ seed: UInt64) -> [UInt8] {
    var state = seed &* 0x9E37_79B9_7F4A_7C15 &+ 1
    return (0..<Self.size).map { _ in
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return UInt8(truncatingIfNeeded: state >> 33)
    }
  }

  @Test(
    "eager downloads take the newest files that fit the budget, and evict nothing",
    arguments: [false, true])
  func newestThatFit(isLarge: Bool) async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let writer = try EngineDevice(store: store, secret: secret)
    var settings = SyncSettings()
    if isLarge { settings.manyItems.arrivals = 3 }
    let reader = try EngineDevice(
      store: store, secret: secret, policy: .greedy, settings: settings)
    let counter = Counter()
    reader.coordinator.setDownloadObserver(counter)
    // Three files and a little.
    let space = LocalSpace(
      limits: SpaceLimits(limit: .bytes(1 << 20)), directory: reader.directory)
    reader.coordinator.setSpace(space, uses: nil)
    space.add(LocalSpace.Member(reader.coordinator))
    let names = (0..<12).map { "file \($0)" }
    // Modified in another order than their names or identities have.
    for index in 0..<12 {
      try writer.write("Documents/\(names[index * 5 % 12])", content(UInt64(index)))
    }
    try await writer.sync.sync()
    await reader.sync.start()
    try await reader.sync.sync(timeout: .seconds(240))
    func here() throws -> [String] {
      try names.filter { try reader.find("Documents/\($0)")?.content == .local }
    }
    let newest = (9..<12).map { names[$0 * 5 % 12] }.sorted()
    for _ in 0..<3 {
      try await reader.sync.sync(timeout: .seconds(240))
      #expect(try here().sorted() == newest)
    }
    #expect(counter.bytes.withLock { $0 } == UInt64(3 * Self.size))
    // A file that a program reads comes all the same, and another one goes for it.
    let other = try #require(names.first { !newest.contains($0) })
    #expect(try await reader.read("Documents/\(other)").count == Self.size)
    #expect(try here().contains(other))
    space.stop()
    await writer.end()
    await reader.end()
  }

  @Test("eager downloads take a file that was used before newer ones that were not")
  func mostUsedFirst() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let writer = try EngineDevice(store: store, secret: secret)
    let reader = try EngineDevice(store: store, secret: secret)
    let space = LocalSpace(
      limits: SpaceLimits(limit: .bytes(1 << 20)), directory: reader.directory)
    reader.coordinator.setSpace(space, uses: try UseTimes(path: reader.directory + "/uses"))
    space.add(LocalSpace.Member(reader.coordinator))
    let names = (0..<9).map { "file \($0)" }
    for index in names.indices {
      try writer.write("Documents/\(names[index])", content(UInt64(index)))
    }
    try await writer.sync.sync()
    await reader.sync.start()
    try await reader.sync.sync(timeout: .seconds(240))
    let used = try #require(try reader.find("Documents/file 1"))
    #expect(used.content == .remote)
    reader.coordinator.noteUse(used.number)
    await reader.sync.setPolicy(.greedy)
    for _ in 0..<3 {
      try await reader.sync.sync(timeout: .seconds(240))
      let here = try names.filter { try reader.find("Documents/\($0)")?.content == .local }
      #expect(here == ["file 1", "file 7", "file 8"])
    }
    space.stop()
    await writer.end()
    await reader.end()
  }
}
