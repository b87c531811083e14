import Catalog
import ContentStore
import ControlProtocol
import Foundation
import Glibc
import Model
import Platform
import SystemPackage
import Testing

@testable import Daemon

/// A restore copies everything that can be copied, whatever is wrong with single items.
@Suite struct TreeExportTests {
  private let scratch: Scratch
  private let catalog: ContainerCatalog
  private let content: ContentFiles

  init() throws {
    scratch = try Scratch()
    catalog = try ContainerCatalog(
      path: scratch.path + "/catalog.sqlite", owner: getuid(), group: getgid(), clock: SystemClock()
    )
    content = try ContentFiles(directory: scratch.path + "/content")
  }

  // MARK: A tree

  private func directory(
    _ name: String, in parent: InodeNumber = .root, mode: UInt16 = 0o755
  ) throws -> InodeNumber {
    try catalog.create(
      ItemName(name), in: parent, NewItem(kind: .directory, mode: mode, owner: 0, group: 0)
    ).number
  }

  @discardableResult
  private func file(
    _ name: String, _ text: String, in parent: InodeNumber = .root, hasContent: Bool = true
  ) throws -> Catalog.Inode {
    let inode = try catalog.create(
      ItemName(name), in: parent, NewItem(kind: .file, mode: 0o640, owner: 0, group: 0))
    let bytes = Array(text.utf8)
    if hasContent {
      try content.open(key(inode), writable: true, create: true).write(bytes, at: 0)
    }
    try catalog.noteContentChange(
      inode.number, size: UInt64(bytes.count), modified: Timestamp(nanoseconds: 1_000_000_007))
    return inode
  }

  private func key(_ inode: Catalog.Inode) -> ContentKey {
    ContentKey(item: inode.item, generation: inode.generation)
  }

  private var target: String { scratch.path + "/back" }

  private func restore(continues: Bool = false) throws -> RestoredSetAside {
    try Files.makeDirectories(target)
    var export = try TreeExport(
      catalog: catalog, content: content, to: target, continues: continues)
    try export.run()
    return export.result
  }

  private func text(_ path: String) throws -> String {
    String(decoding: try Files.read(target + "/" + path), as: UTF8.self)
  }

  // MARK: Tests

  @Test("a restore lists items that it cannot copy, and copies everything else")
  func failuresAreCollected() throws {
    let folder = try directory("folder", mode: 0o500)
    try file("first", "1")
    try file("gone", "lost", hasContent: false)
    let short = try file("short", "123456", in: folder)
    try content.open(key(short), writable: true).truncate(to: 3)
    try file("last", "2", in: folder)
    let result = try restore()
    #expect(result.failed == 2 && result.files == 2 && result.bytes == 2)
    #expect(result.failures.map(\.path.description).sorted() == ["folder/short", "gone"])
    let reasons = result.failures.map(\.reason)
    #expect(reasons.contains { $0.hasSuffix("cannot be read: No such file or directory") })
    #expect(reasons.contains { $0.contains(content.path(of: key(short))) })
    #expect(reasons.contains { $0.hasSuffix("has 3 bytes of 6") })
    #expect(try text("first") == "1" && text("folder/last") == "2")
    // No file is there that is not whole, and nothing that the copying left.
    #expect(try Files.names(in: target) == ["Documents", "first", "folder"])
    #expect(try Files.names(in: target + "/folder") == ["last"])
    let status = try Files.status(target + "/folder/last")
    #expect(status.st_mode & 0o7777 == 0o640)
    #expect(status.st_mtim.tv_sec == 1 && status.st_mtim.tv_nsec == 7)
    #expect(try Files.status(target + "/folder").st_mode & 0o7777 == 0o500)
  }

  @Test("a second run copies the items that the first could not, and replaces none")
  func secondRun() throws {
    let folder = try directory("folder", mode: 0o500)
    let gone = try file("gone", "lost", in: folder, hasContent: false)
    try file("kept", "old", in: folder)
    #expect(try restore().failed == 1)
    _ = system("echo new > \(target)/folder/kept")
    // It has the name of a missing item.
    try content.open(key(gone), writable: true, create: true).write(Array("lost".utf8), at: 0)
    let result = try restore(continues: true)
    #expect(result.failed == 0 && result.files == 1 && result.kept == 1)
    #expect(try text("folder/gone") == "lost" && text("folder/kept") == "new\n")
    #expect(try Files.status(target + "/folder").st_mode & 0o7777 == 0o500)
    #expect(try restore(continues: true).kept == 2)
    // Something else of that name is left, and said.
    _ = system("rm -rf \(target)/folder; echo other > \(target)/folder")
    let blocked = try restore(continues: true)
    #expect(blocked.failures.map(\.path.description) == ["folder"])
    #expect(try text("folder") == "other\n")
  }

  @Test("further names of a file are names of its copy, and of no other file")
  func hardLinks() throws {
    let folder = try directory("folder")
    let inode = try file("one", "text")
    _ = try catalog.link(inode.number, as: ItemName("two"), in: folder)
    var result = try restore()
    #expect(result.failed == 0 && result.files == 1)
    let first = try Files.status(target + "/one")
    #expect(try Files.status(target + "/folder/two").st_ino == first.st_ino && first.st_nlink == 2)
    // Another file has taken a name, and the other name is free.
    try Files.remove(target + "/folder/two")
    _ = system("rm \(target)/one; echo mine > \(target)/one")
    result = try restore(continues: true)
    #expect(result.failed == 0 && result.kept == 1 && result.files == 1)
    #expect(try text("one") == "mine\n" && text("folder/two") == "text")
    #expect(try Files.status(target + "/one").st_nlink == 1)
  }

  @Test("a tree that is deeper than a path can be comes back whole")
  func deepTree() throws {
    let name = String(repeating: "d", count: 200)
    let depth = 400
    var inodes = [InodeNumber.root]
    for _ in 0..<depth { inodes.append(try directory(name, in: inodes[inodes.count - 1])) }
    try file("bottom", "deep", in: inodes[depth])
    try file("gone", "lost", in: inodes[depth], hasContent: false)
    try file("middle", "half", in: inodes[depth / 2])
    let result = try restore()
    #expect(result.files == 2 && result.failed == 1)
    // Its path alone has 80,000 bytes.
    let path = Array(repeating: name, count: depth).joined(separator: "/") + "/gone"
    #expect(result.failures.map(\.path.description) == [path])
    var here = try OpenDirectory(path: target)
    for level in 0..<depth {
      if level == depth / 2 { #expect(try here.status(ItemName("middle"))?.st_size == 4) }
      here = try here.directory(ItemName(name))
    }
    #expect(try here.status(ItemName("bottom"))?.st_size == 4)
    #expect(try here.status(ItemName("gone")) == nil)
    #expect(system("rm -rf \(target)") == 0)
  }

  @Test("long lists fit into an answer")
  func longLists() throws {
    let folder = try directory(String(repeating: "f", count: 250))
    for index in 0..<3_000 {
      try file(
        "\(String(repeating: "\u{1}", count: 200)) \(index)", "x", in: folder, hasContent: false)
    }
    let result = try restore()
    #expect(result.failed == 3_000 && result.files == 0)
    #expect(!result.failures.isEmpty && result.failures.count < 3_000)
    #expect(try JSONEncoder().encode(result).count < LineBuffer.maximumLength)
  }
}
