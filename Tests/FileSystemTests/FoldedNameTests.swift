import Catalog
import FileSystem
import Model
import Platform
import SystemPackage
import Testing

/// Names that differ in case or Unicode form alone.
@Suite struct FoldedNameTests {
  @Test(arguments: [
    ("Readme", "README", true), ("a", "b", false), ("stra\u{DF}e", "STRASSE", true),
    ("\u{E9}t\u{E9}", "e\u{301}te\u{301}", true), ("\u{C9}", "e\u{301}", true),
    ("\u{3C3}\u{3C2}", "\u{3A3}\u{3A3}", true), ("\u{131}", "i", false),
    ("\u{130}", "i\u{307}", true), ("\u{1F600}", "\u{1F601}", false),
    ("\u{10400}", "\u{10428}", true), ("\u{FB01}", "fi", true),
  ])
  func namesAreAlike(_ pair: (String, String, Bool)) throws {
    #expect(
      (FoldedName(try ItemName(pair.0)) == FoldedName(try ItemName(pair.1))) == pair.2)
  }

  @Test func bytesThatAreNoTextHaveNoCase() throws {
    #expect(FoldedName(try ItemName([0x41, 0xFF])) == nil)
  }

  private let container: Container
  private let folding: ContainerFileSystem

  init() throws {
    container = try Container()
    folding = ContainerFileSystem(
      coordinator: container.coordinator, clock: SystemClock(), foldsCase: true)
  }

  private func found(_ name: String) throws -> InodeNumber? {
    try folding.lookup(container.name(name), in: .root)?.inode.number
  }

  @Test func aNameIsFoundByOneThatIsLikeIt() throws {
    let made = try container.make(.directory, "Notes")
    #expect(try found("NOTES") == made)
    #expect(try folding.lookup(container.name("Notes"), in: .root)?.isNamedExactly == true)
    #expect(try folding.lookup(container.name("notes"), in: .root)?.isNamedExactly == false)
    #expect(throws: Errno.fileExists) {
      try folding.make(
        container.name("nOTES"), in: .root,
        NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0))
    }
    try folding.remove(container.name("notes"), in: .root, directory: true)
    #expect(try container.names() == ["Documents"])
  }

  /// Of two that are alike each is found by its own name, and any other finds always the same.
  @Test func bothOfTwoAreFound() throws {
    let lower = try container.make(.file, "file")
    let upper = try container.make(.file, "FILE")
    #expect(try found("file") == lower)
    #expect(try found("FILE") == upper)
    #expect(try found("File") == upper)
  }

  @Test func aRenameReplacesWhatIsAlikeAndMayChangeCase() throws {
    _ = try container.make(.file, "old")
    let new = try container.make(.file, "new")
    try folding.rename(
      container.name("NEW"), in: .root, to: container.name("OLD"), in: .root, mode: .replace)
    #expect(try container.names() == ["Documents", "old"])
    #expect(try found("old") == new)
    try folding.rename(
      container.name("old"), in: .root, to: container.name("Old"), in: .root, mode: .replace)
    #expect(try container.names() == ["Documents", "Old"])
  }

  /// The memory of a directory's names follows what is made, removed and undone.
  @Test func collisionsComeAndGo() throws {
    let catalog = container.catalog
    let one = try container.make(.file, "Caf\u{E9}")
    #expect(try !catalog.hasNameCollision(one))
    let other = try container.make(.file, "cafe\u{301}")
    #expect(try catalog.hasNameCollision(one))
    #expect(try catalog.hasNameCollision(other))
    #expect(throws: Errno.fileExists) { try container.make(.file, "cafe\u{301}") }
    #expect(try catalog.hasNameCollision(one))
    try container.system.rename(
      container.name("cafe\u{301}"), in: .root, to: container.name("tea"), in: .root,
      mode: .replace)
    #expect(try !catalog.hasNameCollision(one))
    try container.system.rename(
      container.name("tea"), in: .root, to: container.name("CAF\u{C9}"), in: .root, mode: .replace)
    #expect(try catalog.hasNameCollision(one))
    try container.system.remove(container.name("CAF\u{C9}"), in: .root, directory: false)
    #expect(try !catalog.hasNameCollision(one))
  }

  /// More names than come in one page, some of them while they are read.
  @Test func aLargeDirectoryIsReadOnce() throws {
    for index in 0..<9_000 { _ = try container.make(.file, "f\(index)") }
    #expect(try found("F8999") != nil)
    _ = try container.make(.file, "g")
    #expect(try found("G") != nil)
    try container.system.remove(container.name("f17"), in: .root, directory: false)
    #expect(try found("F17") == nil)
  }
}
