package import Model
internal import Platform
internal import RecordFormat
package import SystemPackage

/// What was removed from the log and can be brought back: its last record, which names its content.
///
/// Rule: a content that a record of the log named, that can be read, and that nobody wrote over, is
/// in a record after the fold, or among the removed items. So every device keeps the same, whatever
/// software wrote the segment.
extension Engine {
  /// Keeps what a segment takes away, and drops what it brings back or forgets. `olds`: the records
  /// before it. Without an origin nothing is kept.
  func keepRemoved(
    _ changes: LogChanges, _ olds: [ItemID: ItemRecord], from origin: LogOrigin?
  ) throws {
    var lost: [ItemRecord] = []
    for record in changes.upserts {
      if let old = olds[record.id] { lost += old.droppedVersions(by: record) }
      try bringBack(record, over: olds[record.id], &lost)
    }
    for id in changes.forgotten { try dropRemoved(id) }
    guard let origin else { return }
    // By a clock that is ahead it would be kept for too long.
    let time = min(origin.time, now)
    func keep(_ record: ItemRecord) throws {
      // A kept version of a hostile record might have an identity that no item with a name can
      // have.
      guard record.id != .root, !record.links.isEmpty,
        !record.links.contains(where: { $0.parent == record.id })
      else { return }
      try track(removed: record.id)
      try write { db in
        try queries.setRemoved.run(
          db, record.id, record.encoded(), time.nanoseconds, origin.device)
      }
    }
    if !lost.isEmpty {
      // A version that became a file beside the item lives on.
      let there = Set(changes.upserts.flatMap(\.contents).map(\.id))
      for record in lost where record.contents.allSatisfy({ !there.contains($0.id) }) {
        try keep(record)
      }
    }
    guard !changes.removals.isEmpty else { return }
    var taken: [Link: ItemKind] = [:]
    for record in changes.upserts {
      for link in record.links { taken[link] = record.kind }
    }
    // Of a package whose conflict this segment ends, the files that another version replaces.
    let settled = Set(
      changes.upserts.lazy.filter { record in
        record.kind == .directory
          && !(olds[record.id]?.droppedVersions(by: record, alsoKept: true).isEmpty ?? true)
      }.map(\.id))
    for id in changes.removals {
      guard let old = olds[id], old.hasReadableContent else { continue }
      // Another item of its kind took its place: its content was saved over. Versions of a conflict
      // were not.
      let isSavedOver =
        old.links.allSatisfy { taken[$0] == old.kind }
        && !old.links.contains { settled.contains($0.parent) }
        && (!old.conflicts.contains { $0.manifest != nil }
          || PlantedMistake.dropsReplacedVersions.isPlanted)
      if !isSavedOver { try keep(old) }
    }
  }

  /// An item that a record puts into the log: its removed record goes, but for the contents that
  /// the record leaves out; so do the versions of it that the record has again.
  private func bringBack(
    _ record: ItemRecord, over old: ItemRecord?, _ lost: inout [ItemRecord]
  ) throws {
    if let removed = try removedItem(record.id) {
      if !PlantedMistake.forgetsRevivedVersions.isPlanted, try !isPackageVersion(removed.record) {
        let base = record.content?.manifest == nil ? nil : record.content?.parent
        lost += removed.record.contents(unseenBy: record, madeOf: base).map {
          removed.record.keeping($0)
        }
      }
      try dropRemoved(record.id)
    }
    for version in record.conflicts {
      try dropRemoved(ItemRecord.keptIdentity(of: version.id, in: record.id))
    }
    // The content that a readable edit was made of has been saved over. An edit that was announced
    // before says so in its first record.
    guard let content = record.content, content.manifest != nil else { return }
    let announced = old?.content?.id == content.id ? old?.content?.parent : nil
    for parent in Set([content.parent, announced].compactMap(\.self)) {
      try dropRemoved(ItemRecord.keptIdentity(of: parent, in: record.id))
    }
  }

