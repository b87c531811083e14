internal import Model

/// An overlay on its way into the database: it does not change any more. Written piece by piece, so
/// that a reader who needs the connection waits for one piece only.
final class Flush: @unchecked Sendable {
  enum Row {
    case inode(InodeNumber, Overlay.InodeChange)
    case entry(InodeNumber, ItemName, Overlay.EntryChange)
    case stamp(ItemID, Overlay.StampChange)
    case write(InodeNumber, Int64?)
  }

  let overlay: Overlay
  /// Of the redo journal: what was recorded up to here is in this flush or in an earlier one.
  let sequence: UInt64
  /// Below are under the connection's lock.
  private var rows: [Row]?
  private var next = 0
  private(set) var isWritten = false
  /// The transaction that had it was lost; what is in it was taken back into memory.
  var isAbandoned = false

  init(_ overlay: Overlay, sequence: UInt64) {
    self.overlay = overlay
    self.sequence = sequence
  }

  /// Writes up to `limit` rows. `rows` is what `inOrder` gave, made beforehand where that is
  /// possible.
  func write(
    _ connection: SQLConnection, _ queries: Queries, now: Int64, limit: Int, rows: [Row]? = nil
  ) throws {
    guard !isWritten else { return }
    let all = self.rows ?? rows ?? inOrder()
    self.rows = all
    let end = min(next + limit, all.count)
    while next < end {
      try Self.write(all[next], connection, queries, now: now)
      next += 1
    }
    guard next == all.count else { return }
    self.rows = nil
    isWritten = true
  }

  /// In the order of their keys, as far as they have one: what is written one after the other is in
  /// the same pages then. Apart from that there are two rules only, since all keys differ and
  /// `putEntry` takes away the rows that stand where a moved name comes to.
  func inOrder() -> [Row] {
    var inodes = overlay.inodes.map { (number: $0.key, change: $0.value) }
    inodes.sort { $0.number < $1.number }
    var result: [Row] = []
    result.reserveCapacity(overlay.count)
    // First those that free an item, for another inode may stand for it now.
    for freeing in [true, false] {
      for inode in inodes where inode.change.freesItem == freeing {
        result.append(.inode(inode.number, inode.change))
      }
    }
    let directories = overlay.entries.sorted { $0.key < $1.key }
    // Removed first: a new row's number may be that of the row of the old name.
    for (parent, names) in directories {
      for (name, change) in names where !change.isThere {
        result.append(.entry(parent, name, change))
      }
    }
    for (parent, names) in directories {
      let made = names.filter(\.value.isThere).sorted { $0.value.id < $1.value.id }
      for (name, change) in made { result.append(.entry(parent, name, change)) }
    }
    for (item, change) in overlay.stamps.sorted(by: { $0.key < $1.key }) {
      result.append(.stamp(item, change))
    }
    for (number, began) in overlay.writes { result.append(.write(number, began)) }
    return result
  }

  private static func write(
    _ row: Row, _ connection: SQLConnection, _ queries: Queries, now: Int64
  ) throws {
    switch row {
    case .inode(_, .stored(let inode, _)): try inode.put(connection, queries)
    case .inode(let number, .deleted(let kind)): try delete(number, kind, connection, queries)
    case .entry(let parent, let name, let change):
      if change.isThere {
        try queries.putEntry.run(connection, change.id, parent.column, name, change.child.column)
      } else {
        try queries.deleteEntry.run(connection, parent.column, name)
      }
    case .stamp(let item, .set(let stamp)):
      try queries.setStamp.run(connection, item, stamp.column, now)
    case .stamp(let item, .retired(let stamp)):
      try queries.clearStamp.run(connection, item)
      try queries.setStampIfRemote.run(connection, item, stamp.column, now)
    case .write(let number, let began?):
      try queries.beginWrite.run(connection, number.column, began)
    case .write(let number, nil):
      try queries.endWrite.run(connection, number.column)
    }
  }

  /// An inode's row and what hangs on it; its entries are gone, or go in the same transaction.
  static func delete(
    _ number: InodeNumber, _ kind: ItemKind, _ connection: SQLConnection, _ queries: Queries
  ) throws {
    try queries.deleteInode.run(connection, number.column)
    try queries.removeAttributes.run(connection, number.column)
    guard kind == .file else { return }
    try queries.deleteShown.run(connection, number.column)
    try queries.endWrite.run(connection, number.column)
  }
}

extension Overlay.InodeChange {
  /// Its row does not stand for its item any more, if it ever did.
  fileprivate var freesItem: Bool { inode?.isDetached ?? true }
}
