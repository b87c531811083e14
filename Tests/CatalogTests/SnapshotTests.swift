import Model
import SystemPackage
import Testing

@testable import Catalog

/// A random log of one container, valid where it stands, and catalogs that fold it.
private struct RandomLog {
  var segments: [(changes: LogChanges, position: LogPosition, origin: LogOrigin)] = []

  /// Grown against a catalog that folds it, so that every segment is one that a device would put.
  init(seed: UInt64, count: Int, in fixture: Fixture) throws {
    var random = SplitMix(state: seed)
    var items: [ItemID: ItemRecord] = [:]
    var packs: [PackID] = []
    var condemned: [PackID] = []
    let catalog = fixture.catalog
    while segments.count < count {
      var changes = LogChanges()
      for _ in 0...Int(random.next() % 4) {
        switch random.next() % 8 {
        case 0..<4:
          let directories =
            items.values.filter { $0.kind == .directory }.map(\.id).sorted() + [.documents]
          let parent = directories[Int(random.next() % UInt64(directories.count))]
          let isDirectory = random.next() % 3 == 0
          let name = try ItemName("n\(random.next() % 40)")
          var record = CatalogTests.record(
            ItemID.random(using: &random), isDirectory ? .directory : .file, name, in: parent)
          if !isDirectory {
            let place = Self.place(&random)
            changes.chunks.append(place)
            record.content = ContentVersion(
              id: VersionID.random(using: &random), parent: nil,
              device: DeviceID(high: 1, low: 1), modified: Timestamp(nanoseconds: 5),
              size: UInt64(place.chunk.length), manifest: Manifest(chunks: [place.chunk]))
          }
          changes.upserts.append(record)
        case 4, 5:
          guard let id = items.keys.sorted().randomElement(using: &random), var record = items[id]
          else { break }
          record.mode ^= 0o100
          if record.kind == .file, random.next() % 2 == 0, let content = record.content {
            record.conflicts = record.conflicts.isEmpty ? [content] : []
            if !record.conflicts.isEmpty { record.content = contentVersion(9, 7) }
          }
          if !changes.upserts.contains(where: { $0.id == id }) { changes.upserts.append(record) }
        case 6:
          guard let id = items.keys.sorted().randomElement(using: &random) else { break }
          if !changes.upserts.contains(where: { $0.id == id }), !changes.removals.contains(id) {
            changes.removals.append(id)
          }
        default:
          if let pack = packs.randomElement(using: &random), !condemned.contains(pack) {
            changes.condemned = [pack]
          } else if let pack = condemned.popLast() {
            changes.deleted = [pack]
          } else if let item = try catalog.removedItems(
            since: .earliest
          ).first {
            changes.forgotten = [item.record.id]
          }
        }
      }
      let position = LogPosition(
        sequence: try catalog.position().sequence + 1,
        hash: (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) })
      let origin = LogOrigin(
        device: DeviceID(high: 3, low: random.next() % 3),
        time: Timestamp(nanoseconds: Int64(random.next() % 1_000_000)))
      do throws(Errno) {
        try catalog.fold(changes, to: position, from: origin)
      } catch {
        continue
      }
      for record in changes.upserts { items[record.id] = record }
      for id in changes.removals { items[id] = nil }
      packs += changes.chunks.map(\.pack)
      condemned += changes.condemned
      condemned.removeAll { changes.deleted.contains($0) }
      segments.append((changes, position, origin))
    }
  }

  private static func place(_ random: inout SplitMix) -> ChunkLocation {
    let bytes = (0..<32).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    return ChunkLocation(
      chunk: ChunkReference(id: ChunkID(bytes)!, length: UInt32(random.next() % 1000 + 1)),
      pack: PackID(high: 8, low: random.next() % 12), offset: random.next() % 10_000_000,
      storedLength: 40)
  }

  func fold(_ range: Range<Int>, into fixture: Fixture) throws {
    for segment in segments[range] {
      try fixture.catalog.fold(segment.changes, to: segment.position, from: segment.origin)
    }
  }
}

/// Everything that a catalog has folded.
private func pages(_ catalog: ContainerCatalog) throws -> [SnapshotPart] {
  let export = try SnapshotExport(catalog)
  var result: [SnapshotPart] = []
  while let page = try export.next() { result.append(page) }
  return result
}