  /// A version of a package that was dropped: it is brought back by unpacking it.
  private func isPackageVersion(_ record: ItemRecord) throws -> Bool {
    guard record.kind == .directory, record.conflicts.count == 1,
      let version = record.conflicts.first
    else { return false }
    let owner = ItemRecord.owner(of: version.id, keptAs: record.id)
    if try remote(owner) != nil { return true }
    return try removedItem(owner) != nil
  }

  private func dropRemoved(_ item: ItemID) throws {
    try track(removed: item)
    try write { db in try queries.deleteRemoved.run(db, item) }
  }

  private func track(removed item: ItemID) throws {
    guard tracking != nil else { return }
    let was = try removedItem(item)
    tracking?.willSet(removed: item, was)
  }

  func removedItem(_ item: ItemID) throws -> RemovedItem? {
    let found = try database { db in
      try queries.removed.first(db, item) { try Self.removedRow($0) }
    }
    return try found.map(Self.removedItem)
  }

  fileprivate func removedRows(since time: Timestamp) throws -> [RemovedRow] {
    try database { db in
      try queries.allRemoved.all(db, time.nanoseconds) { try Self.removedRow($0) }
    }
  }

  fileprivate typealias RemovedRow = (record: [UInt8], time: Timestamp, device: Model.DeviceID)

  private static func removedRow(_ row: SQLRow) throws -> RemovedRow {
    (row.blob(0), row.time(1), try row.identifier(2))
  }

  fileprivate static func removedItem(_ row: RemovedRow) throws -> RemovedItem {
    RemovedItem(
      record: try ItemRecord(decoding: row.record), removed: row.time, device: row.device)
  }
}

extension ItemRecord {
  /// The versions that a conflict kept and that `new` no longer has, each as it is kept; and the
  /// current content where one of those took its place. An edit saves over the current content.
  ///
  /// `alsoKept`: those too whose bytes `new` has under another identity.
  fileprivate func droppedVersions(by new: ItemRecord, alsoKept: Bool = false) -> [ItemRecord] {
    guard !conflicts.isEmpty, !PlantedMistake.dropsVersionsForGood.isPlanted else { return [] }
    let wasChosen = new.content.map { chosen in conflicts.contains { $0.id == chosen.id } } ?? false
    let gone =
      alsoKept
      ? contents.filter { version in !new.contents.contains { $0.id == version.id } }
      : contents(missingIn: new)
    return gone.filter { wasChosen || $0.id != content?.id }.map { version in
      var kept = keeping(version)
      kept.links = Array(new.links.prefix(1))
      return kept
    }
  }

  /// What was only announced is nowhere but on the device that announced it.
  fileprivate var hasReadableContent: Bool {
    kind != .file || content?.manifest != nil || conflicts.contains { $0.manifest != nil }
  }
}

extension ContainerCatalog {
  /// What was removed, on whatever device, and not brought back since; the newest first.
  package func removedItems(since time: Timestamp) throws(Errno) -> [RemovedItem] {
    let rows = try run { try $0.removedRows(since: time) }
    // There may be very many: requests do not wait for their decoding.
    do { return try rows.map(Engine.removedItem) } catch { throw Errno.ioError }
  }

  /// As `removedItems`, without their records: there may be very many.
  package func removedKeys(since time: Timestamp) throws(Errno) -> [RemovedKey] {
    try run { engine in
      try engine.database { db in
        try engine.queries.removedKeys.all(db, time.nanoseconds) { row in
          RemovedKey(
            item: try row.identifier(0), removed: row.time(1), device: try row.identifier(2))
        }
      }
    }
  }

  package func removedItem(_ item: ItemID) throws(Errno) -> RemovedItem? {
    try optional { try $0.removedItem(item) }
  }

  /// Those that were removed before `time`; at most `limit` of them.
  package func removedItems(before time: Timestamp, limit: Int) throws(Errno) -> [ItemID] {
    try run { engine in
      try engine.database { db in
        try engine.queries.removedBefore.all(db, time.nanoseconds, Int64(limit)) {
          try $0.identifier(0)
        }
      }
    }
  }
}
