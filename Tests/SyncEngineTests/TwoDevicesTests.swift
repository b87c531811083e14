import Backend
import Catalog
import ContentStore
import Coordination
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// Two devices without mounts on one memory backend.
@Suite(.serialized) struct TwoDevicesTests {
  @Test func aFileArrivesAsAPlaceholderAndOpens() async throws {
    try await withDevices { first, second in
      let bytes = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
      try first.makeDirectory("Documents/a")
      try first.write("Documents/a/x.bin", bytes)
      try first.write("Documents/a/empty", [])
      try await settle(first, second)
      let inode = try #require(try second.find("Documents/a/x.bin"))
      #expect(inode.content == .remote)
      #expect(inode.size == 3_000_000)
      #expect(try second.coordinator.status(of: inode.number).downloadingStatus == .notDownloaded)
      #expect(try await second.read("Documents/a/x.bin") == bytes)
      #expect(try await second.read("Documents/a/empty") == [])
      let status = try second.coordinator.status(of: inode.number)
      #expect(status.downloadingStatus == .current)
      #expect(status.isUploaded)
      try await second.coordinator.evictAfterLook(inode.number)
      #expect(try second.find("Documents/a/x.bin")?.content == .remote)
      #expect(try await second.read("Documents/a/x.bin") == bytes)
    }
  }

