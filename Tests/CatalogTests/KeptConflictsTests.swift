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
}
