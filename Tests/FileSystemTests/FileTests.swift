import Catalog
import ContentStore
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage
import Testing

@Suite struct FileTests {
  let container: Container
  init() throws { container = try Container() }
  private var system: ContainerFileSystem { container.system }

  @Test func whatIsWrittenIsRead() throws {
    let (number, handle) = try container.create("a", "hello")
    try container.write(handle, "!", at: 10)
    #expect(try container.size(number) == 11)
    #expect(try container.read(handle) == "hello\0\0\0\0\0!")
    #expect(try container.read(handle, at: 11) == "")
  }

  @Test func anEmptyFileNeedsNoContentFile() throws {
    let (number, handle) = try container.create("a")
    #expect(try container.read(handle) == "")
    system.release(handle)
    #expect(try container.content.keys().isEmpty)
    let again = try container.open(number)
    #expect(try container.read(again) == "")
  }

  /// The content file tells size and time by itself once it is known that it may.
  @Test(arguments: [false, true]) func anFsyncOfWhatIsKnownLeavesTheJournalAlone(dataOnly: Bool)
    throws
  {
    func journal() throws -> [UInt8] {
      try ["-redo-a", "-redo-b"].flatMap {
        try Files.read(container.directory + "/catalog.sqlite" + $0)
      }
    }
    let (number, handle) = try container.create("a", "hello")
    try system.synchronize(handle, dataOnly: dataOnly)
    let before = try journal()
    let count = 300
    for index in 0..<count {
      try container.write(handle, "x", at: UInt64(index))
      try system.synchronize(handle, dataOnly: dataOnly)
      // Nothing is new.
      try system.synchronize(handle, dataOnly: dataOnly)
    }
    // A record has more than 180 bytes; what timers write is some of them.
    #expect(zip(before, try journal()).filter { $0 != $1 }.count < count * 40)
    #expect(try container.size(number) == UInt64(count))
    let reader = try container.open(number)
    try system.synchronize(reader, dataOnly: dataOnly)
    system.release(reader)
    system.release(handle)
  }

  @Test func timesSetAfterAWriteStay() throws {
    let (number, handle) = try container.create("a", "hello")
    let time = Timestamp(nanoseconds: 42)
    _ = try container.finish { () throws(Errno) in
      try system.setStatus(
        number, StatusChanges(accessed: .at(time), modified: .at(time)), caller: Container.caller)
    }
    try system.flush(handle)
    system.release(handle)
    #expect(try system.status(number).inode.modified == time)
    #expect(try system.status(number).inode.accessed == time)
  }

  @Test func writingAndTruncatingSetTheTimes() throws {
    let (number, handle) = try container.create("a", "hello")
    let old = Timestamp(nanoseconds: 42)
    for change in ["write", "truncate"] {
      _ = try container.finish { () throws(Errno) in
        try system.setStatus(number, StatusChanges(modified: .at(old)), caller: Container.caller)
      }
      if change == "write" {
        try container.write(handle, "x")
      } else {
        _ = try container.finish { () throws(Errno) in
          try system.setStatus(number, StatusChanges(size: 2), caller: Container.caller)
        }
      }
      #expect(try system.status(number).inode.modified > old)
    }
    #expect(try container.read(handle) == "xe")
  }

  @Test("O_TRUNC empties a file that is opened for reading, as on ext4")
  func truncatingWhileOpeningForReading() throws {
    let (number, writer) = try container.create("f", "text")
    container.system.release(writer)
    let handle = try container.open(number, truncating: true)
    #expect(try container.size(number) == 0)
    #expect(try container.read(handle) == "")
    #expect(throws: Errno.badFileDescriptor) { try container.write(handle, "x") }
    container.system.release(handle)
    #expect(!container.coordinator.isOpenForWriting(number))
    let far = try container.appear("far", [1, 2, 3])
    container.system.release(try container.open(far, truncating: true))
    #expect(try container.size(far) == 0)
    #expect(container.fetcher.asked.isEmpty)
  }

  @Test func truncatingOnOpenEmptiesForAllHandles() throws {
    let (number, first) = try container.create("a", "hello")
    let second = try container.open(number, writing: true, truncating: true)
    #expect(try container.size(number) == 0)
    #expect(try container.read(first) == "")
    try container.write(second, "new")
    #expect(try container.read(first) == "new")
  }

  @Test func writingTakesSetUserIDAwayUnlessRootWrites() throws {
    let (number, handle) = try container.create("a", "hello")
    for (caller, mode) in [
      (Container.caller, UInt16(0o6755)), (Caller(user: 1000, group: 1000), 0o755),
    ] {
      _ = try container.finish { () throws(Errno) in
        try system.setStatus(number, StatusChanges(mode: 0o6755), caller: Container.caller)
      }
      try container.write(handle, "x", caller: caller)
      #expect(try system.status(number).inode.mode == mode)
    }
  }

  @Test func aNewOwnerTakesSetUserIDAway() throws {
    let (number, _) = try container.create("a")
    for (mode, after) in [(UInt16(0o6755), UInt16(0o755)), (0o6745, 0o2745)] {
      _ = try container.finish { () throws(Errno) in
        try system.setStatus(number, StatusChanges(mode: mode), caller: Container.caller)
      }
      _ = try container.finish { () throws(Errno) in
        try system.setStatus(number, StatusChanges(owner: 7), caller: Container.caller)
      }
      #expect(try system.status(number).inode.mode == after)
    }
  }

