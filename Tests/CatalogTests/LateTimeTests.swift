import Catalog
import Model
import SystemPackage
import Testing

/// Times after 2262, whose numbers are below those of all earlier times.
@Suite struct LateTimeTests {
  private static let late = Timestamp(seconds: 13_569_465_600, nanoseconds: 7)
  /// 2300-01-01.
  private static let clock = Timestamp(seconds: 10_413_792_000, nanoseconds: 0)

  @Test("times after 2262 and before 1970 outlive a crash and a restart")
  func timesAreKept() throws {
    let fixture = try Fixture()
    let times = [Timestamp.earliest, Timestamp(seconds: -1, nanoseconds: 5), Self.late, .latest]
    for (index, time) in times.enumerated() {
      let file = try fixture.file(ItemName("\(index)"))
      _ = try fixture.catalog.setAttributes(
        file.number, AttributeChanges(accessed: time, modified: time))
    }
    try fixture.catalog.commit(durable: true)
    func check(_ catalog: ContainerCatalog) throws {
      for (index, time) in times.enumerated() {
        let inode = try #require(try catalog.lookup(ItemName("\(index)"), in: fixture.documents))
        #expect(inode.modified == time && inode.accessed == time)
      }
    }
    // From the journal, then from the rows.
    try check(try fixture.crashed())
    try fixture.reopen()
    try check(fixture.catalog)
  }

  private func removed(_ item: ItemRecord, at time: Timestamp) -> RemovedItem {
    RemovedItem(record: item, removed: time, device: DeviceID(high: 3, low: 1))
  }

  @Test("a removal that another device dates after 2262 counts from when it is read")
  func lateRemovalsCountFromNow() throws {
    let fixture = try Fixture()
    let file = record(.random(), .file, "file")
    try fixture.folded([file])
    try fixture.catalog.fold(
      LogChanges(removals: [file.id]), to: fixture.position(),
      from: LogOrigin(device: DeviceID(high: 3, low: 1), time: Self.late))
    try expectRecent(file.id, fixture)

    let other = try Fixture()
    var part = SnapshotPart()
    part.items = try [ItemID.root, .documents]
      .map { try #require(try other.catalog.remote($0)) }.sorted { $0.id < $1.id }
    part.removed = [removed(file, at: Self.late)]
    let position = LogPosition(sequence: 90, hash: [UInt8](repeating: 4, count: 32))
    try other.catalog.beginSnapshot()
    try other.catalog.stage(part)
    try other.catalog.installSnapshot(
      SnapshotMark(sequence: position.sequence, bytes: 1), hash: position.hash,
      from: DeviceID(high: 3, low: 0))
    try expectRecent(file.id, other)
  }

  private func expectRecent(_ item: ItemID, _ fixture: Fixture) throws {
    let now = Timestamp(nanoseconds: fixture.clock.nanoseconds())
    let found = try #require(try fixture.catalog.removedItems(since: .earliest).first)
    #expect(found.record.id == item)
    #expect(found.removed < now && now.nanoseconds(since: found.removed) < 3600 * 1_000_000_000)
    #expect(try fixture.catalog.removedItems(before: found.removed, limit: 10).isEmpty)
    #expect(try fixture.catalog.removedItems(before: now, limit: 10) == [item])
  }

  @Test("the trash is in the order of time on a device whose clock says 2300")
  func theTrashIsInOrder() throws {
    let fixture = try Fixture(clock: TickingClock(Self.clock.nanoseconds))
    let times = [Timestamp(seconds: 1_800_000_000, nanoseconds: 0), .earliest, Self.clock]
    let files = try times.indices.map { record(.random(), .file, try ItemName("\($0)")) }
    try fixture.folded(files)
    for (file, time) in zip(files, times) {
      try fixture.catalog.fold(
        LogChanges(removals: [file.id]), to: fixture.position(),
        from: LogOrigin(device: DeviceID(high: 3, low: 1), time: time))
    }
    let ids = files.map(\.id)
    let catalog = fixture.catalog
    #expect(
      try catalog.removedItems(since: .earliest).map(\.record.id) == [ids[2], ids[0], ids[1]])
    #expect(try catalog.removedItems(since: Self.clock).map(\.record.id) == [ids[2]])
    #expect(
      Set(try catalog.removedItems(before: Self.clock, limit: 10)) == [ids[0], ids[1]])
    #expect(try catalog.removedItems(before: times[0], limit: 10) == [ids[1]])
  }

  @Test("files changed since a moment come first on a device whose clock says 2300")
  func recentFilesComeFirst() throws {
    let fixture = try Fixture(clock: TickingClock(Self.clock.nanoseconds))
    let old = try fixture.file("old")
    let new = try fixture.file("new")
    for file in [old, new] { try fixture.write(file.number, 10) }
    try fixture.commitAll()
    try fixture.write(old.number, 1)
    let between = Timestamp(nanoseconds: fixture.clock.nanoseconds())
    try fixture.write(new.number, 100)
    try fixture.catalog.commit(durable: true)
    #expect(
      try fixture.catalog.unsentFiles(changedSince: between, limit: 10, after: 0)
        == [new.item, old.item])
    #expect(
      try fixture.catalog.unsentFiles(changedSince: .earliest, limit: 10, after: 0)
        == [old.item, new.item])
  }

  @Test("a write that a crash cut off is found by its time after 2262")
  func lateWritesAreRecovered() throws {
    let fixture = try Fixture()
    let file = try fixture.file("file")
    try fixture.write(file.number, 10)
    try fixture.commitAll()
    try fixture.catalog.noteWriteBegan(file.number)
    let after = try fixture.crashed()
    let corrected = try after.recover { _ throws(Errno) in
      FoundContent(size: 10, modified: Self.late)
    }
    #expect(corrected == [file.number])
    #expect(try after.inode(file.number).modified == Self.late)
  }
}
