import Backend
import Catalog
import Model
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// `store verify`: what the store lost is found, and uploaded again where a device has it.
@Suite struct VerifyTests {
  private static let contents = 12

  private struct Setting {
    let store = MemoryStore()
    let first: EngineDevice
    let second: EngineDevice

    init() throws {
      let secret = AccountSecret.generate()
      first = try EngineDevice(store: store, secret: secret)
      second = try EngineDevice(store: store, secret: secret)
    }

    func end() async {
      await first.end()
      await second.end()
    }

    func packs() async throws -> [String] {
      try await store.list(prefix: "containers/", after: nil, limit: 10_000)
        .filter { $0.contains("/packs/") }
    }
  }

  private func withSetting(_ body: (Setting) async throws -> Void) async throws {
    let setting = try Setting()
    for index in 0..<Self.contents {
      try setting.first.write("Documents/\(index)", Self.content(index))
    }
    try await settle(setting.first, setting.second)
    let result: Result<Void, any Error>
    do { result = .success(try await body(setting)) } catch { result = .failure(error) }
    await setting.end()
    try result.get()
  }

  private static func content(_ index: Int) -> [UInt8] {
    Array("the content of file number \(index)".utf8)
  }

  private func paths(_ problems: [VerifyProblem]) -> [String] {
    problems.map { problem in
      switch problem {
      case .object(let name, _): name
      case .item(let path, _): path.map(\.description).joined(separator: "/")
      }
    }.sorted()
  }

  private static var allPaths: [String] { (0..<contents).map { "Documents/\($0)" }.sorted() }

  @Test("a whole store is found whole", arguments: [false, true])
  func wholeStore(readsData: Bool) async throws {
    try await withSetting { setting in
      let report = try await setting.first.sync.verify(VerifyOptions(readsData: readsData))
      #expect(report.isWell)
      #expect(report.repaired == 0)
      #expect(report.objects > 1)
      #expect(report.checked == report.objects)
    }
  }

  @Test("packs that are gone are uploaded again from local content", arguments: [false, true])
  func missingPacks(readsData: Bool) async throws {
    try await withSetting { setting in
      for pack in try await setting.packs() { try await setting.store.delete(pack) }
      let report = try await setting.first.sync.verify(VerifyOptions(readsData: readsData))
      #expect(report.isWell)
      #expect(report.repaired == UInt64(Self.contents))
      #expect(try await setting.first.sync.verify(VerifyOptions(readsData: true)).isWell)
      try await settle(setting.first, setting.second)
      for index in 0..<Self.contents {
        #expect(try await setting.second.read("Documents/\(index)") == Self.content(index))
      }
      for index in 0..<Self.contents {
        #expect(try setting.first.find("Documents/\(index) 2") == nil)
      }
    }
  }

  @Test("a device without the content reports its paths, and the one that has it repairs")
  func reportedByPath() async throws {
    try await withSetting { setting in
      for pack in try await setting.packs() { try await setting.store.delete(pack) }
      let report = try await setting.second.sync.verify(VerifyOptions())
      #expect(paths(report.missing) == Self.allPaths)
      #expect(report.damaged.isEmpty)
      #expect(report.repaired == 0)
      // It is said again the next time.
      #expect(try await setting.second.sync.verify(VerifyOptions()).missing.count == Self.contents)
      #expect(try await setting.first.sync.verify(VerifyOptions()).isWell)
      try await settle(setting.first, setting.second)
      #expect(try await setting.second.sync.verify(VerifyOptions()).isWell)
    }
  }

  @Test("every flipped byte of a pack is found, and repaired", arguments: 0..<8)
  func flippedByte(place: Int) async throws {
    try await withSetting { setting in
      for pack in try await setting.packs() {
        var bytes = try await setting.store.get(pack)
        bytes[place * (bytes.count - 1) / 7] ^= 0x40
        try await setting.store.replace(pack, bytes)
      }
      // A list alone cannot see it.
      #expect(try await setting.first.sync.verify(VerifyOptions()).isWell)
      let report = try await setting.first.sync.verify(VerifyOptions(readsData: true))
      #expect(report.isWell)
      #expect(report.repaired > 0)
      try await settle(setting.first, setting.second)
      #expect(try await setting.second.sync.verify(VerifyOptions(readsData: true)).isWell)
      for index in 0..<Self.contents {
        #expect(try await setting.second.read("Documents/\(index)") == Self.content(index))
      }
    }
  }

  @Test("a pack that is cut short is found by its size")
  func shortPack() async throws {
    try await withSetting { setting in
      for pack in try await setting.packs() {
        try await setting.store.replace(pack, Array(try await setting.store.get(pack).prefix(60)))
      }
      let report = try await setting.second.sync.verify(VerifyOptions())
      #expect(!report.isWell)
      #expect(report.missing.isEmpty)
      #expect(!report.damaged.isEmpty)
      #expect(Set(paths(report.damaged)).isSubset(of: Self.allPaths))
    }
  }

  @Test("a new file with the bytes of lost content is uploaded, and brings that back")
  func noDeduplicationAgainstLostChunks() async throws {
    try await withSetting { setting in
      for pack in try await setting.packs() { try await setting.store.delete(pack) }
      #expect(try await setting.second.sync.verify(VerifyOptions()).missing.count == Self.contents)
      try setting.second.write("Documents/copy", Self.content(3))
      try await setting.second.sync.sync(timeout: .seconds(240))
      let report = try await setting.second.sync.verify(VerifyOptions())
      #expect(paths(report.missing) == Self.allPaths.filter { $0 != "Documents/3" })
      #expect(try await setting.second.read("Documents/3") == Self.content(3))
    }
  }

