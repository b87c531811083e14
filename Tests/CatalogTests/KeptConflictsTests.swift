import Model
import SystemPackage
import Testing

@testable import Catalog

/// Conflict versions that a device keeps for the log after a recovery.
@Suite struct KeptConflictsTests {
  @Test("a file stays dirty until the log has the conflict versions that are kept for it")
  func dirtyUntilSupplied() throws {
    let fixture = try Fixture()
    let catalog = fixture.catalog
    try fixture.foldFirst()
    let plain = record(.random(), .file, "f")
    try fixture.folded([plain])
    _ = try fixture.apply([.upsert(plain, content: .placeholder, stamp: nil)])
    #expect(try catalog.dirtyStamp(plain.id) == nil)

    var whole = plain
    whole.conflicts = [contentVersion(10, 9)]
    let inode = try catalog.inode(try fixture.number(plain.id))
    try catalog.changeLazily { engine in
      try engine.write { db in
        try engine.queries.setKeptConflicts.run(db, plain.id, whole.encoded())
      }
      engine.mark(inode)
    }
    let stamp = try #require(try catalog.dirtyStamp(plain.id))
    // The local half of a plan is applied, and another device's segment is first in the log.
    _ = try fixture.apply([.upsert(whole, content: .keep, stamp: stamp)])
    #expect(try catalog.dirtyStamp(plain.id) != nil)
    #expect(try catalog.keptConflicts() == [plain.id: whole.conflicts])

    try fixture.folded([whole])
    #expect(try catalog.keptConflicts().isEmpty)
    _ = try fixture.apply(
      [.upsert(whole, content: .keep, stamp: try catalog.dirtyStamp(plain.id))])
    #expect(try catalog.dirtyStamp(plain.id) == nil)
    #expect(try fixture.isSound())
  }

  /// Installs a recovery of another branch of the log, in which the item has other conflict
  /// versions. `packs`: those that the store has.
  private func recover(
    _ number: UInt64, _ item: ItemID, with conflicts: [ContentVersion], packs: Set<PackID>,
    in fixture: Fixture
  ) throws {
    let elsewhere = LogPosition(
      sequence: number * 1_000_000 - 5, hash: [UInt8](repeating: 7, count: 32))
    try fixture.recover(number, known: elsewhere, packs: packs) { record in
      if record.id == item { record.conflicts = conflicts }
    }
  }

  /// A record in the log, and shown here, with conflict versions in one pack.
  private func conflicted(
    _ kind: ItemKind, _ versions: [ContentVersion], _ pack: PackID, in fixture: Fixture
  ) throws -> ItemRecord {
    try fixture.foldFirst()
    var result = record(.random(), kind, kind == .file ? "f" : "p.pages")
    result.conflicts = versions
    var offset: UInt64 = 8
    let chunks = versions.compactMap(\.manifest).flatMap(\.chunks).map { chunk in
      defer { offset += 100 }
      return ChunkLocation(chunk: chunk, pack: pack, offset: offset, storedLength: 100)
    }
    try fixture.catalog.fold(
      LogChanges(upserts: [result], chunks: chunks),
      to: LogPosition(
        sequence: fixture.sequence + 1, hash: [UInt8](repeating: 1, count: 32)))
    fixture.sequence += 1
    _ = try fixture.apply([.upsert(result, content: .placeholder, stamp: nil)])
    return result
  }

  @Test("a second recovery keeps the conflict versions that are not supplied since the first one")
  func twoRecoveries() throws {
    let fixture = try Fixture()
    let pack = PackID.random()
    let (first, second) = (contentVersion(10, 8), contentVersion(10, 9))
    let file = try conflicted(.file, [first, second], pack, in: fixture)
    try recover(1, file.id, with: [second], packs: [pack], in: fixture)
    #expect(try fixture.catalog.keptConflicts() == [file.id: [first]])
    try recover(2, file.id, with: [], packs: [pack], in: fixture)
    let kept = try fixture.catalog.keptConflicts()[file.id] ?? []
    #expect(Set(kept.map(\.id)) == [first.id, second.id])
    #expect(try fixture.catalog.dirtyStamp(file.id) != nil)
    #expect(try fixture.isSound())
  }

  @Test("nothing is kept of a package's version that the recovered log names and the store lost")
  func packageVersions() throws {
    let fixture = try Fixture()
    let version = contentVersion(10, 8)
    let package = try conflicted(.directory, [version], .random(), in: fixture)
    try recover(1, package.id, with: [version], packs: [], in: fixture)
    #expect(try fixture.catalog.keptConflicts().isEmpty)
    #expect(try fixture.isSound())
  }

  @Test("an agreement on an item does not end its mark while a version is kept for it")
  func agreement() throws {
    let fixture = try Fixture()
    let pack = PackID.random()
    let version = contentVersion(10, 8)
    let file = try conflicted(.file, [version], pack, in: fixture)
    try recover(1, file.id, with: [], packs: [pack], in: fixture)
    let stamp = try #require(try fixture.catalog.dirtyStamp(file.id))
    _ = try fixture.apply([.agree(file.id, stamp: stamp)])
    #expect(try fixture.catalog.dirtyStamp(file.id) == stamp)
    try fixture.catalog.dropKeptConflicts([version.id], of: file.id)
    _ = try fixture.apply([.agree(file.id, stamp: stamp)])
    #expect(try fixture.catalog.dirtyStamp(file.id) == nil)
  }
}
