import Catalog
import GRDB
import Model
import SystemPackage
import Testing

@Suite struct CheckingTests {
  let fixture: Fixture
  let lost: Inode
  let held: Inode
  let folder: Inode
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws {
    fixture = try Fixture()
    folder = try fixture.folder("folder")
    lost = try fixture.file("lost", in: folder.number)
    held = try fixture.file("held")
    for file in [lost, held] { try fixture.write(file.number, 10) }
    try fixture.commitAll()
  }

  private func size(_ key: ContentKey) -> UInt64? { 10 }

  /// Does with the tables what no version of the program does.
  private func harm(_ sql: String) throws {
    try catalog.close()
    let queue = try DatabaseQueue(path: fixture.path)
    try queue.write { try $0.execute(sql: sql) }
    try queue.close()
    try fixture.reopenOnly()
  }

  private func keys() throws -> [ContentKey] {
    var result: [ContentKey] = []
    try catalog.forEachInode { if let key = $0.contentKey { result.append(key) } }
    return result
  }

  @Test func aSoundCatalogHasNoProblems() throws {
    #expect(try catalog.check(contentKeys: try keys(), size: size).isEmpty)
  }

  @Test(arguments: [
    "UPDATE inode SET nlink = 7 WHERE ino = 2",
    "DELETE FROM entry WHERE name = CAST('lost' AS BLOB)",
    "DELETE FROM entry WHERE name = CAST('folder' AS BLOB)",
    "INSERT INTO entry (parent, name, child) VALUES (2, CAST('ghost' AS BLOB), 999)",
    "UPDATE inode SET flags = flags | 4 WHERE ino = 3",
    "DELETE FROM remote_link",
    """
    UPDATE entry SET parent = (SELECT child FROM entry WHERE name = CAST('folder' AS BLOB))
    WHERE name = CAST('folder' AS BLOB)
    """,
  ])
  func harmIsFoundAndRepaired(sql: String) throws {
    try harm(sql)
    let problems = try catalog.check(contentKeys: try keys(), size: size)
    #expect(!problems.isEmpty && problems.contains { $0.isRepairable })
    for _ in 0..<3 { _ = try catalog.repair(contentKeys: try keys(), size: size) }
    #expect(try catalog.check(contentKeys: try keys(), size: size) == [])
    // No file was lost over it.
    #expect(try catalog.path(of: lost.number) != nil && catalog.path(of: held.number) != nil)
  }

  @Test func contentFilesAreCompared() throws {
    let stray = ContentKey(item: .random(), generation: 3)
    let sizes: (ContentKey) -> UInt64? = { key in
      key == lost.contentKey ? nil : key == held.contentKey ? 12 : 10
    }
    let problems = try catalog.check(contentKeys: try keys() + [stray], size: sizes)
    #expect(problems.count == 3)
    #expect(problems.allSatisfy { $0.isRepairable })
    let result = try catalog.repair(contentKeys: try keys() + [stray], size: sizes)
    #expect(result.obsolete == [stray])
    // What the backend has is a placeholder again; what differs here is an edit.
    #expect(try catalog.inode(lost.number).content == .remote)
    #expect(try catalog.inode(held.number).size == 12)
    #expect(try catalog.local(held.item)?.isEdited == true)
    #expect(try catalog.dirtyStamp(held.item) != nil)
  }

  /// One that was made before there was the newest table.
  @Test func anOlderCatalogIsBroughtUpToDate() throws {
    try catalog.close()
    let queue = try DatabaseQueue(path: fixture.path)
    try queue.inDatabase { db in
      let new = [
        "removed", "sent", "pack", "snapshot", "peer", "stray", "staged_item", "staged_link",
        "staged_chunk", "staged_removed", "staged_pack", "sending", "folded", "kept_version",
        "lost_chunk", "kept_conflict",
      ]
      for table in new { try db.execute(sql: "DROP TABLE \(table)") }
      try db.execute(
        sql: """
          DROP INDEX chunk_place;
          INSERT INTO chunk VALUES (CAST(printf('%032d', 1) AS BLOB), x'11111111111111111111111111111111', 8, 40, 11);
          INSERT INTO chunk VALUES (CAST(printf('%032d', 2) AS BLOB), x'11111111111111111111111111111111', 48, 30, 1);
          PRAGMA user_version = 1;
          """)
    }
    try queue.close()
    try fixture.reopenOnly()
    #expect(try catalog.removedItems(since: Timestamp(nanoseconds: 0)).isEmpty)
    #expect(try catalog.lookup("held", in: fixture.documents) != nil)
    let live = try LiveChunks(catalog)
    let use = try #require(try catalog.packUses(after: nil, live).first)
    #expect(use.bytes == 70 && use.live.isEmpty)
  }
}