  @Test func editsOfferedOfflineKeepBothContents() async throws {
    try await withDevices { first, second in
      try first.write("Documents/n.txt", Array("base".utf8))
      try await settle(first, second)
      _ = try await second.read("Documents/n.txt")
      try first.write("Documents/n.txt", Array("first".utf8))
      try second.write("Documents/n.txt", Array("second, later".utf8))
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await device.read("Documents/n.txt") == Array("second, later".utf8))
        let inode = try #require(try device.find("Documents/n.txt"))
        let versions = try device.sync.versions(of: inode.number)
        #expect(versions.filter(\.isConflict).count == 1)
        let loser = try #require(versions.first { $0.isConflict })
        let collected = Collected()
        try await device.sync.read(loser.id, of: inode.number) { await collected.add($0) }
        #expect(await collected.bytes == Array("first".utf8))
      }
      let inode = try #require(try first.find("Documents/n.txt"))
      let versions = try first.sync.versions(of: inode.number)
      try await first.sync.resolve(inode.number, keep: versions.map(\.id))
      try await settle(first, second)
      #expect(try await second.read("Documents/n 2.txt") == Array("first".utf8))
      #expect(try second.catalog.conflictCount() == 0)
    }
  }

  @Test func twoFilesOfOneNameAndDirectoriesOfOneName() async throws {
    try await withDevices { first, second in
      try first.makeDirectory("Documents/d")
      try first.write("Documents/d/one.txt", Array("1".utf8))
      try first.write("Documents/new.txt", Array("first".utf8))
      try second.makeDirectory("Documents/d")
      try second.write("Documents/d/two.txt", Array("2".utf8))
      try second.write("Documents/new.txt", Array("second".utf8))
      try await settle(first, second)
      #expect(try await second.read("Documents/d/one.txt") == Array("1".utf8))
      #expect(try await first.read("Documents/d/two.txt") == Array("2".utf8))
      #expect(try await first.read("Documents/new.txt") == Array("first".utf8))
      #expect(try await first.read("Documents/new 2.txt") == Array("second".utf8))
    }
  }

  @Test("a file that loses its name gets none that is another of its names")
  func losingANameBesideAnotherOfOnesOwn() async throws {
    try await withDevices { first, second in
      try first.write("Documents/a.txt", Array("first".utf8))
      try second.write("Documents/a.txt", Array("second".utf8))
      let number = try #require(try second.find("Documents/a.txt")).number
      let documents = try #require(try second.find("Documents")).number
      _ = try second.catalog.link(number, as: ItemName("a 2.txt"), in: documents)
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await device.read("Documents/a.txt") == Array("first".utf8))
        for name in ["a 2.txt", "a 3.txt"] {
          #expect(try await device.read("Documents/\(name)") == Array("second".utf8))
        }
        #expect(try device.find("Documents/a 2.txt")?.linkCount == 2)
      }
    }
  }

  @Test("a removal does not take a hard link that it did not know", arguments: [false, true])
  func removalOfAFileWithANewLink(removalIsFirst: Bool) async throws {
    try await withDevices { first, second in
      try first.write("Documents/a", Array("a".utf8))
      try await settle(first, second)
      let number = try #require(try second.find("Documents/a")).number
      _ = try await second.read("Documents/a")
      let documents = try #require(try second.find("Documents")).number
      _ = try second.catalog.link(number, as: ItemName("c"), in: documents)
      try first.remove("Documents/a")
      let order = removalIsFirst ? [first, second] : [second, first]
      for device in order { try await device.sync.sync(timeout: .seconds(240)) }
      try await settle(first, second)
      for device in [first, second] {
        #expect(try device.find("Documents/a") == nil)
        #expect(try await device.read("Documents/c") == Array("a".utf8))
        #expect(try device.find("Documents/c")?.linkCount == 1)
      }
    }
  }

  @Test func aRenameAndAnEditMerge() async throws {
    try await withDevices { first, second in
      try first.write("Documents/a.txt", Array("old".utf8))
      try await settle(first, second)
      try first.rename("Documents/a.txt", "Documents/b.txt")
      try second.write("Documents/a.txt", Array("edited".utf8))
      try await settle(first, second)
      #expect(try first.find("Documents/a.txt") == nil)
      #expect(try await first.read("Documents/b.txt") == Array("edited".utf8))
    }
  }

  @Test func anEditBeatsADeletion() async throws {
    try await withDevices { first, second in
      try first.makeDirectory("Documents/d")
      try first.write("Documents/d/a.txt", Array("old".utf8))
      try await settle(first, second)
      try first.remove("Documents/d/a.txt")
      try first.remove("Documents/d", directory: true)
      try second.write("Documents/d/a.txt", Array("edited".utf8))
      try await settle(first, second)
      #expect(try await first.read("Documents/d/a.txt") == Array("edited".utf8))
    }
  }

  @Test func whatIsExcludedStays() async throws {
    try await withDevices { first, second in
      try first.makeDirectory("Documents/d")
      try await settle(first, second)
      try second.makeDirectory("Documents/d/cache.nosync")
      try second.write("Documents/d/cache.nosync/x", Array("mine".utf8))
      try await second.sync.sync(timeout: .seconds(240))
      try await first.sync.sync(timeout: .seconds(240))
      #expect(try first.find("Documents/d/cache.nosync") == nil)
      try first.remove("Documents/d", directory: true)
      try await first.sync.sync(timeout: .seconds(240))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await second.read("Documents/d/cache.nosync/x") == Array("mine".utf8))
      #expect(try first.find("Documents/d") == nil)
      try second.write("Documents/d/new.txt", Array("n".utf8))
      try await second.sync.sync(timeout: .seconds(240))
      try await first.sync.sync(timeout: .seconds(240))
      #expect(try await first.read("Documents/d/new.txt") == Array("n".utf8))
    }
  }

  @Test("a directory that is kept for its .nosync items becomes one with another's of its name")
  func keptDirectoriesMerge() async throws {
    try await withDevices { first, second in
      try first.makeDirectory("Documents/d")
      try first.makeDirectory("Documents/d/sub")
      try await settle(first, second)
      try second.makeDirectory("Documents/d/sub/cache.nosync")
      try second.write("Documents/d/sub/cache.nosync/x", Array("mine".utf8))
      try await second.sync.sync(timeout: .seconds(240))
      // Removed and made anew: known to the other one after another, or at once.
      for name in ["one", "two"] {
        if name == "two" { try first.remove("Documents/d/one") }
        if name == "two" { try first.remove("Documents/d/sub/file") }
        try first.remove("Documents/d/sub", directory: true)
        try first.remove("Documents/d", directory: true)
        try await first.sync.sync(timeout: .seconds(240))
        if name == "one" { try await second.sync.sync(timeout: .seconds(240)) }
        try first.makeDirectory("Documents/d")
        try first.write("Documents/d/\(name)", Array(name.utf8))
        try first.makeDirectory("Documents/d/sub")
        try first.write("Documents/d/sub/file", Array("file".utf8))
        for device in [first, second, first] { try await device.sync.sync(timeout: .seconds(240)) }
        #expect(try await second.read("Documents/d/\(name)") == Array(name.utf8))
        #expect(try await second.read("Documents/d/sub/file") == Array("file".utf8))
        #expect(try await second.read("Documents/d/sub/cache.nosync/x") == Array("mine".utf8))
        for device in [first, second] {
          #expect(try device.find("Documents/d 2") == nil)
          #expect(try device.find("Documents/d/sub 2") == nil)
        }
        #expect(try second.catalog.differing() == [])
      }
    }
  }

  @Test("a sparse file is as sparse on the other device, and after an eviction")
  func sparseFilesStaySparse() async throws {
    try await withDevices { first, second in
      let size = 24 << 20
      try first.write("Documents/sparse", [1])
      let inode = try #require(try first.find("Documents/sparse"))
      first.coordinator.opened(inode.number, forWriting: true)
      let key = ContentKey(item: inode.item, generation: inode.generation)
      try first.catalog.noteWriteBegan(inode.number)
      func write() throws {
        let file = try first.content.open(key, writable: true)
        try file.truncate(to: UInt64(size))
        try file.write([7], at: 10 << 20)
      }
      try write()
      try first.catalog.noteContentChange(
        inode.number, size: UInt64(size),
        modified: Timestamp(nanoseconds: SystemClock().nanoseconds()))
      try first.catalog.noteWriteEnded(inode.number)
      first.coordinator.closed(inode.number, forWriting: true)
      try await settle(first, second)
      let blocks = try first.content.blocks(key)
      var expected = [UInt8](repeating: 0, count: size)
      expected[0] = 1
      expected[10 << 20] = 7
      #expect(try await second.read("Documents/sparse") == expected)
      try await first.evict("Documents/sparse")
      #expect(try await first.read("Documents/sparse") == expected)
      for device in [first, second] {
        let inode = try #require(try device.find("Documents/sparse"))
        let key = ContentKey(item: inode.item, generation: inode.generation)
        #expect(try device.content.blocks(key) <= blocks + 16)
        #expect(inode.content == .local && inode.blocks ?? 0 <= blocks + 16)
      }
    }
  }

  @Test func aNewerVersionReplacesALocalOneWhole() async throws {
    try await withDevices { first, second in
      var bytes = (0..<4_000_000).map { UInt8(truncatingIfNeeded: ($0 &* $0) >> 7) }
      try first.write("Documents/big", bytes)
      try await settle(first, second)
      #expect(try await second.read("Documents/big") == bytes)
      bytes[2_000_000] ^= 1
      try first.write("Documents/big", bytes)
      try await settle(first, second)
      let inode = try #require(try second.find("Documents/big"))
      #expect(inode.content == .local)
      #expect(try await second.read("Documents/big") == bytes)
    }
  }

  /// An edit goes into the log when its content is up: until then others keep what they can read.
  @Test func anEditThatIsNotUpTakesNothingFromOthers() async throws {
    try await withDevices { first, second in
      try first.write("Documents/f", Array("old".utf8))
      try await settle(first, second)
      #expect(try await second.read("Documents/f") == Array("old".utf8))
      let inode = try #require(try first.find("Documents/f"))
      try first.write("Documents/f", Array("half".utf8))
      first.coordinator.opened(inode.number, forWriting: true)
      try? await first.sync.sync(timeout: .milliseconds(200))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try second.find("Documents/f")?.content == .local)
      #expect(try await second.read("Documents/f") == Array("old".utf8))
      first.coordinator.closed(inode.number, forWriting: true)
      try await settle(first, second)
      #expect(try await second.read("Documents/f") == Array("half".utf8))
    }
  }

  @Test func evictingAnEmptyFileTakesNothingThatIsWrittenNext() async throws {
    try await withDevices { first, _ in
      try first.write("Documents/f", [])
      try await first.sync.sync(timeout: .seconds(240))
      let inode = try #require(try first.find("Documents/f"))
      try await first.coordinator.evictAfterLook(inode.number)
      try first.write("Documents/f", Array("data".utf8))
      try first.catalog.commit(durable: true)
      #expect(try await first.read("Documents/f") == Array("data".utf8))
      let key = try #require(try first.catalog.inode(inode.number).contentKey)
      #expect(first.content.exists(key))
    }
  }

  /// What the user did not see when he chose is not dropped by his choice.
  @Test func resolvingDropsNoUnseenVersion() async throws {
    try await withDevices { first, second in
      try first.write("Documents/f", Array("base".utf8))
      try await settle(first, second)
      _ = try await second.read("Documents/f")
      try first.write("Documents/f", Array("one".utf8))
      try second.write("Documents/f", Array("two".utf8))
      try await settle(first, second)
      let inode = try #require(try first.find("Documents/f"))
      let seen = try first.sync.versions(of: inode.number)
      _ = try await first.read("Documents/f")
      try first.write("Documents/f", Array("unsent".utf8))
      await #expect(throws: VersionFailure.self) {
        try await first.sync.resolve(inode.number, keep: [seen[0].id])
      }
      try await settle(first, second)
      #expect(try await second.read("Documents/f") == Array("unsent".utf8))
    }
  }

  @Test func offlineFailsAtOnce() async throws {
    try await withDevices { first, second in
      try first.write("Documents/a", Array("x".utf8))
      try await settle(first, second)
      second.offline.set(offline: true)
      await #expect(throws: (any Error).self) { try await second.read("Documents/a") }
      await #expect(throws: SyncFailure.offline) { try await second.sync.sync() }
      second.offline.set(offline: false)
      #expect(try await second.read("Documents/a") == Array("x".utf8))
    }
  }
}

actor Collected {
  var bytes: [UInt8] = []
  func add(_ more: [UInt8]) { bytes += more }
}
