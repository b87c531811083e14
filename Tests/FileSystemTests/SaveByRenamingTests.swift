import Catalog
import ContentStore
import FileSystem
import Model
import Platform
import SystemPackage
import Testing

/// A document that is saved by renaming a new file over it stays the same item.
@Suite struct SaveByRenamingTests {
  private let container: Container
  private let document: InodeNumber
  private let item: ItemID

  init() throws {
    container = try Container()
    let (number, handle) = try container.create("document", "old")
    container.system.release(handle)
    document = number
    item = try container.catalog.inode(number).item
  }

  private func rename(_ from: String, _ to: String) throws {
    try container.system.rename(
      container.name(from), in: .root, to: container.name(to), in: .root, mode: .replace)
  }

  private func write(_ name: String, _ text: String) throws -> InodeNumber {
    let (number, handle) = try container.create(name, text)
    container.system.release(handle)
    return number
  }

  private func problems(_ catalog: ContainerCatalog) throws -> [String] {
    let content = container.content
    return try catalog.check(contentKeys: try content.keys()) { key in
      (try? content.found(key))??.size
    }.map { "\($0)" }
  }

  private func text(_ number: InodeNumber) throws -> String {
    let handle = try container.open(number)
    defer { container.system.release(handle) }
    return try container.read(handle)
  }

  @Test("a file that is renamed over another while its upload begins is no failure")
  func uploadOfARenamedFile() throws {
    let draft = try write("draft", "new")
    let before = try container.catalog.inode(draft)
    try rename("draft", "document")
    try container.catalog.commit(durable: true)
    // Its old content file goes a moment later.
    try container.content.remove(
      ContentKey(item: before.item, generation: before.generation))
    #expect(try container.coordinator.contentForUpload(of: before) == nil)
    let now = try container.catalog.inode(draft)
    #expect(try container.coordinator.contentForUpload(of: now) != nil)
  }

  @Test("an upload corrects a row that is behind its file")
  func uploadOfARowThatIsBehind() throws {
    let inode = try container.catalog.inode(document)
    let key = ContentKey(item: inode.item, generation: inode.generation)
    try container.content.open(key, writable: true).write(Array("longer".utf8), at: 3)
    #expect(try container.coordinator.contentForUpload(of: inode) == nil)
    let now = try container.catalog.inode(document)
    #expect(now.size == 9)
    #expect(try container.coordinator.contentForUpload(of: now) != nil)
  }

  @Test func theItemStays() throws {
    for round in 1...3 {
      let draft = try write("draft", "new \(round)")
      try rename("draft", "document")
      let inode = try #require(try container.catalog.lookup(ItemName("document"), in: .root))
      #expect(inode.number == draft && inode.item == item && inode.version == nil)
      #expect(try text(draft) == "new \(round)")
    }
    container.system.forget(document, count: 1)
    try container.catalog.commit(durable: true)
    #expect(try container.names().sorted() == ["Documents", "document"])
    #expect(try problems(container.catalog) == [])
  }

  @Test func nothingIsLeftOfTheOthers() throws {
    container.system.forget(document, count: 1)
    for round in 1...3 {
      let draft = try write("draft", "new \(round)")
      try rename("draft", "document")
      container.system.forget(draft, count: 1)
    }
    try container.catalog.commit(durable: true)
    #expect(try container.content.keys().map(\.item) == [item])
  }

  @Test func whoHasTheOldOneOpenKeepsIt() throws {
    let reader = try container.open(document)
    _ = try write("draft", "new")
    try rename("draft", "document")
    #expect(try container.read(reader) == "old")
    container.system.release(reader)
  }

  @Test func whoHasTheNewOneOpenGoesOn() throws {
    let (draft, handle) = try container.create("draft", "new")
    try rename("draft", "document")
    try container.catalog.commit(durable: true)
    try container.write(handle, "er", at: 3)
    #expect(try container.read(handle) == "newer")
    container.system.release(handle)
    #expect(try text(draft) == "newer")
    #expect(try container.catalog.inode(draft).item == item)
    try container.catalog.commit(durable: true)
    #expect(try problems(container.catalog) == [])
  }

  @Test func whatStayedOnTheDeviceMayBecomeTheDocument() throws {
    let draft = try write("draft.nosync", "new")
    #expect(try container.catalog.inode(draft).isExcluded)
    try rename("draft.nosync", "document")
    let inode = try container.catalog.inode(draft)
    #expect(inode.item == item && !inode.isExcluded)
    #expect(try text(draft) == "new")
    try container.catalog.commit(durable: true)
    #expect(try problems(container.catalog) == [])
  }

  @Test func anEmptyFileAndALinkedOneTakeThePlaceOfAnother() throws {
    let empty = try write("empty", "")
    try rename("empty", "document")
    #expect(try container.catalog.inode(empty).item != item)
    let linked = try write("linked", "x")
    _ = try container.system.link(linked, as: container.name("second"), in: .root)
    try rename("linked", "document")
    #expect(try container.catalog.inode(linked).item != item)
    try container.catalog.commit(durable: true)
    #expect(try text(linked) == "x")
    #expect(try problems(container.catalog) == [])
  }

  /// As after kill -9: the files as they are, opened by another process, whatever of the rename the
  /// database had.
  @Test(arguments: [false, true]) func itIsThereAfterTheDaemonWasKilled(isFlushed: Bool) throws {
    if isFlushed { try container.catalog.commit(durable: true) }
    _ = try write("draft", "one")
    try rename("draft", "document")
    if isFlushed { try container.catalog.commit(durable: true) }
    _ = try write("draft", "two!")
    try rename("draft", "document")
    let copy = container.directory + "/copy"
    try Files.makeDirectory(copy)
    for suffix in ["", "-wal", "-redo-a", "-redo-b"] {
      let name = "catalog.sqlite" + suffix
      try Files.replace(copy + "/" + name, with: try Files.read(container.directory + "/" + name))
    }
    let catalog = try ContainerCatalog(
      path: copy + "/catalog.sqlite", owner: 0, group: 0, clock: SystemClock())
    let found = try #require(try catalog.lookup(ItemName("document"), in: .root))
    #expect(found.item == item && found.size == 4)
    let key = try #require(found.contentKey)
    #expect(try Files.read(container.content.path(of: key)) == Array("two!".utf8))
    // Content that nothing names is swept at the start.
    #expect(try problems(catalog).filter { !$0.hasSuffix("belongs to no inode") } == [])
    try catalog.close()
  }
}