  /// Changing nothing is what the kernel asks for of a chown(2) that names neither owner nor group.
  @Test func aChangeOfOwnerThatChangesNoneTakesSetUserIDAway() throws {
    let (number, _) = try container.create("a")
    _ = try container.finish { () throws(Errno) in
      try system.setStatus(number, StatusChanges(mode: 0o6755), caller: Container.caller)
    }
    _ = try container.finish { () throws(Errno) in
      try system.setStatus(number, StatusChanges(), caller: Container.caller)
    }
    #expect(try system.status(number).inode.mode == 0o755)
  }

  /// Without group execution the bit is no privilege, but not for a stranger to leave behind.
  @Test func writingTakesSetGroupIDAwayFromWhoIsNotInTheGroup() throws {
    let (number, handle) = try container.create("a", "hello")
    _ = try container.finish { () throws(Errno) in
      try system.setStatus(number, StatusChanges(owner: 7, group: 1001), caller: Container.caller)
    }
    for (caller, mode) in [
      (Caller(user: 1000, group: 1001), UInt16(0o2766)),
      (Caller(user: 1000, group: 1000), 0o766),
      (Caller(user: 1000, group: 1000, process: .max), 0o766),
    ] {
      _ = try container.finish { () throws(Errno) in
        try system.setStatus(number, StatusChanges(mode: 0o2766), caller: Container.caller)
      }
      try container.write(handle, "x", caller: caller)
      #expect(try system.status(number).inode.mode == mode)
    }
  }

  @Test func aFileWithoutANameGoesWithItsLastUse() throws {
    let mode = OpenMode(canWrite: true)
    let (status, opened) = try system.createUnnamed(
      in: .root, permissions: 0o640, mode, caller: Container.caller)
    #expect(status.inode.linkCount == 0)
    try container.write(opened.handle, "text")
    #expect(try container.read(opened.handle) == "text")
    system.release(opened.handle)
    #expect(try system.status(status.inode.number).size == 4)
    system.forget(status.inode.number, count: 1)
    #expect(throws: Errno.staleNFSFileHandle) { try system.status(status.inode.number) }
  }

  @Test func aFileWithoutANameMayGetOne() throws {
    let (status, opened) = try system.createUnnamed(
      in: .root, permissions: 0o640, OpenMode(canWrite: true), caller: Container.caller)
    try container.write(opened.handle, "text")
    let number = status.inode.number
    let again = try container.open(number)
    system.release(opened.handle)
    system.release(again)
    #expect(
      try system.link(number, as: container.name("named"), in: .root).inode.linkCount == 1)
    system.forget(number, count: 2)
    #expect(try system.lookup(container.name("named"), in: .root)?.size == 4)
    #expect(try container.read(container.open(number)) == "text")
  }

  @Test func holesAreFoundAndPunched() throws {
    let (number, handle) = try container.create("a")
    try container.write(handle, "x", at: 1 << 20)
    #expect(try system.seek(handle, .data, from: 0) == 1 << 20)
    #expect(try system.seek(handle, .hole, from: 0) == 0)
    #expect(throws: Errno.noSuchAddressOrDevice) {
      try system.seek(handle, .data, from: (1 << 20) + 1)
    }
    let allocate = { (mode: Int32, offset: UInt64, length: UInt64) in
      _ = try container.finish { () throws(Errno) in
        try system.allocate(
          handle, mode: mode, offset: offset, length: length, caller: Container.caller)
      }
    }
    // Punch and keep the size; then extend.
    try allocate(3, 1 << 20, 4096)
    #expect(try container.size(number) == (1 << 20) + 1)
    #expect(throws: Errno.noSuchAddressOrDevice) { try system.seek(handle, .data, from: 0) }
    try allocate(0, 0, 2 << 20)
    #expect(try container.size(number) == 2 << 20)
    // Collapse.
    #expect(throws: Errno.notSupported) { try allocate(8, 0, 4096) }
  }

  @Test func copyingARangeStopsAtTheEnd() throws {
    let (_, from) = try container.create("a", "hello")
    let (to, target) = try container.create("b")
    let count = try container.finish { () throws(Errno) in
      try system.copyRange(
        from: from, at: 1, to: target, at: 2, count: 100, caller: Container.caller)
    }
    #expect(count == 4)
    #expect(try container.size(to) == 6)
    #expect(try container.read(target) == "\0\0ello")
  }

  @Test func whatWasClosedSurvivesTheDaemon() throws {
    let (_, handle) = try container.create("a", "hello")
    try system.flush(handle)
    // As after kill -9: the files as they are, opened by another process.
    let copy = container.directory + "/copy"
    try Files.makeDirectory(copy)
    for suffix in ["", "-wal", "-redo-a", "-redo-b"] {
      let name = "catalog.sqlite" + suffix
      try Files.replace(copy + "/" + name, with: try Files.read(container.directory + "/" + name))
    }
    let catalog = try ContainerCatalog(
      path: copy + "/catalog.sqlite", owner: 0, group: 0, clock: SystemClock())
    let found = try catalog.lookup(ItemName("a"), in: .root)
    #expect(found?.size == 5)
  }
}
