import Model
import SystemPackage
import Testing

@testable import Catalog

/// Items that a device makes in pages, because there are very many of them.
@Suite struct ArrivalTests {
  private let fixture: Fixture
  private var catalog: ContainerCatalog { fixture.catalog }
  /// The last directories come after those that are looked at from the root down.
  private let directories: [ItemRecord]
  private let files: [ItemRecord]

  init() throws {
    fixture = try Fixture()
    directories = try (0..<40).map { number in
      record(ItemID(high: 10, low: UInt64(number)), .directory, try ItemName("d\(number)"))
    }
    var files: [ItemRecord] = []
    for (number, directory) in directories.enumerated() {
      files += try (0..<100).map { file in
        record(
          ItemID(high: 20, low: UInt64(number * 100 + file) << 8), .file, try ItemName("\(file)"),
          in: directory.id)
      }
    }
    self.files = files
    try fixture.folded(directories + files)
  }

  /// `between` runs after each batch, when the next page was read and decoded already.
  private func bringAll(
    isApart: (ItemRecord) -> Bool = { _ in false }, between: () throws -> Void = {}
  ) async throws -> [ItemID] {
    var cursor = ArrivalCursor()
    var made: [ItemID] = []
    while !cursor.isDone {
      await cursor.prepare()
      if !made.isEmpty { try between() }
      made += try catalog.bringArrivals(&cursor, limit: 400, isApart: isApart).made.map(\.record.id)
    }
    return made
  }

  @Test("all items are made, and nothing differs any more")
  func all() async throws {
    let made = try await bringAll()
    #expect(Set(made) == Set((directories + files).map(\.id)) && made.count == Set(made).count)
    #expect(try catalog.differing() == [])
    for file in files { #expect(try catalog.base(file.id) == file) }
    try fixture.reopen()
    #expect(try catalog.differing() == [] && fixture.isSound())
  }

  @Test("an item that is to be planned for still differs, in the midst of a page that is made")
  func apart() async throws {
    let left = Set([files[2_600], files[3_111], files[3_999]].map(\.id))
    let made = try await bringAll(isApart: { left.contains($0.id) })
    #expect(made.count == directories.count + files.count - left.count)
    #expect(Set(try catalog.differing()) == left)
    for item in left {
      #expect(try catalog.base(item) == nil && catalog.inodeNumber(of: item) == nil)
    }
    #expect(try fixture.isSound())
  }

  @Test("an item whose name was taken meanwhile still differs, and the taken name stays")
  func taken() async throws {
    var mine: [Inode] = []
    let made = try await bringAll(between: {
      guard mine.isEmpty else { return }
      for number in [30, 39] {
        mine.append(try fixture.file("50", in: fixture.number(directories[number].id)))
      }
    })
    let left = Set([files[3_050], files[3_950]].map(\.id))
    #expect(made.count == directories.count + files.count - left.count)
    // A new name changes the time of its directory as well.
    let changed = mine.map(\.item) + [directories[30].id, directories[39].id]
    #expect(Set(try catalog.differing()) == left.union(changed))
    for (number, inode) in zip([30, 39], mine) {
      let directory = try fixture.number(directories[number].id)
      #expect(try catalog.lookup("50", in: directory)?.number == inode.number)
      #expect(try fixture.names(directory).count == 100)
    }
    #expect(try fixture.isSound())
  }

  @Test("a directory is made once if it is made early, for a file on the page ahead of its own")
  func earlyDirectories() async throws {
    var nested: [ItemRecord] = []
    for distance in stride(from: 100, through: 800, by: 50) {
      let directory = record(
        ItemID(high: 20, low: UInt64(2_500 + distance) << 8 | 1), .directory,
        try ItemName("n\(distance)"), in: directories[39].id)
      nested.append(directory)
      nested.append(
        record(
          ItemID(high: 20, low: 2_500 << 8 | UInt64(distance) >> 1), .file, try ItemName("inside"),
          in: directory.id))
    }
    try fixture.folded(nested)
    let made = try await bringAll()
    let all = Set((directories + files + nested).map(\.id))
    #expect(Set(made) == all && made.count == all.count)
    #expect(try catalog.differing() == [] && fixture.isSound())
  }

  @Test("a page that was read before another segment came is read again")
  func theLogGoesOn() async throws {
    var round = 0
    let made = try await bringAll(between: {
      // Some of these are here, some are on the next page, and some come later.
      let edited = files.enumerated().filter { $0.offset % 16 == round }.map { file in
        var file = file.element
        file.mode = 0o600
        return file
      }
      try fixture.folded(edited)
      round += 1
    })
    #expect(made.count == directories.count + files.count)
    for file in files {
      let base = try #require(try catalog.base(file.id))
      #expect(try catalog.local(file.id)?.record.mode == base.mode)
    }
  }
}
