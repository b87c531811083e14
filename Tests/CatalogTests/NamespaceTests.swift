import Catalog
import Model
import SystemPackage
import Testing

@Suite struct NamespaceTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  @Test func aNewCatalogHoldsDocumentsAndNothingIsDirty() throws {
    let root = try catalog.inode(.root)
    #expect(root.item == .root && root.linkCount == 3 && root.mode == 0o755)
    #expect(try fixture.names(.root) == ["Documents"])
    #expect(try catalog.inode(fixture.documents).item == .documents)
    #expect(try catalog.differing().isEmpty)
    #expect(try catalog.counts() == CatalogCounts(items: 1, totalBytes: 0, localBytes: 0))
    #expect(!catalog.endedUncleanly)
  }

  @Test func makingAndRemovingKeepsTimesAndLinkCounts() throws {
    let before = try catalog.inode(fixture.documents)
    let folder = try fixture.folder("folder")
    let after = try catalog.inode(fixture.documents)
    #expect(folder.linkCount == 2 && after.linkCount == 3)
    #expect(after.modified > before.modified && after.changed > before.changed)
    #expect(throws: Errno.fileExists) { try fixture.folder("folder") }
    let file = try fixture.file("file", in: folder.number)
    #expect(throws: Errno.notDirectory) { try fixture.file("x", in: file.number) }
    #expect(throws: Errno.directoryNotEmpty) {
      try catalog.remove("folder", in: fixture.documents, directory: true)
    }
    #expect(throws: Errno.isDirectory) {
      try catalog.remove("folder", in: fixture.documents, directory: false)
    }
    #expect(throws: Errno.notDirectory) {
      try catalog.remove("file", in: folder.number, directory: true)
    }
    #expect(throws: Errno.noSuchFileOrDirectory) {
      try catalog.remove("nothing", in: folder.number, directory: false)
    }
    let gone = try catalog.remove("file", in: folder.number, directory: false)
    #expect(gone.isOrphan && gone.linkCount == 0 && gone.changed > file.changed)
    #expect(try catalog.reclaim(file.number) == file.contentKey)
    #expect(throws: Errno.noSuchFileOrDirectory) { try catalog.inode(file.number) }
    #expect(try catalog.remove("folder", in: fixture.documents, directory: true).isOrphan)
    #expect(throws: Errno.noSuchFileOrDirectory) { try fixture.file("x", in: folder.number) }
    #expect(try catalog.inode(fixture.documents).linkCount == 2)
    #expect(throws: Errno.resourceBusy) { try catalog.reclaim(fixture.documents) }
    #expect(try fixture.isSound())
  }

  @Test func setGroupIDIsInherited() throws {
    let folder = try catalog.create(
      "shared", in: fixture.documents,
      NewItem(kind: .directory, mode: 0o2775, owner: 1, group: 77))
    let file = try fixture.file("file", in: folder.number)
    #expect(file.group == 77 && file.mode == 0o644)
    let below = try fixture.folder("below", in: folder.number)
    #expect(below.group == 77 && below.mode == 0o2755)
  }

  @Test func hardLinks() throws {
    let file = try fixture.file("a")
    let linked = try catalog.link(file.number, as: "b", in: fixture.documents)
    #expect(linked.number == file.number && linked.linkCount == 2 && linked.changed > file.changed)
    #expect(throws: Errno.fileExists) {
      try catalog.link(file.number, as: "b", in: fixture.documents)
    }
    #expect(throws: Errno.notPermitted) {
      try catalog.link(fixture.documents, as: "c", in: fixture.documents)
    }
    let local = try #require(try catalog.local(file.item))
    #expect(local.record.links.map { $0.name } == ["a", "b"])
    let outcome = try catalog.rename(
      "a", in: fixture.documents, to: "b", in: fixture.documents, mode: .replace)
    #expect(outcome.replaced == nil)
    #expect(try fixture.names(fixture.documents) == ["a", "b"])
    let one = try catalog.remove("a", in: fixture.documents, directory: false)
    #expect(!one.isOrphan && one.linkCount == 1)
    #expect(try fixture.isSound())
  }

  @Test func anUnnamedFileGetsAName() throws {
    let new = NewItem(kind: .file, mode: 0o600, owner: 1, group: 1)
    let unnamed = try catalog.createUnnamed(in: fixture.documents, new)
    #expect(unnamed.isOrphan && unnamed.linkCount == 0)
    #expect(try catalog.local(unnamed.item) == nil)
    let named = try catalog.link(unnamed.number, as: "named", in: fixture.documents)
    #expect(!named.isOrphan && named.linkCount == 1)
    #expect(try catalog.local(unnamed.item) != nil)
    _ = try catalog.remove("named", in: fixture.documents, directory: false)
    #expect(throws: Errno.noSuchFileOrDirectory) {
      try catalog.link(unnamed.number, as: "again", in: fixture.documents)
    }
    #expect(try fixture.isSound())
  }

  @Test func renames() throws {
    let file = try fixture.file("file")
    let folder = try fixture.folder("folder")
    let inner = try fixture.folder("inner", in: folder.number)
    func rename(
      _ name: ItemName, _ parent: InodeNumber, _ newName: ItemName, _ newParent: InodeNumber,
      _ mode: RenameMode = .replace
    ) throws -> RenameOutcome {
      try catalog.rename(name, in: parent, to: newName, in: newParent, mode: mode)
    }
    let documents = fixture.documents
    #expect(throws: Errno.invalidArgument) {
      try rename("folder", documents, "x", inner.number)
    }
    #expect(throws: Errno.invalidArgument) {
      try rename("folder", documents, "folder", folder.number)
    }
    #expect(throws: Errno.isDirectory) { try rename("file", documents, "folder", documents) }
    #expect(throws: Errno.notDirectory) { try rename("folder", documents, "file", documents) }
    #expect(throws: Errno.fileExists) {
      try rename("file", documents, "folder", documents, .noReplace)
    }
    #expect(throws: Errno.noSuchFileOrDirectory) {
      try rename("file", documents, "none", documents, .exchange)
    }
    #expect(throws: Errno.invalidArgument) {
      try rename("inner", folder.number, "folder", documents, .exchange)
    }
    // A directory over one that is not empty, and over one that is.
    let other = try fixture.folder("other")
    try fixture.file("content", in: other.number)
    #expect(throws: Errno.directoryNotEmpty) { try rename("folder", documents, "other", documents) }
    let empty = try fixture.folder("empty")
    let over = try rename("other", documents, "empty", documents)
    #expect(over.replaced?.number == empty.number && over.replaced?.isOrphan == true)
    #expect(over.moved.changed > other.changed)
    #expect(try catalog.inode(documents).linkCount == 4)
    // Over a file.
    let second = try fixture.file("second")
    let replaced = try rename("second", documents, "file", documents)
    #expect(replaced.replaced?.number == file.number && replaced.moved.number == second.number)
    // A directory for a file, between two directories.
    let swapped = try rename("inner", folder.number, "file", documents, .exchange)
    #expect(swapped.moved.number == inner.number && swapped.replaced?.number == second.number)
    #expect(try catalog.inode(folder.number).linkCount == 2)
    #expect(try catalog.inode(documents).linkCount == 5)
    #expect(try catalog.parent(of: inner.number) == documents)
    #expect(try catalog.path(of: second.number) == ["Documents", "folder", "inner"])
    #expect(try catalog.lookup("inner", in: folder.number)?.number == second.number)
    #expect(try fixture.isSound())
  }

  @Test func aDirectoryIsReadFromAnyOffset() throws {
    for index in 0..<20 { try fixture.file(try ItemName("f\(index)")) }
    let all = try catalog.readDirectory(fixture.documents, after: 0, limit: 100)
    #expect(all.count == 20 && all.allSatisfy { $0.offset >= 16 })
    #expect(zip(all, all.dropFirst()).allSatisfy { $0.offset < $1.offset })
    let rest = try catalog.readDirectory(fixture.documents, after: all[4].offset, limit: 3)
    #expect(rest.map(\.name) == all[5..<8].map(\.name))
    // Removing what was read does not hide what was not.
    for entry in all[..<5] {
      _ = try catalog.remove(entry.name, in: fixture.documents, directory: false)
    }
    let after = try catalog.readDirectory(fixture.documents, after: all[4].offset, limit: 100)
    #expect(after.map(\.name) == all[5...].map(\.name))
  }

  /// The log carries all attributes of an item in one record.
  @Test func attributesOfAnItemHaveALimit() throws {
    let file = try fixture.file("file").number
    let value = [UInt8](repeating: 3, count: 65_536)
    for number in 0..<63 {
      try catalog.setAttribute("user.\(number)", of: file, to: value, mode: .create)
    }
    #expect(throws: Errno.noSpace) {
      try catalog.setAttribute("user.full", of: file, to: value, mode: .create)
    }
    #expect(throws: Errno.noData) { try catalog.attribute("user.full", of: file) }
    // A value that is there may be replaced.
    try catalog.setAttribute("user.0", of: file, to: value.reversed(), mode: .replace)
    try catalog.removeAttribute("user.0", of: file)
    try catalog.setAttribute("user.full", of: file, to: value, mode: .create)
  }

  @Test func userAttributes() throws {
    let file = try fixture.file("file").number
    #expect(throws: Errno.noData) { try catalog.attribute("user.a", of: file) }
    #expect(throws: Errno.noData) {
      try catalog.setAttribute("user.a", of: file, to: [1], mode: .replace)
    }
    try catalog.setAttribute("user.a", of: file, to: [], mode: .create)
    #expect(try catalog.attribute("user.a", of: file) == [])
    #expect(throws: Errno.fileExists) {
      try catalog.setAttribute("user.a", of: file, to: [1], mode: .create)
    }
    try catalog.setAttribute("user.b", of: file, to: [1, 2], mode: .createOrReplace)
    #expect(try catalog.attributeNames(of: file) == ["user.a", "user.b"])
    let item = try catalog.inode(file).item
    #expect(try catalog.local(item)?.record.attributes == ["user.a": [], "user.b": [1, 2]])
    try catalog.removeAttribute("user.a", of: file)
    #expect(throws: Errno.noData) { try catalog.removeAttribute("user.a", of: file) }
  }

  @Test func whatAFailedOperationDidIsTakenBack() throws {
    let file = try fixture.file("file")
    let before = try catalog.differing()
    let stamp = try catalog.dirtyStamp(file.item)
    // The second of these fails after the first was written.
    #expect(throws: ApplyFailure.self) {
      try fixture.apply([
        .upsert(record(file.item, .file, "moved"), content: .keep, stamp: stamp),
        .upsert(record(.random(), .file, "x", in: .random()), content: .placeholder, stamp: nil),
      ])
    }
    #expect(try fixture.names(fixture.documents) == ["file"])
    #expect(try catalog.inode(file.number) == file)
    #expect(try catalog.differing() == before)
    #expect(try catalog.dirtyStamp(file.item) == stamp)
    #expect(try fixture.isSound())
  }

  @Test func theObserverHearsOfWhatBecameDirty() throws {
    let heard = Counter()
    catalog.setChangeObserver { heard.increment() }
    let file = try fixture.file("file")
    #expect(heard.value == 1)
    try fixture.write(file.number, 5)
    #expect(heard.value == 2)
    try fixture.folder("local.nosync", in: fixture.folder("folder").number)
    let count = heard.value
    _ = try catalog.setAttributes(file.number, AttributeChanges(owner: 5))
    #expect(heard.value == count)
    catalog.setChangeObserver(nil)
  }

  @Test func countsFollow() throws {
    #expect(try catalog.counts().items == 1)
    let file = try fixture.file("file")
    try fixture.write(file.number, 100)
    #expect(try catalog.counts() == CatalogCounts(items: 2, totalBytes: 100, localBytes: 100))
    try fixture.commitAll()
    _ = try catalog.evict(file.number, isOpen: { _ in false })
    #expect(try catalog.counts() == CatalogCounts(items: 2, totalBytes: 100, localBytes: 0))
    _ = try catalog.remove("file", in: fixture.documents, directory: false)
    #expect(try catalog.counts() == CatalogCounts(items: 1, totalBytes: 0, localBytes: 0))
    try fixture.reopen()
    #expect(try catalog.counts() == CatalogCounts(items: 1, totalBytes: 0, localBytes: 0))
  }
}
