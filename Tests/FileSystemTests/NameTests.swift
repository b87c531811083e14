import Catalog
import ContentStore
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage
import Testing

@Suite struct NameTests {
  let container: Container
  init() throws { container = try Container() }

  @Test func aNewContainerHasDocumentsAlone() throws {
    #expect(try container.names() == ["Documents"])
  }

  @Test func lookupFindsWhatIsThereAndNothingElse() throws {
    let made = try container.make(.directory, "d")
    #expect(try container.system.lookup(container.name("d"), in: .root)?.inode.number == made)
    #expect(try container.system.lookup(container.name("e"), in: .root) == nil)
    let long = [UInt8](repeating: 0x61, count: 256)
    #expect(throws: Errno.fileNameTooLong) { try container.system.lookup(long, in: .root) }
  }

  @Test("a directory that is removed or renamed while names are stale is refused once")
  func staleDirectories() throws {
    let system = container.system
    for name in ["d", "e"] { _ = try container.make(.directory, name) }
    let (d, e, f) = (container.name("d"), container.name("e"), container.name("f"))
    let (changes, stale) = (container.coordinator, Errno.staleNFSFileHandle)
    try changes.changeNames { () throws(Errno) in
      #expect(throws: stale) {
        try system.rename(d, in: .root, to: e, in: .root, mode: .replace, by: 7)
      }
      try system.rename(d, in: .root, to: e, in: .root, mode: .replace, by: 7)
      #expect(throws: Errno.noSuchFileOrDirectory) {
        try system.remove(d, in: .root, directory: true, by: 7)
      }
      #expect(throws: stale) { try system.remove(e, in: .root, directory: true, by: 7) }
      try system.rename(e, in: .root, to: f, in: .root, mode: .noReplace, by: 7)
      #expect(throws: stale) { try system.remove(f, in: .root, directory: true, by: 7) }
      try system.remove(f, in: .root, directory: true, by: 7)
      return ((), [])
    }
    #expect(try container.names() == ["Documents"])
  }

  @Test func listingGoesOnWhereItStoppedWhateverIsRemovedMeanwhile() throws {
    for index in 0..<10 { _ = try container.make(.file, "f\(index)") }
    let first = try container.system.list(.root, from: 0, limit: 4)
    #expect(first.prefix(2).map(\.isDot) == [true, true])
    let last = try #require(first.last)
    try container.system.remove(last.name, in: .root, directory: false)
    let rest = try container.system.list(.root, from: last.offset, limit: 100)
    let all = (first + rest).filter { !$0.isDot }.map { String(decoding: $0.name, as: UTF8.self) }
    #expect(Set(all) == Set((0..<10).map { "f\($0)" } + ["Documents"]))
    #expect(all.count == 11)
  }

  @Test func exchangeSwapsAndNoReplaceRefuses() throws {
    let a = try container.make(.file, "a")
    let b = try container.make(.directory, "b")
    let system = container.system
    #expect(throws: Errno.fileExists) {
      try system.rename(
        container.name("a"), in: .root, to: container.name("b"), in: .root, mode: .noReplace)
    }
    try system.rename(
      container.name("a"), in: .root, to: container.name("b"), in: .root, mode: .exchange)
    #expect(try system.lookup(container.name("a"), in: .root)?.inode.number == b)
    #expect(try system.lookup(container.name("b"), in: .root)?.inode.number == a)
  }

  @Test func aRemovedFileLivesWhileItIsOpenAndIsGoneAfter() throws {
    let (number, handle) = try container.create("a", "text")
    try container.system.remove(container.name("a"), in: .root, directory: false)
    #expect(try container.read(handle) == "text")
    #expect(try container.system.status(number).inode.linkCount == 0)
    try container.write(handle, "more", at: 4)
    #expect(try container.read(handle) == "textmore")
    container.system.release(handle)
    // The kernel still knows it.
    #expect(try container.system.status(number).size == 8)
    container.system.forget(number, count: 1)
    #expect(throws: Errno.staleNFSFileHandle) { try container.system.status(number) }
    try container.catalog.commit(durable: true)
    #expect(try container.content.keys().isEmpty)
  }

  @Test func aReplacedFileGoesWithItsContent() throws {
    let (old, oldHandle) = try container.create("old", "1")
    let (_, newHandle) = try container.create("new", "2")
    container.system.release(oldHandle)
    container.system.release(newHandle)
    container.system.forget(old, count: 1)
    try container.system.rename(
      container.name("new"), in: .root, to: container.name("old"), in: .root, mode: .replace)
    try container.catalog.commit(durable: true)
    #expect(try container.content.keys().count == 1)
    #expect(try container.names().sorted() == ["Documents", "old"])
  }

  @Test("a file handle finds an inode that the kernel has forgotten, and its directory")
  func lookupsOfDots() throws {
    let directory = try container.make(.directory, "d")
    let (number, handle) = try container.create("f", "text", in: directory)
    container.system.release(handle)
    container.system.forget(number, count: 1)
    container.system.forget(directory, count: 1)
    let dot = container.name(".")
    let dots = container.name("..")
    #expect(try container.system.lookup(dots: dot, of: number)?.inode.number == number)
    #expect(try container.system.lookup(dots: dots, of: directory)?.inode.number == .root)
    #expect(try container.system.lookup(dots: container.name(".a"), of: .root) == nil)
    // It counts as a lookup: the unlinked file stays until it is forgotten.
    try container.system.remove(container.name("f"), in: directory, directory: false)
    #expect(try container.size(number) == 4)
    container.system.forget(number, count: 1)
    #expect(throws: Errno.staleNFSFileHandle) {
      try container.system.lookup(dots: dot, of: number)
    }
  }

  @Test func symbolicLinksKeepTheirTarget() throws {
    let made = try container.system.make(
      container.name("s"), in: .root,
      NewItem(kind: .symbolicLink, mode: 0o777, owner: 0, group: 0, target: Array("../x".utf8)))
    #expect(made.size == 4)
    #expect(try container.system.readLink(made.inode.number) == Array("../x".utf8))
  }
}
