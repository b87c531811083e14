import Catalog
import Model
import SystemPackage
import Testing

/// What contents take on the disk, summed up.
@Suite struct HeldTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  private func write(_ number: InodeNumber, size: UInt64, blocks: UInt64?) throws {
    try catalog.noteContentChange(
      number, size: size, blocks: blocks, modified: Timestamp(nanoseconds: 5))
  }

  private func sum(_ catalog: ContainerCatalog) throws -> UInt64 {
    var result: UInt64 = 0
    try catalog.forEachHeldFile { result += $0.bytes }
    return result
  }

  @Test func theSumFollowsEveryChange() throws {
    #expect(try catalog.heldBytes() == 0)
    let one = try fixture.file("one")
    let two = try fixture.file("two")
    try write(one.number, size: 100_000, blocks: 200)
    try write(two.number, size: 5000, blocks: nil)
    // What nobody has asked the file for counts by its length, in pages.
    #expect(try catalog.heldBytes() == 200 * 512 + 8192)
    #expect(try sum(catalog) == 200 * 512 + 8192)
    try write(one.number, size: 10, blocks: 8)
    #expect(try catalog.heldBytes() == 4096 + 8192)
    _ = try catalog.replaceContent(two.number)
    #expect(try catalog.heldBytes() == 4096)
    let gone = try catalog.remove("one", in: fixture.documents, directory: false)
    // An orphan holds its content until it is reclaimed.
    #expect(try catalog.heldBytes() == 4096)
    _ = try catalog.reclaim(gone.number)
    #expect(try catalog.heldBytes() == 0)
    #expect(try sum(catalog) == 0)
  }

  @Test func theSumIsTheSameAfterACrashAtAnyMoment() throws {
    var random = SplitMix(state: 7)
    var files: [InodeNumber] = []
    for index in 0..<40 {
      files.append(try fixture.file(ItemName("f\(index)")).number)
      for _ in 0..<3 {
        let number = try #require(files.randomElement(using: &random))
        let blocks = UInt64.random(in: 0..<1000, using: &random) * 8
        try write(number, size: blocks * 512, blocks: blocks)
      }
      try catalog.commit(durable: index % 3 == 0)
      let after = try fixture.crashed()
      #expect(try after.heldBytes() == catalog.heldBytes())
      #expect(try sum(after) == catalog.heldBytes())
    }
  }

  @Test func aRecountAsksTheFiles() throws {
    let wrong = try fixture.file("wrong")
    let unknown = try fixture.file("unknown")
    try write(wrong.number, size: 4096, blocks: 8)
    try write(unknown.number, size: 4096, blocks: nil)
    try catalog.commit(durable: false)
    let after = try fixture.crashed()
    var asked = 0
    let probe = { (key: ContentKey) throws(Errno) -> UInt64? in
      asked += 1
      return 24
    }
    // After a clean end only what is not known.
    #expect(try after.recount(all: false, probe) == 1)
    #expect(asked == 1)
    #expect(try after.heldBytes() == 32 * 512)
    #expect(try after.recount(all: true, probe) == 1)
    #expect(try after.heldBytes() == 48 * 512)
    #expect(try after.recount(all: true, probe) == 0)
  }

  @Test func whatFailsIsNotCounted() throws {
    let file = try fixture.file("file")
    try write(file.number, size: 4096, blocks: 8)
    #expect(try catalog.heldBytes() == 4096)
    // Dirty, so it cannot be.
    #expect(throws: Errno.resourceBusy) { try catalog.evict(file.number, isOpen: { _ in false }) }
    #expect(try catalog.heldBytes() == 4096)
  }

  @Test func policiesOutliveACrash() throws {
    let folder = try fixture.folder("folder")
    #expect(folder.policy == .inherit)
    for policy in DownloadPolicy.allCases.reversed() {
      try catalog.setPolicy(folder.number, policy)
      let after = try fixture.crashed()
      #expect(try after.inode(folder.number).policy == policy)
      #expect(try after.inode(folder.number).isPinned == false)
    }
    let file = try fixture.file("file")
    #expect(throws: Errno.notDirectory) { try catalog.setPolicy(file.number, .downloadLazily) }
  }
}
