internal import Foundation
internal import GRDB
internal import Model

/// How an inode stands in its row.
extension Inode {
  private static let packageFlag: Int64 = 1
  private static let pinnedFlag: Int64 = 2
  private static let excludedFlag: Int64 = 4
  private static let orphanFlag: Int64 = 8

  private var flags: Int64 {
    (isPackage ? Self.packageFlag : 0) | (isPinned ? Self.pinnedFlag : 0)
      | (isExcluded ? Self.excludedFlag : 0) | (isOrphan ? Self.orphanFlag : 0)
  }

  /// Reads `Queries.inodeColumns`, the first of which is column `first`.
  init(_ row: Row, from first: Int = 0) throws {
    guard let kind = ItemKind(rawValue: row.small(first + 2)) else {
      throw CatalogDamage("an inode's kind is unknown")
    }
    let flags = row.integer(first + 14)
    self.init(
      number: row.number(first), item: try row.identifier(first + 1), kind: kind,
      mode: row.small(first + 3), owner: row.small(first + 4), group: row.small(first + 5),
      device: row.unsigned(first + 6), linkCount: row.small(first + 7),
      size: row.unsigned(first + 8), accessed: row.time(first + 9), modified: row.time(first + 10),
      changed: row.time(first + 11), created: row.time(first + 12),
      target: try row.blob(first + 13), isPackage: flags & Self.packageFlag != 0,
      isPinned: flags & Self.pinnedFlag != 0, isExcluded: flags & Self.excludedFlag != 0,
      isOrphan: flags & Self.orphanFlag != 0,
      content: row.integer(first + 15) == 0 ? .local : .remote,
      generation: row.unsigned(first + 16), version: try row.optionalIdentifier(first + 17))
  }

  /// `detached` is 0 where the row is to be found by its item.
  func insert(_ db: Database, _ queries: Queries, detached: Int64) throws {
    try queries.insertInode.run(
      db, item.data, detached, Int64(kind.rawValue), Int64(mode), Int64(owner), Int64(group),
      device.column, Int64(linkCount), size.column, accessed.nanoseconds, modified.nanoseconds,
      changed.nanoseconds, created.nanoseconds, target.isEmpty ? nil : Data(target), flags,
      Int64(content.rawValue), generation.column, version?.data)
  }

  func update(_ db: Database, _ queries: Queries) throws {
    try queries.updateInode.run(
      db, Int64(mode), Int64(owner), Int64(group), Int64(linkCount), size.column,
      accessed.nanoseconds, modified.nanoseconds, changed.nanoseconds, created.nanoseconds,
      target.isEmpty ? nil : Data(target), flags, Int64(content.rawValue), generation.column,
      version?.data, number.column)
  }
}
