import Catalog
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage
import Testing

/// What a daemon was doing when it was killed, and the next one finds in the mount's record and in
/// the state directory.
@Suite struct SuccessionTests {
  private func request(_ value: UInt64, isResent: Bool = false) -> RequestIdentity {
    RequestIdentity(value: value, isResent: isResent)
  }

  private var start: Timestamp { Timestamp(nanoseconds: SystemClock().nanoseconds()) }

  /// The next daemon, after a kill.
  private func successor(of container: Container) throws -> Container {
    let record = try MountRecord(try #require(container.system.record).file)
    let next = try Container(record: record, imageOf: container)
    #expect(try next.system.restore(record, start: start) == 0)
    return next
  }

  @Test("an open file keeps its handle, without a name too")
  func openFiles() throws {
    let container = try Container(record: try MountRecord())
    let (_, named) = try container.create("named", "text")
    let (_, unnamed) = try container.create("unnamed", "other")
    try container.system.remove(container.name("unnamed"), in: .root, directory: false)
    let (_, closed) = try container.create("closed")
    container.system.release(closed)
    try container.catalog.commit(durable: false)

    let next = try successor(of: container)
    #expect(try next.read(named) == "text")
    #expect(try next.read(unnamed) == "other")
    #expect(throws: Errno.badFileDescriptor) { try next.read(closed) }
    try next.write(named, "more", at: 4)
    #expect(try next.read(named) == "textmore")
    // Numbers go on where they were.
    let (_, new) = try next.create("new")
    #expect(![named, unnamed, closed].contains(new))
    next.system.release(unnamed)
    let after = try successor(of: next)
    #expect(throws: Errno.badFileDescriptor) { try after.read(unnamed) }
  }

  @Test("what has no name stays as long as the kernel knows it")
  func orphans() throws {
    let container = try Container(record: try MountRecord())
    let number = try container.make(.directory, "known")
    for _ in 0..<2 { _ = try container.system.lookup(container.name("known"), in: .root) }
    try container.system.remove(container.name("known"), in: .root, directory: true)
    let next = try successor(of: container)
    #expect(try next.system.status(number).inode.isOrphan)
    next.system.forget(number, count: 3)
    #expect(throws: Errno.staleNFSFileHandle) { try next.system.status(number) }
  }

  @Test("a change of a name that was made is not made again")
  func doneChanges() throws {
    let container = try Container(record: try MountRecord())
    let new = NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0)
    let made = try container.system.make(
      container.name("made"), in: .root, new, request: request(2)
    ).inode.number
    let file = try container.create("file").number
    _ = try container.system.link(
      file, as: container.name("link"), in: .root, request: request(4))
    try container.system.remove(
      container.name("file"), in: .root, directory: false, request: request(6))
    try container.system.rename(
      container.name("link"), in: .root, to: container.name("moved"), in: .root, mode: .replace,
      request: request(8))
    try container.system.setAttribute(
      container.name("user.x"), [1], mode: .create, of: file,
      caller: Caller(user: 0, group: 0, request: request(10)))

    let next = try successor(of: container)
    let resent = { request($0, isResent: true) }
    #expect(
      try next.system.make(next.name("made"), in: .root, new, request: resent(2)).inode.number
        == made)
    #expect(
      try next.system.link(file, as: next.name("link"), in: .root, request: resent(4)).inode.number
        == file)
    try next.system.remove(next.name("file"), in: .root, directory: false, request: resent(6))
    try next.system.rename(
      next.name("link"), in: .root, to: next.name("moved"), in: .root, mode: .replace,
      request: resent(8))
    try next.system.setAttribute(
      next.name("user.x"), [1], mode: .create, of: file,
      caller: Caller(user: 0, group: 0, request: resent(10)))
    #expect(try next.names().sorted() == ["Documents", "made", "moved"])
    // One that was not done, and a new one.
    #expect(throws: Errno.fileExists) {
      try next.system.make(next.name("made"), in: .root, new, request: resent(12))
    }
    #expect(throws: Errno.fileExists) {
      try next.system.make(next.name("made"), in: .root, new, request: request(2))
    }
  }

  @Test("the journal alone says what was done, and the numbers are those of one mount")
  func journal() throws {
    let container = try Container(record: try MountRecord())
    let new = NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0)
    let made = try container.system.make(
      container.name("made"), in: .root, new, request: request(2)
    ).inode.number
    let other = try MountRecord()
    let next = try Container(record: other, imageOf: container)
    #expect(next.catalog.doneRequests.contains { $0.number == made })
    #expect(try next.system.restore(other, start: start) == 0)
    #expect(throws: Errno.fileExists) {
      try next.system.make(
        next.name("made"), in: .root, new, request: request(2, isResent: true))
    }
  }

  /// The next daemon opens the catalog, which begins the journal anew, and is killed before it
  /// answers. `restores`: after it has read the record.
  @Test("a change is not made again when the next daemon is killed, too", arguments: [false, true])
  func secondKill(restores: Bool) throws {
    let container = try Container(record: try MountRecord())
    let new = NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0)
    // As where the kill came between the journal and the record.
    container.catalog.setDoneObserver(nil)
    let made = try container.system.make(
      container.name("made"), in: .root, new, request: request(2)
    ).inode.number
    let record = try MountRecord(try #require(container.system.record).file)
    let next = try Container(record: record, imageOf: container)
    if restores { #expect(try next.system.restore(record, start: start) == 0) }
    // The database alone tells of this one, and no longer of others.
    _ = try next.make(.directory, "other")
    let last = try successor(of: next)
    #expect(
      try last.system.make(
        last.name("made"), in: .root, new, request: request(2, isResent: true)
      ).inode.number == made)
  }

  /// A change of the sync engine is committed before the next record is written. The commit has the
  /// change of the name, too. The daemon is killed between the two.
  @Test("a change is not made again when its commit came before its record")
  func committedWithoutRecord() throws {
    let container = try Container(record: try MountRecord())
    let new = NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0)
    container.catalog.setDoneObserver(nil)
    try container.catalog.noteWriting(snapshotAt: 1)
    let made = try container.system.make(
      container.name("made"), in: .root, new, request: request(2)
    ).inode.number
    for file in ["a", "b"] {
      try Files.remove("\(container.directory)/catalog.sqlite-redo-\(file)")
    }
    let next = try successor(of: container)
    #expect(
      try next.system.make(
        next.name("made"), in: .root, new, request: request(2, isResent: true)
      ).inode.number == made)
  }

  @Test("the number of a removed item is not given to another after a kill")
  func numbers() throws {
    let container = try Container(record: try MountRecord())
    let gone = try container.make(.directory, "gone")
    try container.system.remove(container.name("gone"), in: .root, directory: true)
    let next = try successor(of: container)
    #expect(try next.make(.directory, "new") > gone)
  }

  @Test("an open that was made, and not answered, is the one that is answered")
  func doneOpen() throws {
    let container = try Container(record: try MountRecord())
    let number = try container.create("file", "text").number
    let caller = Caller(user: 0, group: 0, request: request(20))
    let handle = try container.system.open(number, OpenMode(canWrite: true), caller: caller).handle
    let next = try successor(of: container)
    let again = Caller(user: 0, group: 0, request: request(20, isResent: true))
    #expect(
      try next.system.open(number, OpenMode(canWrite: true), caller: again).handle == handle)
  }

  @Test("a record of another form is refused")
  func otherForm() throws {
    let memory = try SharedMemory.make(name: "other", size: 4096)
    #expect(throws: Errno.notSupported) { try MountRecord(memory.file) }
  }
}
