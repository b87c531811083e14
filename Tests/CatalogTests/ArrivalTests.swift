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
          ItemID(high: 20, low: UInt64(number * 100 + file)), .file, try ItemName("\(file)"),
          in: directory.id)
      }
    }
    self.files = files
    try fixture.folded(directories + files)
  }

  /// `between` runs after each batch.
  private func bringAll(
    isApart: (ItemRecord) -> Bool = { _ in false }, between: () throws -> Void = {}
  ) throws -> [ItemID] {
    var cursor = ArrivalCursor()
    var made: [ItemID] = []
    while !cursor.isDone {
      made += try catalog.bringArrivals(&cursor, limit: 400, isApart: isApart).made.map(\.record.id)
      try between()
    }
    return made
  }

  @Test("all items are made, and nothing differs any more")
  func all() throws {
    let made = try bringAll()
    #expect(Set(made) == Set((directories + files).map(\.id)) && made.count == Set(made).count)
    #expect(try catalog.differing() == [])
    for file in files { #expect(try catalog.base(file.id) == file) }
    try fixture.reopen()
    #expect(try catalog.differing() == [] && fixture.isSound())
  }

  @Test("an item that is to be planned for still differs, in the midst of a page that is made")
  func apart() throws {
    let left = Set([files[2_600], files[3_111], files[3_999]].map(\.id))
    let made = try bringAll(isApart: { left.contains($0.id) })
    #expect(made.count == directories.count + files.count - left.count)
    #expect(Set(try catalog.differing()) == left)
    for item in left {
      #expect(try catalog.base(item) == nil && catalog.inodeNumber(of: item) == nil)
    }
    #expect(try fixture.isSound())
  }

  @Test("an item whose name was taken meanwhile still differs, and the taken name stays")
  func taken() throws {
    var mine: [Inode] = []
    let made = try bringAll(between: {
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
}
