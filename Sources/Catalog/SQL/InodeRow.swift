internal import Model

/// How an inode stands in its row.
extension Inode {
  private static let packageFlag: Int64 = 1
  private static let pinnedFlag: Int64 = 2
  private static let excludedFlag: Int64 = 4
  private static let orphanFlag: Int64 = 8
  /// Two bits from here on.
  private static let policyShift: Int64 = 4

  /// The flags that have no column of their own.
  var flags: Int64 {
    get {
      (isPackage ? Self.packageFlag : 0) | (isPinned ? Self.pinnedFlag : 0)
        | (isExcluded ? Self.excludedFlag : 0) | (isOrphan ? Self.orphanFlag : 0)
        | policy.bits << Self.policyShift
    }
    set {
      isPackage = newValue & Self.packageFlag != 0
      isPinned = newValue & Self.pinnedFlag != 0
      isExcluded = newValue & Self.excludedFlag != 0
      isOrphan = newValue & Self.orphanFlag != 0
      policy = DownloadPolicy(bits: newValue >> Self.policyShift)
    }
  }

  /// Whether a row's flags say pinned, excluded, orphan.
  static func marks(in flags: Int64) -> (isPinned: Bool, isExcluded: Bool, isOrphan: Bool) {
    (flags & pinnedFlag != 0, flags & excludedFlag != 0, flags & orphanFlag != 0)
  }

  /// One more than `blocks`, 0 where they are not known: so the rows have it that were written when
  /// nothing was.
  var storedBlocks: UInt64 {
    get { blocks.map { $0 &+ 1 } ?? 0 }
    set { blocks = newValue == 0 ? nil : newValue - 1 }
  }

  /// Reads `Queries.inodeColumns`, the first of which is column `first`.
  init(_ row: SQLRow, from first: Int = 0) throws {
    guard let kind = ItemKind(rawValue: row.small(first + 2)) else {
      throw CatalogDamage("an inode's kind is unknown")
    }
    self.init(
      number: row.number(first), item: try row.identifier(first + 1), kind: kind,
      mode: row.small(first + 3), owner: row.small(first + 4), group: row.small(first + 5),
      device: row.unsigned(first + 6), linkCount: row.small(first + 7),
      size: row.unsigned(first + 8), accessed: row.time(first + 9), modified: row.time(first + 10),
      changed: row.time(first + 11), created: row.time(first + 12), target: row.blob(first + 13),
      content: row.integer(first + 15) == 0 ? .local : .remote,
      generation: row.unsigned(first + 16), version: row.optionalIdentifier(first + 17))
    flags = row.integer(first + 14)
    isDetached = row.integer(first + 18) != 0
    storedBlocks = row.unsigned(first + 19)
  }

  /// 0 where the row is to be found by its item.
  private var detachedColumn: Int64 { isDetached ? number.column : 0 }

  /// Makes the row, or brings it up to date where it is there.
  func put(_ connection: SQLConnection, _ queries: Queries) throws {
    try queries.putInode.run(connection, rows: CollectionOfOne(self)) { $0.row }
  }

  /// Makes the rows of new inodes, only within an operation.
  static func insert(
    _ inodes: [Inode], _ connection: SQLConnection, _ queries: Queries
  ) throws {
    try queries.insertInodes.run(connection, inodes[...]) { $0.row }
  }

  /// In the order of the columns.
  private var row:
    (
      Int64, ItemID, Int64, Int64, Int64, Int64, Int64, Int64, Int64, Int64, Int64, Int64, Int64,
      Int64, [UInt8]?, Int64, Int64, Int64, VersionID?, Int64
    )
  {
    (
      number.column, item, detachedColumn, Int64(kind.rawValue), Int64(mode), Int64(owner),
      Int64(group), device.column, Int64(linkCount), size.column, accessed.nanoseconds,
      modified.nanoseconds, changed.nanoseconds, created.nanoseconds,
      target.isEmpty ? nil : target, flags, Int64(content.rawValue), generation.column, version,
      storedBlocks.column
    )
  }
}
