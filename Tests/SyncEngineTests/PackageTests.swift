import Backend
import Catalog
import Coordination
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

/// Directories that are one document, on two devices without mounts.
@Suite(.serialized) struct PackageTests {
  private static let root = "Documents/p.pages"
  private static let names = ["a", "b", "media/c", "media/d"]

  private func make(_ device: EngineDevice, _ text: String) throws {
    try device.makeDirectory(Self.root)
    try device.makeDirectory(Self.root + "/media")
    try fill(device, Self.names, text)
  }

  private func fill(_ device: EngineDevice, _ names: [String], _ text: String) throws {
    for name in names { try device.write("\(Self.root)/\(name)", Array("\(text) \(name)".utf8)) }
  }

  /// The first word of each file; nil for one that is not there.
  private func texts(_ device: EngineDevice, in root: String = root) async throws -> [String?] {
    var result: [String?] = []
    for name in Self.names {
      guard try device.find("\(root)/\(name)") != nil else {
        result.append(nil)
        continue
      }
      let text = String(decoding: try await device.read("\(root)/\(name)"), as: UTF8.self)
      #expect(text.hasSuffix(" \(name)"))
      result.append(String(text.prefix { $0 != " " }))
    }
    return result
  }

  private func versions(_ device: EngineDevice) throws -> [FileVersion] {
    let inode = try #require(try device.find(Self.root))
    return try device.sync.versions(of: inode.number)
  }

