import Catalog
import Model
import SystemPackage
import Testing

/// What a batch says that it did.
@Suite struct ItemChangeTests {
  let fixture: Fixture
  var catalog: ContainerCatalog { fixture.catalog }

  init() throws { fixture = try Fixture() }

  private func have(_ records: [ItemRecord]) throws {
    try fixture.folded(records)
    try fixture.apply(records.map { .upsert($0, content: .placeholder, stamp: nil) })
  }

  private func apply(_ records: [ItemRecord], removing removals: [ItemID] = []) throws
    -> [ItemChange]
  {
    try fixture.folded(records, removals: removals)
    return try fixture.apply(
      removals.map { .remove($0, stamp: nil) }
        + records.map { .upsert($0, content: .placeholder, stamp: nil) }
    ).changes
  }

  private func moved(_ record: ItemRecord, _ name: ItemName, in parent: ItemID = .documents)
    -> ItemRecord
  {
    var result = record
    result.links = [Link(parent: parent, name: name)]
    return result
  }

  /// Such as `created a`, `moved b from a`, without directories.
  private func texts(_ changes: [ItemChange]) -> [String] {
    changes.map { change in
      switch change.what {
      case .created: "created \(change.name)"
      case .changed: "changed \(change.name)"
      case .moved(_, let name): "moved \(change.name) from \(name)"
      case .removed: "removed \(change.name)"
      case .attributes: "attributes \(change.name)"
      }
    }
  }

  @Test func whatComesIsCreatedParentsFirst() throws {
    let outer = record(.random(), .directory, "outer")
    let inner = record(.random(), .directory, "inner", in: outer.id)
    let file = record(.random(), .file, "file", in: inner.id)
    let changes = try apply([file, inner, outer])
    #expect(texts(changes) == ["created outer", "created inner", "created file"])
    #expect(changes.map(\.number) == (try [outer.id, inner.id, file.id].map(fixture.number)))
    #expect(changes.map(\.kind) == [.directory, .directory, .file])
    #expect(try changes[2].parent == fixture.number(inner.id))
  }

  @Test func eachFactIsToldOnceAndNothingElse() throws {
    var file = record(.random(), .file, "file")
    let other = record(.random(), .file, "other")
    try have([file, other])
    #expect(try apply([other]).isEmpty)
    file.mode = 0o600
    #expect(texts(try apply([file])) == ["attributes file"])
    file.attributes = ["user.a": [1]]
    #expect(texts(try apply([file])) == ["attributes file"])
    file.modified = Timestamp(nanoseconds: 77)
    #expect(texts(try apply([file])) == ["attributes file"])
    // A new content has a new time.
    file.content = contentVersion(20, 2)
    file.modified = Timestamp(nanoseconds: 78)
    #expect(texts(try apply([file])) == ["changed file"])
    file.content = contentVersion(30, 3)
    file.mode = 0o644
    let all = moved(file, "renamed")
    #expect(
      texts(try apply([all]))
        == ["moved renamed from file", "changed renamed", "attributes renamed"])
  }

  @Test func aContentThatGoesToAnotherInodeIsAChange() throws {
    var file = record(.random(), .file, "file")
    try have([file])
    let old = try fixture.number(file.id)
    fixture.openInodes = [old]
    file.content = contentVersion(20, 2)
    let changes = try apply([file])
    #expect(texts(changes) == ["changed file"])
    #expect(try changes.map(\.number) == [fixture.number(file.id)] && changes[0].number != old)
  }

  @Test func movesComeBeforeTheRemovalOfTheDirectoryTheyLeave() throws {
    let old = record(.random(), .directory, "old")
    let sub = record(.random(), .directory, "sub", in: old.id)
    let kept = record(.random(), .file, "kept", in: sub.id)
    let lost = record(.random(), .file, "lost", in: sub.id)
    try have([old, sub, kept, lost])
    let new = record(.random(), .directory, "new")
    let changes = texts(
      try apply([moved(kept, "kept", in: new.id), new], removing: [old.id, sub.id, lost.id]))
    #expect(changes.count == 5)
    let order = ["created new", "moved kept from kept", "removed sub", "removed old"]
    #expect(order.compactMap(changes.firstIndex).isSorted && order.allSatisfy(changes.contains))
    let emptied = ["removed lost", "removed sub"].compactMap(changes.firstIndex)
    #expect(emptied.count == 2 && emptied.isSorted)
  }

  @Test func aNameIsGivenUpBeforeAnotherGetsIt() throws {
    let first = record(.random(), .file, "a")
    let second = record(.random(), .file, "b")
    try have([first, second])
    // Onto the name of one that goes.
    #expect(
      texts(try apply([moved(first, "b")], removing: [second.id]))
        == ["removed b", "moved b from a"])
    // One that is new gets the name of one that moves.
    let third = record(.random(), .directory, "b")
    #expect(texts(try apply([third, moved(first, "c")])) == ["moved c from b", "created b"])
    // Two that swap theirs are told all the same.
    #expect(
      texts(try apply([moved(first, "b"), moved(third, "c")])).sorted()
        == ["moved b from c", "moved c from b"])
    #expect(try fixture.isSound())
  }

  @Test func aLinkMoreIsANameCreated() throws {
    var file = record(.random(), .file, "a")
    try have([file])
    file.links = [
      Link(parent: .documents, name: "a"), Link(parent: .documents, name: "b"),
    ]
    #expect(texts(try apply([file])) == ["created b"])
    file.links = [Link(parent: .documents, name: "b")]
    #expect(texts(try apply([file])) == ["removed a"])
  }

  @Test func arrivalsAreCreated() throws {
    let folder = record(.random(), .directory, "folder")
    let file = record(.random(), .file, "file", in: folder.id)
    try fixture.folded([folder, file])
    var cursor = ArrivalCursor()
    var changes: [ItemChange] = []
    while !cursor.isDone {
      changes += try catalog.bringArrivals(&cursor, limit: 10) { _ in false }.made
        .flatMap(\.changes)
    }
    #expect(texts(changes) == ["created folder", "created file"])
    #expect(try changes[1].parent == fixture.number(folder.id))
  }
}

extension [Int] {
  fileprivate var isSorted: Bool { self == sorted() }
}