private func whole(_ parts: [SnapshotPart]) -> SnapshotPart {
  var result = SnapshotPart()
  for part in parts {
    result.items += part.items
    result.chunks += part.chunks
    result.removed += part.removed
    result.packs += part.packs
  }
  return result
}

private func install(_ parts: [SnapshotPart], at position: LogPosition, in fixture: Fixture) throws
{
  try fixture.catalog.beginSnapshot()
  for part in parts { try fixture.catalog.stage(part) }
  try fixture.catalog.installSnapshot(
    SnapshotMark(sequence: position.sequence, bytes: 1), hash: position.hash,
    from: DeviceID(high: 3, low: 0))
}

@Suite struct SnapshotTests {
  /// A snapshot at any place and the log after it make what the whole log makes.
  @Test(arguments: 1...12) func aSnapshotAndTheRestAreTheWholeLog(seed: UInt64) throws {
    let first = try Fixture()
    let log = try RandomLog(seed: seed, count: 120, in: first)
    let expected = whole(try pages(first.catalog))
    #expect(expected.items.count > 20)
    var random = SplitMix(state: seed)
    for _ in 0..<3 {
      let place = 1 + Int(random.next() % 119)
      let writer = try Fixture()
      try log.fold(0..<place, into: writer)
      // The reader stands anywhere before, or is new.
      let reader = try Fixture()
      try log.fold(0..<Int(random.next() % UInt64(place)), into: reader)
      let position = log.segments[place - 1].position
      try install(try pages(writer.catalog), at: position, in: reader)
      #expect(try reader.catalog.position() == position)
      try log.fold(place..<120, into: reader)
      #expect(whole(try pages(reader.catalog)) == expected)
      // What it takes of the allotment is kept up to date by folding, and by installing.
      let allotted = expected.items.reduce(0) { $0 + $1.allottedBytes }
      #expect(try reader.catalog.usage() == allotted && first.catalog.usage() == allotted)
      #expect(try reader.isSound())
      #expect(try reader.catalog.conflictCount() == first.catalog.conflictCount())
      #expect(try reader.catalog.position() == first.catalog.position())
    }
  }

  /// What is folded while pages are read does not show in them.
  @Test(arguments: 1...6) func pagesAreOneMoment(seed: UInt64) throws {
    let grown = try Fixture()
    let log = try RandomLog(seed: seed, count: 700, in: grown)
    let fixture = try Fixture()
    try log.fold(0..<400, into: fixture)
    let expected = whole(try pages(fixture.catalog))
    let export = try SnapshotExport(fixture.catalog)
    var parts: [SnapshotPart] = []
    var next = 400
    repeat {
      let until = min(700, next + 60)
      // A segment that is asked about and not folded leaves nothing behind.
      if next < 700 {
        _ = try fixture.catalog.accepts(
          log.segments[next].changes, after: fixture.catalog.position())
      }
      try log.fold(next..<until, into: fixture)
      next = until
      guard let page = try export.next() else { break }
      parts.append(page)
    } while true
    #expect(whole(parts) == expected)
    try log.fold(next..<700, into: fixture)
    #expect(whole(try pages(fixture.catalog)) == whole(try pages(grown.catalog)))
  }

  /// A page of files with millions of chunks would be too large for a part of a snapshot. It would
  /// also be read under the lock, and take hundreds of megabytes.
  @Test func aPageOfLargeRecordsIsShort() throws {
    let fixture = try Fixture()
    let chunk = ChunkReference(id: ChunkID([UInt8](repeating: 7, count: 32))!, length: 1)
    let records = (0..<12).map { number in
      var record = record(.random(), .file, try! ItemName("n\(number)"))
      let manifest = Manifest(chunks: [ChunkReference](repeating: chunk, count: 12_000))
      record.content = ContentVersion(
        id: .random(), parent: nil, device: DeviceID(high: 1, low: 1),
        modified: Timestamp(nanoseconds: 5), size: 12_000, manifest: manifest)
      return record
    }
    let place = ChunkLocation(
      chunk: chunk, pack: PackID(high: 8, low: 1), offset: 0, storedLength: 40)
    try fixture.folded(records, chunks: [place])
    let parts = try pages(fixture.catalog)
    // With Documents and the root, which are small: 36 bytes for a chunk, 1 MiB for a page.
    #expect(parts.filter { !$0.items.isEmpty }.map(\.items.count).max()! <= 5)
    #expect(whole(parts).items.count == 14)
    #expect(whole(parts).items.map(\.id) == whole(parts).items.map(\.id).sorted())
    #expect(Set(whole(parts).items).isSuperset(of: records))
    #expect(try fixture.catalog.usage() == records.reduce(0) { $0 + $1.allottedBytes })
  }

