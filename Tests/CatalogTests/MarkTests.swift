import Model
import SystemPackage
import Testing

@testable import Catalog

/// The dirty mark of an edit survives the end of the process with the edit.
@Suite struct MarkTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  /// A file that is in sync and is then written to.
  private func edited() throws -> Inode {
    let record = record(.random(), .file, "file")
    try fixture.folded([record])
    try fixture.apply([.upsert(record, content: .placeholder, stamp: nil)])
    let number = try fixture.number(record.id)
    let inode = try catalog.inode(number)
    _ = try catalog.markContentLocal(number, generation: inode.generation)
    try catalog.commit(durable: true)
    try fixture.write(number, 127)
    #expect(try catalog.dirtyStamp(record.id) != nil)
    return try catalog.inode(number)
  }

  private func expectEdit(_ file: Inode) throws {
    try catalog.commit(durable: false)
    let crashed = try fixture.crashed()
    let after = try crashed.inode(file.number)
    #expect(after.size == 127 && after.version == nil)
    #expect(try crashed.dirtyStamp(file.item) != nil)
    #expect(try crashed.differing() == [file.item])
  }

  @Test func itSurvivesAlone() throws { try expectEdit(try edited()) }

  /// The mark is on its way to the database, and what the journal gets then has to name it too.
  @Test func itSurvivesTheNextChangeDuringAFlush() throws {
    let file = try edited()
    catalog.engine.withLock { $0.beginFlush() }
    try catalog.noteBlocks(try #require(file.contentKey), of: file.number, 8)
    try expectEdit(file)
  }

  @Test func itSurvivesAChangeThatNobodyIsToldOf() throws {
    let file = try edited()
    _ = try catalog.setAttributes(
      file.number, AttributeChanges(owner: 7, accessed: Timestamp(nanoseconds: 5)))
    try expectEdit(file)
  }

  @Test func itSurvivesSuchAChangeDuringAFlush() throws {
    let file = try edited()
    catalog.engine.withLock { $0.beginFlush() }
    _ = try catalog.setAttributes(file.number, AttributeChanges(owner: 7))
    try expectEdit(file)
  }

  @Test func aMarkThatWasTakenAwayStaysAway() throws {
    let file = try edited()
    let stamp = try #require(try catalog.dirtyStamp(file.item))
    var record = try #require(try catalog.remote(file.item))
    record.content = contentVersion(127)
    try fixture.folded([record])
    try fixture.apply([.upsert(record, content: .placeholder, stamp: stamp)])
    #expect(try catalog.dirtyStamp(file.item) == nil)
    _ = try catalog.setAttributes(file.number, AttributeChanges(owner: 7))
    try catalog.commit(durable: false)
    #expect(try fixture.crashed().dirtyStamp(file.item) == nil)
  }

  @Test func aLostMarkIsSetAgainAfterACrash() throws {
    let file = try edited()
    try catalog.commit(durable: false)
    try catalog.engine.withLock { engine in
      try engine.operation { try engine.clearStamp(file.item) }
      try engine.commitDatabase()
    }
    let crashed = try fixture.crashed()
    #expect(try crashed.dirtyStamp(file.item) == nil)
    let found = FoundContent(size: 127, modified: Timestamp(nanoseconds: 0), blocks: nil)
    #expect(try crashed.recover { _ in found } == [file.number])
    #expect(try crashed.dirtyStamp(file.item) != nil)
    #expect(try crashed.recover { _ in found }.isEmpty)
  }
}