  @Test func nothingOfAPackageGoesWhileAFileInItIsOpenForWriting() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try first.write("Documents/beside", [1])
      let open = try #require(try first.find(Self.root + "/b")).number
      first.coordinator.opened(open, forWriting: true)
      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .milliseconds(500))
      }
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try second.find(Self.root) == nil)
      #expect(try second.find("Documents/beside") != nil)
      first.coordinator.closed(open, forWriting: true)
      try await settle(first, second)
      #expect(try await texts(second) == ["one", "one", "one", "one"])

      // The same for its next state, and for a rename of the whole.
      try fill(first, ["a", "media/c"], "two")
      first.coordinator.opened(open, forWriting: true)
      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .milliseconds(500))
      }
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await texts(second) == ["one", "one", "one", "one"])
      first.coordinator.closed(open, forWriting: true)
      try await settle(first, second)
      #expect(try await texts(second) == ["two", "one", "two", "one"])
    }
  }

  @Test func aPackageGoesWhenItsProgramPauses() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let first = try EngineDevice(
      store: store, secret: secret, settings: SyncSettings(packageQuiet: .seconds(8)))
    let second = try EngineDevice(store: store, secret: secret)
    await first.sync.start()
    try await second.sync.sync(timeout: .seconds(240))
    try first.makeDirectory(Self.root)
    try first.makeDirectory(Self.root + "/media")
    for name in Self.names {
      try fill(first, [name], "one")
      // Nothing tells that the upload does not happen. This is longer than other changes wait.
      try await Task.sleep(for: .milliseconds(1200))
      try await second.sync.sync(timeout: .seconds(240))
      // Not even its name.
      #expect(try second.find(Self.root) == nil)
    }
    try await eventually("the second device has the package") {
      try await second.sync.sync(timeout: .seconds(240))
      return try second.find(Self.root) != nil
    }
    #expect(try await texts(second) == ["one", "one", "one", "one"])
    await first.end()
    await second.end()
  }

  @Test func nothingOfAPackageComesWhileAFileInItIsOpenForWriting() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      _ = try await texts(second)
      let open = try #require(try second.find(Self.root + "/b")).number
      second.coordinator.opened(open, forWriting: true)
      try fill(first, ["a", "media/c"], "two")
      try await first.sync.sync(timeout: .seconds(240))
      await #expect(throws: SyncFailure.self) {
        try await second.sync.sync(timeout: .milliseconds(500))
      }
      #expect(try await texts(second) == ["one", "one", "one", "one"])
      second.coordinator.closed(open, forWriting: true)
      try await settle(first, second)
      #expect(try await texts(second) == ["two", "one", "two", "one"])
    }
  }

  @Test func editsOfDifferentFilesAreAConflictOfTheWholePackage() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      _ = try await texts(second)
      try fill(second, ["a", "media/c"], "second")
      try fill(first, ["b"], "first")
      try first.write(Self.root + "/new", Array("first new".utf8))
      // The later one is first's; whoever is first in the log.
      try await second.sync.sync(timeout: .seconds(240))
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device) == ["one", "first", "one", "one"])
        #expect(try device.find(Self.root + "/new") != nil)
        let versions = try versions(device)
        #expect(versions.map(\.isConflict) == [false, true])
        #expect(versions[1].device == second.id)
        #expect(try device.catalog.conflictCount() == 1)
      }
      let inode = try #require(try second.find(Self.root))
      try await second.sync.resolve(inode.number, keep: try versions(second).map(\.id))
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device) == ["one", "first", "one", "one"])
        let kept = try await texts(device, in: "Documents/p 2.pages")
        #expect(kept == ["second", "one", "second", "one"])
        #expect(try device.find("Documents/p 2.pages/new") == nil)
        #expect(try device.catalog.conflictCount() == 0)
      }
    }
  }

  @Test func theLaterPackageWinsWhoeverCommitsSecond() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      _ = try await texts(second)
      try fill(first, ["b"], "first")
      try first.remove(Self.root + "/media/d")
      try fill(second, ["a"], "second")
      // `second` finds its own to be later, and takes back what is in the log.
      try await first.sync.sync(timeout: .seconds(240))
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await texts(device) == ["second", "one", "one", "one"])
      }
      let loser = try #require(try versions(first).first { $0.isConflict })
      #expect(loser.device == first.id)
      let inode = try #require(try first.find(Self.root))
      try await first.sync.resolve(inode.number, keep: [loser.id])
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device) == ["one", "first", "one", nil])
        #expect(try device.find("Documents/p 2.pages") == nil)
      }
    }
  }

  @Test(
    "two edits of one file of a package are one conflict, of the package", arguments: [false, true])
  func editsOfOneFile(firstIsLater: Bool) async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      _ = try await texts(second)
      let (later, earlier) = firstIsLater ? (first, second) : (second, first)
      try fill(earlier, ["a"], "earlier")
      try fill(later, ["a"], "later")
      try await second.sync.sync(timeout: .seconds(240))
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device) == ["later", "one", "one", "one"])
        #expect(try versions(device).map(\.isConflict) == [false, true])
        #expect(try device.catalog.conflictCount() == 1)
      }
    }
  }

  @Test func aNameOutsideOfAPackageStaysWhenAnotherVersionTakesItsPlace() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      let linked = try #require(try first.find(Self.root + "/media/c"))
      let documents = try #require(try first.find("Documents")).number
      _ = try first.catalog.link(linked.number, as: ItemName("outside"), in: documents)
      try await settle(first, second)
      _ = try await texts(second)
      try fill(first, ["b"], "first")
      try fill(second, ["a"], "second")
      try await first.sync.sync(timeout: .seconds(240))
      try await settle(second, first)
      let loser = try #require(try versions(first).first { $0.isConflict })
      let inode = try #require(try first.find(Self.root))
      try await first.sync.resolve(inode.number, keep: [loser.id])
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device) == ["one", "first", "one", "one"])
        #expect(try await device.read("Documents/outside") == Array("one media/c".utf8))
      }
    }
  }

  @Test(
    "a new file that is linked into a package stays outside of it when the package loses",
    arguments: [false, true])
  func newNameOutsideOfALoser(isFirst: Bool) async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      _ = try await texts(second)
      try first.write("Documents/outside", Array("new".utf8))
      let linked = try #require(try first.find("Documents/outside")).number
      let media = try #require(try first.find(Self.root + "/media")).number
      _ = try first.catalog.link(linked, as: ItemName("n"), in: media)
      // Later, so the package of the first device loses.
      try fill(second, ["a"], "second")
      let order = isFirst ? [first, second] : [second, first]
      for device in order { try await device.sync.sync(timeout: .seconds(240)) }
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device) == ["second", "one", "one", "one"])
        #expect(try await device.read("Documents/outside") == Array("new".utf8))
        #expect(try device.find(Self.root + "/media/n") == nil)
        #expect(try device.catalog.conflictCount() == 1)
      }
    }
  }

  @Test(
    "a hard link whose directory is moved out of a package stays, whoever wins",
    arguments: [false, true])
  func linkInAMovedDirectory(isLater: Bool) async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try first.makeDirectory(Self.root + "/d")
      let linked = try #require(try first.find(Self.root + "/media/c")).number
      let directory = try #require(try first.find(Self.root + "/d")).number
      _ = try first.catalog.link(linked, as: ItemName("x"), in: directory)
      try await settle(first, second)
      _ = try await texts(second)
      let edits = {
        try first.rename(Self.root + "/d", "Documents/d")
        try fill(first, ["b"], "first")
      }
      if !isLater { try edits() }
      try fill(second, ["a"], "second")
      if isLater { try edits() }
      try await first.sync.sync(timeout: .seconds(240))
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await device.read("Documents/d/x") == Array("one media/c".utf8))
        #expect(try device.find(Self.root + "/media/c") != nil)
      }
    }
  }

  @Test("a new name outside of a package stays when the package loses", arguments: [false, true])
  func movedNameOutsideOfALoser(isFirst: Bool) async throws {
    try await withDevices { first, second in
      try make(first, "one")
      let linked = try #require(try first.find(Self.root + "/media/c")).number
      let documents = try #require(try first.find("Documents")).number
      _ = try first.catalog.link(linked, as: ItemName("outside"), in: documents)
      try await settle(first, second)
      _ = try await texts(second)
      try first.rename("Documents/outside", "Documents/moved")
      try fill(second, ["a"], "second")
      let order = isFirst ? [first, second] : [second, first]
      for device in order { try await device.sync.sync(timeout: .seconds(240)) }
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device) == ["second", "one", "one", "one"])
        #expect(try await device.read("Documents/moved") == Array("one media/c".utf8))
        #expect(try device.find("Documents/outside") == nil)
      }
    }
  }

  /// What goes into a package that moves, moves with it: applied one without the other it would be
  /// a directory within itself.
  @Test func aPackageThatWinsMovesWithWhatIsPutIntoIt() async throws {
    try await withDevices { first, second in
      try first.makeDirectory("Documents/folder")
      try first.makeDirectory("Documents/folder/p.pages")
      try first.write("Documents/folder/p.pages/a", [1])
      try first.write("Documents/folder/p.pages/b", [1])
      try await settle(first, second)
      _ = try await second.read("Documents/folder/p.pages/a")
      try first.rename("Documents/folder/p.pages", "Documents/p.pages")
      try first.rename("Documents/folder", "Documents/p.pages/folder")
      try first.write("Documents/p.pages/b", [2])
      try await first.sync.sync(timeout: .seconds(240))
      // Later, and without having seen that.
      try second.write("Documents/folder/p.pages/a", [3])
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await device.read("Documents/p.pages/a") == [3])
        #expect(try device.catalog.conflictCount() == 1)
      }
    }
  }

  @Test("a package that wins keeps the other version after its segment was refused")
  func aRefusedSegmentKeepsTheConflict() async throws {
    let secret = AccountSecret.generate()
    let store = OneRefusedSegment(MemoryStore())
    let first = try EngineDevice(store: store, secret: secret)
    let second = try EngineDevice(store: store, secret: secret)
    let root = "Documents/p.pages"
    try first.makeDirectory(root)
    try first.write("\(root)/a", Array("one".utf8))
    try first.write("Documents/o", Array("other".utf8))
    try await settle(first, second)
    _ = try await second.read("\(root)/a")
    try second.write("\(root)/a", Array("second".utf8))
    // It takes the name that the first device gives to `a`, so that device renames a file.
    try second.rename("Documents/o", "\(root)/x")
    try await second.sync.sync()
    try first.write("\(root)/a", Array("first".utf8))
    try first.rename("\(root)/a", "\(root)/x")
    store.refuses.withLock { $0 = true }
    try? await first.sync.sync(timeout: .seconds(240))
    #expect(!store.refuses.withLock { $0 })
    try await settle(first, second)
    for device in [first, second] {
      let number = try #require(try device.find(root)).number
      #expect(try device.sync.versions(of: number).count(where: \.isConflict) == 1)
    }
    await first.end()
    await second.end()
  }

  @Test func equalEditsOfAPackageAreNoConflict() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      _ = try await texts(second)
      try fill(first, ["a", "b"], "two")
      try fill(second, ["a", "b"], "two")
      try await settle(first, second)
      #expect(try versions(first).count == 1)
      #expect(try await texts(first) == ["two", "two", "one", "one"])
    }
  }

  @Test func anEditOutlivesADeletionOfTheWholePackage() async throws {
    for editorIsFirst in [true, false] {
      try await withDevices { first, second in
        try make(first, "one")
        try await settle(first, second)
        _ = try await texts(second)
        for name in Self.names { try first.remove("\(Self.root)/\(name)") }
        try first.remove(Self.root + "/media", directory: true)
        try first.remove(Self.root, directory: true)
        try fill(second, ["media/c"], "two")
        if editorIsFirst {
          try await settle(second, first)
        } else {
          try await settle(first, second)
        }
        for device in [first, second] {
          #expect(try await texts(device) == ["one", "one", "two", "one"])
        }
      }
    }
  }

  @Test func twoNewPackagesOfOneNameAreTwo() async throws {
    try await withDevices { first, second in
      try make(first, "first")
      try make(second, "second")
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device) == ["first", "first", "first", "first"])
        let other = try await texts(device, in: "Documents/p 2.pages")
        #expect(other == ["second", "second", "second", "second"])
      }
    }
  }

  @Test func aRenameOfAPackageAndAnEditMerge() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      _ = try await texts(second)
      try first.rename(Self.root, "Documents/q.pages")
      try fill(second, ["a"], "two")
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await texts(device, in: "Documents/q.pages") == ["two", "one", "one", "one"])
        #expect(try device.find(Self.root) == nil)
        #expect(try device.catalog.conflictCount() == 0)
      }
    }
  }

  @Test func aPackageThatIsSavedByRenamingIsNeverGone() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      try make(first, at: "Documents/draft", "two")
      try first.rename(Self.root, "Documents/old")
      try first.rename("Documents/draft", Self.root)
      let open = try #require(try first.find(Self.root + "/b")).number
      first.coordinator.opened(open, forWriting: true)
      try? await first.sync.sync(timeout: .milliseconds(500))
      try await second.sync.sync(timeout: .seconds(240))
      #expect(try await texts(second) == ["one", "one", "one", "one"])
      first.coordinator.closed(open, forWriting: true)
      try await settle(first, second)
      #expect(try await texts(second) == ["two", "two", "two", "two"])
      #expect(try await texts(second, in: "Documents/old") == ["one", "one", "one", "one"])
    }
  }

  private func make(_ device: EngineDevice, at root: String, _ text: String) throws {
    try device.makeDirectory(root)
    try device.makeDirectory(root + "/media")
    for name in Self.names { try device.write("\(root)/\(name)", Array("\(text) \(name)".utf8)) }
  }

  @Test func aMarkMakesAPackage() async throws {
    try await withDevices { first, second in
      try first.makeDirectory("Documents/plain")
      let inode = try #require(try first.find("Documents/plain"))
      #expect(try first.coordinator.status(of: inode.number).isPackage == false)
      try first.catalog.setPackage(inode.number, true)
      try first.write("Documents/plain/a", [1])
      try first.write("Documents/plain/b", [1])
      try await settle(first, second)
      let there = try #require(try second.find("Documents/plain"))
      #expect(try second.coordinator.status(of: there.number).isPackage)
      _ = try await second.read("Documents/plain/a")
      _ = try await second.read("Documents/plain/b")
      try first.write("Documents/plain/a", [2])
      try second.write("Documents/plain/b", [2])
      try await settle(first, second)
      #expect(try first.sync.versions(of: inode.number).count == 2)
    }
  }

  @Test func aPackageIsEvictedAndIsHereAsAWhole() async throws {
    try await withDevices { first, second in
      try make(first, "one")
      try await settle(first, second)
      let root = try #require(try second.find(Self.root)).number
      func status() throws -> ItemSyncStatus { try second.coordinator.status(of: root) }
      #expect(try status().downloadingStatus == .notDownloaded)
      #expect(try status().isPackage)
      _ = try await second.read(Self.root + "/a")
      #expect(try status().downloadingStatus == .notDownloaded)
      _ = try await texts(second)
      #expect(try status().downloadingStatus == .current)
      let open = try #require(try second.find(Self.root + "/b")).number
      second.coordinator.opened(open, forWriting: false)
      await #expect(throws: Errno.resourceBusy) {
        try await second.coordinator.evictAfterLook(root)
      }
      #expect(try second.find(Self.root + "/a")?.content == .local)
      second.coordinator.closed(open, forWriting: false)
      try await second.coordinator.evictAfterLook(root)
      #expect(try second.find(Self.root + "/a")?.content == .remote)
      #expect(try second.find(Self.root + "/media/d")?.content == .remote)
      try fill(second, ["a"], "two")
      #expect(try status().isUploaded == false)
      try await settle(first, second)
      #expect(try status().isUploaded)
    }
  }
}