  @Test("a file whose content the store lost cannot be evicted before it is uploaded again")
  func noEvictionOfLostContent() async throws {
    try await withSetting { setting in
      for pack in try await setting.packs() { try await setting.store.delete(pack) }
      setting.first.isMetered.withLock { $0 = false }
      let inode = try #require(try setting.first.find("Documents/1"))
      // A file that a program writes to is uploaded when it is closed.
      setting.first.coordinator.opened(inode.number, forWriting: true)
      let report = try await setting.first.sync.verify(VerifyOptions())
      #expect(report.pending == 1)
      #expect(!report.isWell)
      setting.first.coordinator.closed(inode.number, forWriting: true)
      await #expect(throws: Errno.resourceBusy) {
        try await setting.first.coordinator.evictAfterLook(inode.number)
      }
      try await setting.first.sync.sync(timeout: .seconds(240))
      try await setting.first.coordinator.evictAfterLook(inode.number)
      #expect(try await setting.first.read("Documents/1") == Self.content(1))
    }
  }

  @Test("content that an interrupted check found lost is not evicted, and is uploaded again")
  func interruptedCheck() async throws {
    try await withSetting { setting in
      let catalog = setting.first.catalog
      for pack in try await setting.packs() { try await setting.store.delete(pack) }
      // The check ends after the catalog noted the loss, and before any file is marked.
      for extent in try catalog.packExtents(after: nil, limit: 100).extents {
        #expect(
          try catalog.noteLost(catalog.chunks(of: extent.pack), of: extent.pack, isMissing: true))
      }
      let inode = try #require(try setting.first.find("Documents/1"))
      #expect(try !setting.first.coordinator.status(of: inode.number).isUploaded)
      await #expect(throws: Errno.resourceBusy) {
        try await setting.first.coordinator.evictAfterLook(inode.number)
      }
      // The look for that eviction marked the files.
      try await setting.first.sync.sync(timeout: .seconds(240))
      #expect(try setting.first.coordinator.status(of: inode.number).isUploaded)
      try await setting.first.coordinator.evictAfterLook(inode.number)
      #expect(try await setting.first.read("Documents/1") == Self.content(1))
    }
  }

  @Test("a placeholder whose content the store lost does not count as uploaded")
  func lostPlaceholder() async throws {
    try await withSetting { setting in
      let device = setting.second
      let inode = try #require(try device.find("Documents/1"))
      #expect(inode.content == .remote)
      #expect(try device.coordinator.status(of: inode.number).isUploaded)
      for pack in try await setting.packs() { try await setting.store.delete(pack) }
      #expect(try await !device.sync.verify(VerifyOptions()).isWell)
      #expect(try !device.coordinator.status(of: inode.number).isUploaded)
    }
  }

  @Test(
    "missing segments are reported as objects, also the first ones of a log without a snapshot",
    arguments: [[3], [1], [1, 2]])
  func missingSegment(_ numbers: [Int]) async throws {
    try await withSetting { setting in
      for index in 0..<3 {
        try setting.first.write("Documents/more \(index)", [1])
        try await settle(setting.first, setting.second)
      }
      let segments = try await setting.store.list(prefix: "containers/", after: nil, limit: 1000)
        .filter { key in numbers.contains { key.hasSuffix("/log/0000000000000000000\($0)") } }
      #expect(segments.count == numbers.count)
      for segment in segments { try await setting.store.delete(segment) }
      let report = try await setting.first.sync.verify(VerifyOptions())
      #expect(paths(report.missing) == segments)
    }
  }

  @Test("a sample reads about its share of the objects, and lists the damaged ones")
  func sample() async throws {
    try await withSetting { setting in
      // A pack and a segment each.
      for index in 0..<60 {
        try setting.first.write("Documents/more \(index)", Self.content(1000 + index))
        try await setting.first.sync.sync(timeout: .seconds(240))
      }
      try await setting.second.sync.sync(timeout: .seconds(240))
      let half = VerifyOptions(readsData: true, sample: 50)
      let report = try await setting.second.sync.verify(half)
      #expect(report.isWell)
      #expect(report.objects >= 120)
      let share = Double(report.checked) / Double(report.objects)
      #expect(share > 0.25 && share < 0.75, "\(report.checked) of \(report.objects)")
      let tiny = try await setting.second.sync.verify(VerifyOptions(readsData: true, sample: 0.001))
      #expect(tiny.objects == report.objects)
      // The newest segment is always read.
      #expect(tiny.checked >= 1 && tiny.checked < 10)

      for pack in try await setting.packs() {
        var bytes = try await setting.store.get(pack)
        // In the first chunk: damage elsewhere is repaired without the content.
        bytes[20] ^= 1
        try await setting.store.replace(pack, bytes)
      }
      let damaged = try await setting.second.sync.verify(half).damaged.count
      let all = try await setting.second.sync.verify(VerifyOptions(readsData: true)).damaged.count
      #expect(damaged > 0 && damaged < all, "\(damaged) of \(all)")
    }
  }
}
