import Model
import SystemPackage
import Testing

@testable import Catalog

/// Directories that are brought into memory ahead of who looks through them.
@Suite struct LoadingTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  private func name(_ index: Int) throws -> ItemName { try ItemName("file-\(index)") }

  /// Makes files that only the database knows of.
  private func make(_ count: Int) throws -> [InodeNumber] {
    let made = try (0..<count).map { try fixture.file(try name($0)).number }
    try fixture.reopen()
    return made
  }

  /// How many of the names memory knows, with their inodes.
  private func known(_ count: Int) throws -> Int {
    try catalog.engine.withLock { engine in
      try (0..<count).count { index in
        let key = EntryKey(parent: fixture.documents, name: try name(index))
        guard let entry = engine.names.value(key) else { return false }
        return engine.inodes.value(entry.child) != nil
      }
    }
  }

  @Test func theSecondNameBringsASmallDirectory() throws {
    let made = try make(300)
    #expect(try catalog.lookup(try name(200), in: fixture.documents)?.number == made[200])
    #expect(try known(300) == 1)
    #expect(try catalog.lookup(try name(7), in: fixture.documents)?.number == made[7])
    #expect(try known(300) == 300)
    for index in made.indices.shuffled() {
      #expect(try catalog.lookup(try name(index), in: fixture.documents)?.number == made[index])
    }
    #expect(try catalog.lookup("nothing", in: fixture.documents) == nil)
  }

  @Test func aListingBringsItsInodes() throws {
    let made = try make(300)
    _ = try catalog.readDirectory(fixture.documents, after: 0, limit: 200)
    let known = catalog.engine.withLock { engine in
      made.count { engine.inodes.value($0) != nil }
    }
    #expect(known == 200)
  }

  /// Neither what is in memory alone nor what is on its way into the database is overwritten by
  /// rows.
  @Test func whatMemoryKnowsWins() throws {
    let made = try make(40)
    _ = try catalog.remove(try name(0), in: fixture.documents, directory: false)
    _ = try catalog.rename(
      try name(1), in: fixture.documents, to: "moved", in: fixture.documents, mode: .replace)
    _ = try catalog.rename(
      try name(2), in: fixture.documents, to: try name(3), in: fixture.documents, mode: .replace)
    _ = try catalog.setAttributes(made[4], AttributeChanges(mode: 0o600))
    let new = try fixture.file("new").number
    catalog.engine.withLock { engine in
      engine.names.removeAll()
      engine.inodes.removeAll()
      engine.flushing = Flush(engine.pending, sequence: engine.journal.sequence)
      engine.pending = Overlay()
    }
    _ = try catalog.rename(
      "moved", in: fixture.documents, to: "moved again", in: fixture.documents, mode: .replace)
    _ = try catalog.setAttributes(made[5], AttributeChanges(mode: 0o640))
    catalog.engine.withLock { engine in
      engine.names.removeAll()
      engine.inodes.removeAll()
    }
    func number(_ name: ItemName) throws -> InodeNumber? {
      try catalog.lookup(name, in: fixture.documents)?.number
    }
    for index in 6..<40 { #expect(try number(try name(index)) == made[index]) }
    for gone in [0, 1, 2] { #expect(try number(try name(gone)) == nil) }
    #expect(try number("moved") == nil)
    #expect(try number("moved again") == made[1])
    #expect(try number(try name(3)) == made[2])
    #expect(try number("new") == new)
    #expect(try catalog.inode(made[4]).mode == 0o600)
    #expect(try catalog.inode(made[5]).mode == 0o640)
    #expect(throws: Errno.noSuchFileOrDirectory) {
      try catalog.remove("moved", in: fixture.documents, directory: false)
    }
    #expect(try fixture.isSound())
  }

  // MARK: How much of a large directory

  private let directory = InodeNumber(7)

  /// A directory of entries 1 to `count`, read in the given order: how many queries and rows it
  /// took.
  private func cost(_ count: Int64, _ order: some Sequence<Int64>) -> (queries: Int, rows: Int) {
    var loads = DirectoryLoads()
    var known: Set<Int64> = []
    var cost = (queries: 0, rows: 0)
    for id in order where known.insert(id).inserted {
      cost.queries += 1
      guard let request = loads.missed(id, in: directory) else { continue }
      let end = min(count, request.after + Int64(request.limit))
      for id in (request.after + 1)...end { known.insert(id) }
      cost.queries += 1
      cost.rows += Int(end - request.after)
      loads.loaded(directory, request, next: end < count ? end + 1 : nil)
    }
    return cost
  }

  @Test func inOrderALargeDirectoryTakesFewQueries() {
    let cost = cost(100_000, 1...100_000)
    #expect(cost.queries < 250)
    #expect(cost.rows <= 100_100)
  }

  @Test func hereAndThereALargeDirectoryIsNotBroughtInVain() {
    var random = SplitMix(state: 1)
    let order = (0..<5000).map { _ in Int64.random(in: 1...1_000_000, using: &random) }
    #expect(cost(1_000_000, order).rows < 1500)
    // Forward, but with most passed over.
    #expect(cost(1_000_000, stride(from: 1, through: 1_000_000, by: 1000)).rows < 10_000)
  }

  @Test func inAnyOrderASmallDirectoryTakesThreeQueries() {
    #expect(cost(500, (1...500).shuffled()).queries <= 4)
  }
}
