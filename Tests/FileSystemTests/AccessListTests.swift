import Catalog
import FileSystem
import Model
import SystemPackage
import Testing

@Suite struct AccessListTests {
  private let container: Container
  private var system: ContainerFileSystem { container.system }

  init() throws { container = try Container() }

  /// Entries of tag, permissions and identifier, as the kernel writes them.
  private func list(_ entries: [(tag: UInt16, permissions: UInt16, id: UInt32)]) -> [UInt8] {
    func bytes(_ value: UInt32, _ count: Int) -> [UInt8] {
      (0..<count).map { UInt8(truncatingIfNeeded: value >> (8 * UInt32($0))) }
    }
    return entries.reduce(into: bytes(2, 4)) { result, entry in
      result +=
        bytes(UInt32(entry.tag), 2) + bytes(UInt32(entry.permissions), 2)
        + bytes(entry.id, 4)
    }
  }

  private let none = UInt32.max
  private var named: [UInt8] {
    list([(1, 6, none), (2, 6, 1234), (4, 4, none), (16, 6, none), (32, 4, none)])
  }

  private func set(_ name: String, _ value: [UInt8], of number: InodeNumber) throws {
    try system.setAttribute(
      container.name(name), value, mode: .createOrReplace, of: number, caller: Container.caller)
  }

  private func get(_ name: String, of number: InodeNumber) throws -> [UInt8] {
    try system.attribute(container.name(name), of: number)
  }

  private func mode(_ number: InodeNumber) throws -> UInt16 {
    try container.catalog.inode(number).mode
  }

  @Test("a list sets the mode, and a change of the mode the list")
  func listsAndModesAgree() throws {
    let (number, handle) = try container.create("f")
    container.system.release(handle)
    try set(AccessControlList.access, named, of: number)
    #expect(try mode(number) == 0o664)
    _ = try system.setStatus(number, StatusChanges(mode: 0o640), caller: Container.caller)
    #expect(
      try get(AccessControlList.access, of: number)
        == list([(1, 6, none), (2, 6, 1234), (4, 4, none), (16, 4, none), (32, 0, none)]))
  }

  @Test("a list of which the mode says all is the mode alone")
  func minimalListsAreModes() throws {
    let (number, handle) = try container.create("f")
    container.system.release(handle)
    try set(AccessControlList.access, named, of: number)
    try set(
      AccessControlList.access, list([(1, 7, none), (4, 1, none), (32, 0, none)]), of: number)
    #expect(try mode(number) == 0o710)
    #expect(throws: Errno.noData) { try get(AccessControlList.access, of: number) }
    // Removing what is not there is no error.
    try system.removeAttribute(container.name(AccessControlList.access), of: number)
  }

  @Test("what is made in a directory with an initial list begins with it, without the umask")
  func initialListsAreInherited() throws {
    let directory = try container.make(.directory, "d")
    let initial = list([(1, 7, none), (2, 7, 1234), (4, 5, none), (16, 7, none), (32, 0, none)])
    try set(AccessControlList.initial, initial, of: directory)
    #expect(try mode(directory) == 0o755)
    let caller = Caller(user: 0, group: 0, umask: 0o077)
    let (file, opened) = try system.create(
      container.name("f"), in: directory, permissions: 0o666,
      OpenMode(canWrite: true, isExclusive: true), caller: caller)
    system.release(opened.handle)
    #expect(file.inode.mode == 0o660)
    #expect(
      try get(AccessControlList.access, of: file.inode.number)
        == list([(1, 6, none), (2, 7, 1234), (4, 5, none), (16, 6, none), (32, 0, none)]))
    #expect(throws: Errno.noData) { try get(AccessControlList.initial, of: file.inode.number) }
    let below = try system.make(
      container.name("below"), in: directory,
      NewItem(kind: .directory, mode: 0o777, owner: 0, group: 0), umask: 0o077)
    #expect(below.inode.mode == 0o770)
    #expect(try get(AccessControlList.initial, of: below.inode.number) == initial)
    // Elsewhere the umask holds.
    let plain = try system.make(
      container.name("plain"), in: .root,
      NewItem(kind: .directory, mode: 0o777, owner: 0, group: 0), umask: 0o077)
    #expect(plain.inode.mode == 0o700)
  }

  @Test(
    "what is no list is EINVAL",
    arguments: [[1, 0, 0, 0], [2, 0, 0, 0, 1], [2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255]]
      as [[UInt8]])
  func invalidLists(bytes: [UInt8]) throws {
    let directory = try container.make(.directory, "d")
    #expect(throws: Errno.invalidArgument) {
      try set(AccessControlList.access, bytes, of: directory)
    }
  }
}
