import Catalog
import Model
import SystemPackage
import Testing

/// What is kept of the room that contents take on the disk.
@Suite struct BlocksTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  private func write(_ number: InodeNumber, blocks: UInt64?) throws {
    try catalog.noteContentChange(
      number, size: 10, blocks: blocks, modified: Timestamp(nanoseconds: 5))
  }

  @Test func theyOutliveTheProcess() throws {
    let full = try fixture.file("full")
    let sparse = try fixture.file("sparse")
    let unknown = try fixture.file("unknown")
    #expect(full.blocks == 0)
    try write(full.number, blocks: 8)
    try write(sparse.number, blocks: 0)
    try write(unknown.number, blocks: nil)
    try catalog.commit(durable: false)
    let crashed = try fixture.crashed()
    try fixture.reopen()
    for catalog in [crashed, catalog] {
      #expect(try catalog.inode(full.number).blocks == 8)
      #expect(try catalog.inode(sparse.number).blocks == 0)
      #expect(try catalog.inode(unknown.number).blocks == nil)
    }
  }

  @Test func whoWroteKnowsBetterThanWhoLooked() throws {
    let file = try fixture.file("file")
    let key = try #require(file.contentKey)
    try catalog.rememberBlocks(key, of: file.number, 99)
    #expect(try catalog.inode(file.number).blocks == 0)
    try write(file.number, blocks: nil)
    let before = try catalog.inode(file.number)
    try catalog.rememberBlocks(key, of: file.number, 16)
    var after = try catalog.inode(file.number)
    #expect(after.blocks == 16)
    // Nothing else is changed: it is no change of the file.
    after.blocks = before.blocks
    #expect(after == before)
    try catalog.noteBlocks(key, of: file.number, 24)
    #expect(try catalog.inode(file.number).blocks == 24)
    let other = ContentKey(item: key.item, generation: key.generation + 1)
    try catalog.noteBlocks(other, of: file.number, 32)
    #expect(try catalog.inode(file.number).blocks == 24)
  }

  @Test func notingThemMakesNothingDirty() throws {
    let file = try fixture.file("file")
    try write(file.number, blocks: 8)
    try fixture.commitAll()
    try catalog.noteBlocks(try #require(file.contentKey), of: file.number, 16)
    #expect(try catalog.differing().isEmpty)
    #expect(try catalog.inode(file.number).version != nil)
  }

  @Test func theyGoAndComeWithTheContent() throws {
    let file = try fixture.file("file")
    try write(file.number, blocks: 8)
    try fixture.commitAll()
    _ = try catalog.evict(file.number, isOpen: { _ in false })
    let evicted = try catalog.inode(file.number)
    #expect(evicted.blocks == nil)
    // Of a placeholder nothing is kept: its file grows as its bytes come.
    try catalog.noteBlocks(try #require(evicted.contentKey), of: file.number, 8)
    #expect(try catalog.inode(file.number).blocks == nil)
    #expect(
      try catalog.markContentLocal(file.number, generation: evicted.generation, blocks: 16))
    #expect(try catalog.inode(file.number).blocks == 16)
    _ = try catalog.replaceContent(file.number)
    #expect(try catalog.inode(file.number).blocks == 0)
  }

  @Test func aContentThatAnotherDeviceMadeIsNotKnown() throws {
    let file = try fixture.file("file")
    try write(file.number, blocks: 8)
    try fixture.commitAll()
    var record = try #require(try catalog.remote(file.item))
    record.content = contentVersion(20, 2)
    try fixture.folded([record])
    let staged = catalog.nextGeneration()
    try fixture.apply([.upsert(record, content: .staged(generation: staged), stamp: nil)])
    let after = try catalog.inode(file.number)
    #expect(after.generation == staged && after.content == .local && after.blocks == nil)
  }

  @Test func anUncleanEndHasThemAskedAgain() throws {
    let file = try fixture.file("file")
    try write(file.number, blocks: 8)
    try catalog.commit(durable: false)
    let after = try fixture.crashed()
    let stamp = try after.dirtyStamp(file.item)
    // The size is right, so nothing was put right that others have to hear of.
    #expect(
      try after.recover { _ throws(Errno) in
        FoundContent(size: 10, modified: Timestamp(nanoseconds: 5), blocks: 16)
      }
      .isEmpty)
    #expect(try after.inode(file.number).blocks == 16)
    #expect(try after.dirtyStamp(file.item) == stamp)
  }
}
