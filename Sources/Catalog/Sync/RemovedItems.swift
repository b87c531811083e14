package import Model
internal import RecordFormat
package import SystemPackage

/// What was removed from the log and can be brought back: its last record, which names its content.
extension Engine {
  /// Keeps what a segment removes, and drops what it brings back or forgets. `olds`: the records before
  /// it. Without an origin nothing is kept.
  func keepRemoved(
    _ changes: LogChanges, _ olds: [ItemID: ItemRecord], from origin: LogOrigin?
  ) throws {
    for record in changes.upserts { try dropRemoved(record.id) }
    for id in changes.forgotten { try dropRemoved(id) }
    guard let origin, !changes.removals.isEmpty else { return }
    let taken = Set(changes.upserts.flatMap(\.links))
    // By a clock that is ahead it would be kept for too long.
    let time = min(origin.time, now)
    for id in changes.removals {
      // What another item took the place of was saved over, not removed.
      guard let old = olds[id], old.hasReadableContent, !old.links.allSatisfy(taken.contains) else {
        continue
      }
      try track(removed: id)
      try write { db in
        try queries.setRemoved.run(db, id, old.encoded(), time.nanoseconds, origin.device)
      }
    }
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