  /// Of the changed rows only those that are still to be read take memory, and that has a limit.
  @Test func theExportEndsWhenTooMuchChanges() throws {
    let fixture = try Fixture()
    let records = (0..<1500).map { record(.random(), .file, try! ItemName("n\($0)")) }
      .sorted { $0.id < $1.id }
    try fixture.folded(records)
    func change(_ records: ArraySlice<ItemRecord>) throws {
      try fixture.folded(
        records.map { record in
          var changed = record
          changed.mode ^= 0o100
          return changed
        })
    }
    let export = try SnapshotExport(fixture.catalog, limit: 20_000)
    let first = try #require(try export.next())
    // The root and `Documents` are among them.
    try change(records[..<(first.items.count - 2)])
    _ = try #require(try export.next())
    try change(records[1400...])
    #expect(throws: Errno.canceled) { try export.next() }
    // Another reader has all of it.
    #expect(whole(try pages(fixture.catalog)).items.count == records.count + 2)
  }

  /// What was last agreed on stays the base; what is not in the snapshot is gone remotely.
  @Test func theBaseStays() throws {
    let fixture = try Fixture()
    let kept = record(.random(), .file, "kept")
    let changed = record(.random(), .file, "changed")
    let gone = record(.random(), .file, "gone")
    try fixture.folded([kept, changed, gone])
    try fixture.apply(
      [kept, changed, gone].map { .upsert($0, content: .placeholder, stamp: nil) })
    #expect(try fixture.catalog.differing() == [])
    _ = try fixture.catalog.setAttributes(
      fixture.number(gone.id), AttributeChanges(mode: 0o640))

    var other = changed
    other.mode = 0o600
    let new = record(.random(), .file, "new")
    var part = SnapshotPart()
    part.items = [kept, other, new].sorted { $0.id < $1.id }
    for id in [ItemID.root, .documents] {
      part.items.insert(try #require(try fixture.catalog.remote(id)), at: 0)
    }
    part.items.sort { $0.id < $1.id }
    let position = LogPosition(sequence: 90, hash: [UInt8](repeating: 4, count: 32))
    try install([part], at: position, in: fixture)
    let catalog = fixture.catalog
    #expect(Set(try catalog.differing()) == [changed.id, gone.id, new.id])
    #expect(try catalog.base(gone.id) == gone && catalog.remote(gone.id) == nil)
    #expect(try catalog.base(changed.id) == changed && catalog.remote(changed.id) == other)
    #expect(try catalog.base(new.id) == nil && catalog.remote(new.id) == new)
    #expect(try catalog.base(kept.id) == kept)
    #expect(try catalog.dirtyStamp(gone.id) != nil)
    #expect(try catalog.remoteChild(.documents, "gone") == nil)
    #expect(try catalog.remoteChild(.documents, "new") == new.id)
    try fixture.reopen()
    #expect(try fixture.catalog.position() == position)
    #expect(try fixture.isSound())
  }

  @Test("an item removed while its answer was lost stays removed after a snapshot")
  func removedWhileSending() throws {
    let fixture = try Fixture()
    let catalog = fixture.catalog
    let same = try #require(try catalog.local(fixture.folder("same").item)).record
    let changed = try #require(try catalog.local(fixture.folder("changed").item)).record
    let absent = try #require(try catalog.local(fixture.folder("absent").item)).record
    try catalog.noteSending([same, changed, absent])
    for name in ["same", "changed", "absent"] as [ItemName] {
      _ = try catalog.remove(name, in: fixture.documents, directory: true)
    }
    // The log took the first two, and another device changed one of them since.
    var other = changed
    other.mode = 0o700
    var part = SnapshotPart()
    part.items = [same, other]
    for id in [ItemID.root, .documents] { part.items.append(try #require(try catalog.remote(id))) }
    part.items.sort { $0.id < $1.id }
    try install(
      [part], at: LogPosition(sequence: 90, hash: [UInt8](repeating: 4, count: 32)), in: fixture)
    for record in [same, changed] {
      #expect(try catalog.base(record.id) == record)
      #expect(try catalog.dirtyStamp(record.id) != nil && catalog.local(record.id) == nil)
    }
    #expect(try catalog.base(absent.id) == nil && catalog.remote(absent.id) == nil)
    #expect(try fixture.isSound())
  }

  /// A device that ends half-way through a snapshot has what it had, and begins anew.
  @Test func aSnapshotThatWasReadInPartIsNone() throws {
    let source = try Fixture()
    let log = try RandomLog(seed: 5, count: 60, in: source)
    let parts = try pages(source.catalog)
    let fixture = try Fixture()
    try log.fold(0..<20, into: fixture)
    let before = whole(try pages(fixture.catalog))
    try fixture.catalog.beginSnapshot()
    try fixture.catalog.stage(parts[0])
    try fixture.catalog.commit(durable: true)
    let crashed = try fixture.crashed()
    #expect(whole(try pages(crashed)) == before)
    try crashed.beginSnapshot()
    for part in parts { try crashed.stage(part) }
    let position = log.segments[59].position
    try crashed.installSnapshot(
      SnapshotMark(sequence: position.sequence, bytes: 1), hash: position.hash,
      from: DeviceID(high: 3, low: 0))
    #expect(whole(try pages(crashed)) == whole(parts))
    try crashed.close()
  }

  @Test("a new device that stops while it reads a snapshot starts from nothing", arguments: 1...4)
  func newDeviceStops(seed: UInt64) throws {
    let source = try Fixture()
    let log = try RandomLog(seed: seed, count: 60, in: source)
    let parts = try pages(source.catalog)
    let fixture = try Fixture(isNew: true)
    try fixture.catalog.beginSnapshot()
    for part in parts { try fixture.catalog.stage(part) }
    try fixture.catalog.commit(durable: true)
    let crashed = try fixture.crashed()
    #expect(whole(try pages(crashed)).isEmpty)
    #expect(try crashed.differing().isEmpty && crashed.conflictedItems().isEmpty)
    for part in parts { #expect(try crashed.chunkLocations(part.chunks.map(\.chunk.id)).isEmpty) }
    // Then it reads the log, or the snapshot anew.
    let position = log.segments[59].position
    if seed % 2 == 0 {
      let first = try [ItemID.root, .documents].map { try #require(try source.catalog.remote($0)) }
      try crashed.fold(
        LogChanges(upserts: first), to: LogPosition(sequence: 1, hash: position.hash))
      for segment in log.segments {
        try crashed.fold(segment.changes, to: segment.position, from: segment.origin)
      }
    } else {
      try crashed.beginSnapshot()
      for part in parts { try crashed.stage(part) }
      try crashed.installSnapshot(
        SnapshotMark(sequence: position.sequence, bytes: 1), hash: position.hash,
        from: DeviceID(high: 3, low: 0))
    }
    #expect(whole(try pages(crashed)).items == whole(parts).items)
    #expect(whole(try pages(crashed)).chunks == whole(parts).chunks)
    #expect(try crashed.usage() == whole(parts).items.reduce(0) { $0 + $1.allottedBytes })
    try crashed.close()
  }

  @Test("a new device that gives a snapshot up reads the log as if it had seen none")
  func newDeviceGivesUp() throws {
    let source = try Fixture()
    let log = try RandomLog(seed: 3, count: 40, in: source)
    let expected = whole(try pages(source.catalog))
    for isDropped in [true, false] {
      let fixture = try Fixture(isNew: true)
      try fixture.catalog.beginSnapshot()
      try fixture.catalog.stage(try #require(try pages(source.catalog).first))
      if isDropped {
        try fixture.catalog.dropSnapshot()
        #expect(whole(try pages(fixture.catalog)).isEmpty)
      }
      try fixture.foldFirst()
      try log.fold(0..<40, into: fixture)
      #expect(whole(try pages(fixture.catalog)) == expected)
      #expect(try fixture.isSound())
    }
  }

  @Test(
    "while a new device reads a snapshot nothing of it shows, counts as damage or is repaired",
    arguments: 1...5)
  func halfASnapshotIsNotSeen(seed: UInt64) throws {
    let source = try Fixture()
    let log = try RandomLog(seed: seed, count: 60, in: source)
    let parts = try pages(source.catalog)
    let all = whole(parts)
    #expect(!all.items.isEmpty)
    let fixture = try Fixture(isNew: true)
    let catalog = fixture.catalog
    func checkNothingShows() throws {
      #expect(try catalog.check(contentKeys: [], size: { _ in nil }) == [])
      #expect(try catalog.repair(contentKeys: [], size: { _ in nil }).repaired == [])
      #expect(try catalog.remote(.root) == nil && catalog.remote(.documents) == nil)
      #expect(try catalog.remoteChildren(of: .documents) == [])
      #expect(try catalog.conflictCount() == 0 && catalog.conflictBytes() == 0)
      #expect(try catalog.chunkLocations(all.chunks.map(\.chunk.id)) == [:])
      #expect(try catalog.usage() == 0)
    }
    try catalog.beginSnapshot()
    try checkNothingShows()
    for part in parts {
      // Records come before their names.
      try catalog.changeLazily { try $0.stage(SnapshotPiece(items: PreparedPart(part).items[...])) }
      try checkNothingShows()
      let links = part.items.flatMap { record in record.links.map { ($0, record.id) } }
      try catalog.changeLazily { try $0.stage(SnapshotPiece(links: links[...])) }
      try checkNothingShows()
      try catalog.changeLazily {
        try $0.stage(
          SnapshotPiece(
            chunks: part.chunks[...], removed: part.removed[...], packs: part.packs[...]))
      }
      try checkNothingShows()
    }
    let position = log.segments[59].position
    try catalog.installSnapshot(
      SnapshotMark(sequence: position.sequence, bytes: 1), hash: position.hash,
      from: DeviceID(high: 3, low: 0))
    #expect(whole(try pages(catalog)) == all)
    #expect(try catalog.remote(.documents) != nil)
    #expect(try catalog.conflictedItems().count == all.items.count { !$0.conflicts.isEmpty })
    #expect(try catalog.usage() == all.items.reduce(0) { $0 + $1.allottedBytes })
    #expect(try fixture.isSound())
  }

  @Test("a new device refuses a snapshot that is no tree, and keeps nothing of it")
  func newDeviceRefuses() throws {
    let position = LogPosition(sequence: 50, hash: [UInt8](repeating: 4, count: 32))
    let other = ItemID(high: 6, low: 6)
    let trees = brokenTrees + [[record(other, .file, "a"), record(other, .file, "b")]]
    let source = try Fixture()
    let top = try [ItemID.root, .documents].map { try #require(try source.catalog.remote($0)) }
    // Many rows go into one statement.
    let others = try (0..<40).map { record(.random(), .file, try ItemName("other \($0)")) }
    for tree in trees.flatMap({ [$0, others[..<25] + $0 + others[25...]] }) {
      let fixture = try Fixture(isNew: true)
      var part = SnapshotPart()
      part.items = top + tree
      #expect(throws: Errno.badMessage) { try install([part], at: position, in: fixture) }
      try fixture.catalog.dropSnapshot()
      #expect(whole(try pages(fixture.catalog)).isEmpty)
      #expect(try fixture.catalog.position() == .start && fixture.isSound())
    }
  }

  /// Stages items and then loses the transaction that they are in, as a full disk does.
  private func stageAndLose(_ items: [ItemRecord], in fixture: Fixture) throws {
    var part = SnapshotPart()
    part.items = items
    let prepared = PreparedPart(part)
    try fixture.catalog.run { engine in
      try engine.operation { try engine.stage(SnapshotPiece(items: prepared.items[...])) }
      engine.withConnection { engine.abandonTransaction() }
    }
  }

  /// An item that is missing in a snapshot would count as one that other devices removed.
  @Test("a snapshot of which rows were lost is not installed", arguments: [false, true])
  func lostRowsAreMissed(isNew: Bool) throws {
    let position = LogPosition(sequence: 50, hash: [UInt8](repeating: 4, count: 32))
    let source = try Fixture()
    var parts = [SnapshotPart(), SnapshotPart(), SnapshotPart()]
    parts[0].items = try [ItemID.root, .documents].map {
      try #require(try source.catalog.remote($0))
    }
    parts[1].items = [record(.random(), .file, "a")]
    parts[2].items = [record(.random(), .file, "b")]
    let fixture = try Fixture(isNew: isNew)
    let before = try fixture.catalog.position()
    try fixture.catalog.beginSnapshot()
    try fixture.catalog.stage(parts[0])
    try fixture.catalog.commit(durable: true)
    try stageAndLose(parts[1].items, in: fixture)
    #expect(throws: Errno.ioError) { try fixture.catalog.stage(parts[2]) }
    #expect(throws: Errno.ioError) {
      try fixture.catalog.installSnapshot(
        SnapshotMark(sequence: position.sequence, bytes: 1), hash: position.hash,
        from: DeviceID(high: 3, low: 0))
    }
    #expect(try fixture.catalog.position() == before)
    try install(parts, at: position, in: fixture)
    #expect(whole(try pages(fixture.catalog)).items.count == 4)
  }

  /// On a full disk another commit may fail between an installation and its own commit.
  @Test func aLostInstallationIsAnError() throws {
    let fixture = try Fixture()
    var known = try fixture.catalog.changeLazily { engine in
      try engine.setUsage(7)
      return engine.losses
    }
    try fixture.catalog.run { engine in engine.withConnection { engine.abandonTransaction() } }
    #expect(throws: Errno.ioError) { try fixture.catalog.commitDurably(ifNoneLostSince: known) }
    known = try fixture.catalog.changeLazily { engine in
      try engine.setUsage(9)
      return engine.losses
    }
    try fixture.catalog.commitDurably(ifNoneLostSince: known)
    #expect(try fixture.catalog.usage() == 9)
  }

  private var brokenTrees: [[ItemRecord]] {
    let (one, two) = (ItemID(high: 5, low: 1), ItemID(high: 5, low: 2))
    return [
      // No parent; a parent that is a file; a cycle; two of one name.
      [record(one, .file, "a", in: ItemID(high: 6, low: 6))],
      [record(one, .file, "a"), record(two, .file, "b", in: one)],
      [record(one, .directory, "a", in: two), record(two, .directory, "b", in: one)],
      [record(one, .file, "a"), record(two, .file, "a")],
    ]
  }

  /// A snapshot that is no tree is refused and changes nothing.
  @Test func whatIsNoTreeIsRefused() throws {
    let fixture = try Fixture()
    try fixture.folded([record(.random(), .file, "here")])
    let before = whole(try pages(fixture.catalog))
    let position = LogPosition(sequence: 50, hash: [UInt8](repeating: 4, count: 32))
    let top = try [ItemID.root, .documents].map { try #require(try fixture.catalog.remote($0)) }
    for tree in brokenTrees {
      var part = SnapshotPart()
      part.items = (top + tree).sorted { $0.id < $1.id }
      #expect(throws: Errno.badMessage) { try install([part], at: position, in: fixture) }
      #expect(whole(try pages(fixture.catalog)) == before)
    }
    var old = SnapshotPart()
    old.items = top
    #expect(throws: Errno.invalidArgument) {
      try install([old], at: LogPosition(sequence: 1, hash: position.hash), in: fixture)
    }
  }
}

@Suite struct PackTests {
  private func place(_ seed: UInt8, _ pack: UInt64) -> ChunkLocation {
    ChunkLocation(
      chunk: chunk(seed, 10), pack: PackID(high: 1, low: pack), offset: 8, storedLength: 39)
  }

  private func fold(_ changes: LogChanges, _ fixture: Fixture) throws {
    try fixture.catalog.fold(
      changes, to: fixture.position(), from: LogOrigin(device: .random(), time: .earliest))
  }

  /// No segment refers to what is in a condemned pack; with the chunk elsewhere it may.
  @Test func nothingRefersToACondemnedPack() throws {
    let fixture = try Fixture()
    let catalog = fixture.catalog
    let file = record(.random(), .file, "a")
    try fold(LogChanges(upserts: [file], chunks: [place(1, 1)]), fixture)
    let again = LogChanges(upserts: [record(.random(), .file, "b")])
    func accepts(_ changes: LogChanges) throws -> Bool {
      try catalog.accepts(changes, after: catalog.position())
    }
    #expect(try accepts(again))
    #expect(try catalog.usableChunks([chunk(1, 10).id]).count == 1)
    try fold(LogChanges(condemned: [PackID(high: 1, low: 1)]), fixture)
    #expect(try !accepts(again))
    #expect(try catalog.unusable(in: again).versions.keys.map(\.self) == [again.upserts[0].id])
    #expect(try catalog.usableChunks([chunk(1, 10).id]).isEmpty)
    // Readers still find it, and a rename of what was there already is no reference.
    #expect(try catalog.chunkLocations([chunk(1, 10).id]).count == 1)
    var renamed = file
    renamed.links = [Link(parent: .documents, name: "c")]
    #expect(try accepts(LogChanges(upserts: [renamed])))
    var moved = again
    moved.chunks = [place(1, 2)]
    #expect(try accepts(moved))
    // A pack that was condemned before its uploader told of it.
    try fold(LogChanges(condemned: [PackID(high: 1, low: 9)]), fixture)
    var late = again
    late.chunks = [place(1, 9)]
    #expect(try !accepts(late))
    #expect(try catalog.unusable(in: late).packs == [PackID(high: 1, low: 9)])
  }

  /// Nothing is deleted that no earlier segment condemned; what was deleted stays known as that.
  @Test func deletionFollowsCondemnation() throws {
    let fixture = try Fixture()
    let catalog = fixture.catalog
    let pack = PackID(high: 1, low: 1)
    try fold(LogChanges(chunks: [place(1, 1), place(2, 2)]), fixture)
    #expect(try !catalog.accepts(LogChanges(deleted: [pack]), after: catalog.position()))
    try fold(LogChanges(condemned: [pack]), fixture)
    #expect(try catalog.condemnedPacks().map(\.record.pack) == [pack])
    #expect(try catalog.accepts(LogChanges(deleted: [pack]), after: catalog.position()))
    try fold(LogChanges(deleted: [pack]), fixture)
    #expect(try catalog.condemnedPacks().isEmpty)
    #expect(try catalog.chunkLocations([chunk(1, 10).id]).isEmpty)
    #expect(try catalog.isDeleted(pack))
    var late = LogChanges(upserts: [record(.random(), .file, "a")])
    late.chunks = [place(1, 1)]
    #expect(try !catalog.accepts(late, after: catalog.position()))
  }

  /// Live is what a content, a conflict version or a removed item has, and what gets one meanwhile.
  @Test func whatIsLiveIsKept() throws {
    let fixture = try Fixture()
    let catalog = fixture.catalog
    var current = record(.random(), .file, "a")
    current.content = contentVersion(10, 1)
    current.conflicts = [contentVersion(10, 2)]
    var gone = record(.random(), .file, "b")
    gone.content = contentVersion(10, 3)
    try fold(
      LogChanges(upserts: [current, gone], chunks: (1...6).map { place($0, UInt64($0)) }), fixture)
    try fold(LogChanges(removals: [gone.id]), fixture)
    let live = try LiveChunks(catalog)
    while try live.readPage() {}
    var late = record(.random(), .file, "c")
    late.content = contentVersion(10, 4)
    try fold(LogChanges(upserts: [late]), fixture)
    #expect(!live.contains(chunk(4, 10).id))
    #expect(try live.catchUp() == catalog.position())
    for seed in UInt8(1)...4 { #expect(live.contains(chunk(seed, 10).id)) }
    #expect(!live.contains(chunk(5, 10).id))
    let uses = try catalog.packUses(after: nil, live)
    #expect(uses.map { $0.live.count } == [1, 1, 1, 1, 0, 0])
    try fold(LogChanges(forgotten: [gone.id]), fixture)
    let later = try LiveChunks(catalog)
    while try later.readPage() {}
    #expect(!later.contains(chunk(3, 10).id))
  }
}
