import Catalog
import ContentStore
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage
import Testing

/// `st_blocks` of what is not open is the row's, and is what the content file takes.
@Suite struct BlocksTests {
  let container: Container
  init() throws { container = try Container() }
  private var system: ContainerFileSystem { container.system }

  private func key(_ number: InodeNumber) throws -> ContentKey {
    let inode = try container.catalog.inode(number)
    return ContentKey(item: inode.item, generation: inode.generation)
  }

  /// What the catalog keeps, and that it is true.
  private func kept(_ number: InodeNumber) throws -> UInt64? {
    let kept = try container.catalog.inode(number).blocks
    let real = try container.content.blocks(try key(number))
    if let kept { #expect(kept == real) }
    #expect(try system.status(number).blocks == real)
    return kept
  }

  private func close(_ handle: UInt64) throws {
    try system.flush(handle)
    system.release(handle)
  }

  @Test func aClosedFileIsNotLookedAt() throws {
    let (number, handle) = try container.create("a", String(repeating: "x", count: 20_000))
    try close(handle)
    #expect(try #require(try kept(number)) >= 40)
    // Only the row can say so any more.
    try container.content.remove(try key(number))
    #expect(try system.status(number).blocks >= 40)
  }

  @Test func anEmptyFileTakesNone() throws {
    let (number, handle) = try container.create("a")
    #expect(try kept(number) == 0)
    try close(handle)
    #expect(try kept(number) == 0)
  }

  @Test func holesAndWhatIsAllocatedAhead() throws {
    let (number, handle) = try container.create("a")
    _ = try container.finish { () throws(Errno) in
      try system.setStatus(number, StatusChanges(size: 1 << 20), caller: Container.caller)
    }
    try close(handle)
    #expect(try kept(number) == 0)
    let steps: [(mode: Int32, offset: UInt64, length: UInt64, least: UInt64, most: UInt64)] = [
      (0, 0, 1 << 19, 1024, 1040),
      // FALLOC_FL_PUNCH_HOLE and FALLOC_FL_KEEP_SIZE.
      (3, 0, 1 << 18, 512, 528),
      // FALLOC_FL_KEEP_SIZE, past the end.
      (1, 1 << 20, 1 << 19, 1536, 1552),
    ]
    for step in steps {
      let handle = try container.open(number, writing: true)
      try container.finish { () throws(Errno) in
        try system.allocate(
          handle, mode: step.mode, offset: step.offset, length: step.length,
          caller: Container.caller)
      }
      try close(handle)
      let blocks = try #require(try kept(number))
      #expect(blocks >= step.least && blocks <= step.most)
      #expect(try container.size(number) == 1 << 20)
    }
    for size in [UInt64(5000), 0] {
      _ = try container.finish { () throws(Errno) in
        try system.setStatus(number, StatusChanges(size: size), caller: Container.caller)
      }
      #expect(try kept(number) != nil)
    }
  }

  @Test func aWriteThatWasNotNotedIsSeenAtTheClose() throws {
    let (number, handle) = try container.create("a", "hello")
    let file = try container.finish { () throws(Errno) in
      try system.prepareWrite(handle, caller: Container.caller)
    }
    // As where fallocate(2) finds no more room half-way.
    try file.allocate(mode: 1, offset: 1 << 20, length: 1 << 20)
    try close(handle)
    #expect(try #require(try kept(number)) >= 2048)
  }

  @Test func whatNobodyNotedIsAskedOnce() throws {
    let (number, handle) = try container.create("a", "hello")
    try close(handle)
    let blocks = try #require(try kept(number))
    try container.catalog.noteBlocks(try key(number), of: number, nil)
    #expect(try kept(number) == nil)
    #expect(try kept(number) == blocks)
  }

  @Test func aPlaceholderIsAskedUntilItIsWhole() throws {
    let bytes = [UInt8](repeating: 0x61, count: 1 << 20)
    let number = try container.appear("far", bytes)
    let handle = try container.open(number)
    _ = try container.read(handle, count: 4096)
    system.release(handle)
    #expect(try kept(number) == nil)
    #expect(try system.status(number).blocks > 0)
    let again = try container.open(number, writing: true)
    try container.write(again, "x")
    try close(again)
    #expect(try #require(try kept(number)) >= 2048)
  }
}
