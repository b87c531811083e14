internal import Model
internal import RecordFormat

/// Records in the order of their items, no more than may be read under the lock and kept in memory
/// at once: a record of a file with many chunks, or with large attributes, takes megabytes.
struct RecordPage<Row> {
  var rows: [Row]
  /// No rows come after these.
  var isLast: Bool
}

extension Engine {
  /// Rows of a page, and bytes of their records, the last one excepted.
  private static let pageRows = 512
  private static let pageBytes = 1 << 20

  /// Records that the log has, after an item.
  func remotePage(after start: ItemID?) throws -> RecordPage<(ItemID, [UInt8])> {
    try page { (bytes, isLong) in
      try database { db in
        try queries.remotePage.find(db, start?.bytes ?? [], Int64(Self.pageRows)) { row in
          let record = row.blob(1)
          bytes.append((try row.identifier(0), record))
          return isLong(record.count)
        }
      }
    }
  }

  /// Removed items that can be brought back, after an item.
  func removedPage(after start: ItemID?) throws -> RecordPage<(ItemID, RemovedItem)> {
    try page { (items, isLong) in
      try database { db in
        try queries.removedPage.find(db, start?.bytes ?? [], Int64(Self.pageRows)) { row in
          let record = row.blob(1)
          let item = RemovedItem(
            record: try ItemRecord(decoding: record), removed: row.time(2),
            device: try row.identifier(3))
          items.append((try row.identifier(0), item))
          return isLong(record.count)
        }
      }
    }
  }

  /// `read` fills in the rows until it has `pageRows` or is told that their bytes are enough; it
  /// gives whether it was told so.
  private func page<Row>(
    _ read: (inout [Row], _ isLong: (Int) -> Bool) throws -> Bool
  ) rethrows -> RecordPage<Row> {
    var rows: [Row] = []
    var bytes = 0
    let isCut = try read(&rows) { count in
      bytes += count
      return bytes >= Self.pageBytes
    }
    return RecordPage(rows: rows, isLast: !isCut && rows.count < Self.pageRows)
  }
}
