internal import Model

/// What memory knows better than the rows: changes that are not written to the database yet.
struct Overlay {
  enum InodeChange {
    /// `isNew` when neither the database nor an older overlay has a row.
    case stored(Inode, isNew: Bool)
    case deleted(ItemKind)

    var inode: Inode? { if case .stored(let inode, _) = self { inode } else { nil } }
  }

  /// One name in a directory. `child` 0 is that there is none.
  struct EntryChange {
    var child: InodeNumber
    var id: Int64
    /// There is no row of this name in the database or an older overlay.
    var isNew: Bool

    var isThere: Bool { child.rawValue != 0 }
  }

  enum StampChange {
    case set(UInt64)
    /// To be set if the other devices know of the item, else to be cleared.
    case retired(UInt64)
  }

  var inodes: [InodeNumber: InodeChange] = [:]
  var entries: [InodeNumber: [ItemName: EntryChange]] = [:]
  var stamps: [ItemID: StampChange] = [:]
  /// Since when a file is open for writing; nil for one that is no more.
  var writes: [InodeNumber: Int64?] = [:]
  private(set) var entryCount = 0

  /// About how many rows it takes to write it.
  var count: Int { inodes.count + entryCount + stamps.count + writes.count }
  var isEmpty: Bool { count == 0 }

  func entry(_ parent: InodeNumber, _ name: ItemName) -> EntryChange? { entries[parent]?[name] }

  /// Nil takes the change back.
  mutating func setEntry(_ parent: InodeNumber, _ name: ItemName, _ change: EntryChange?) {
    if let change {
      let old = entries[parent, default: [:]].updateValue(change, forKey: name)
      if old == nil { entryCount += 1 }
    } else if entries[parent]?.removeValue(forKey: name) != nil {
      entryCount -= 1
      if entries[parent]?.isEmpty == true { entries[parent] = nil }
    }
  }
}

extension Overlay {
  /// Takes over what is newer.
  mutating func merge(_ newer: Overlay) {
    inodes.merge(newer.inodes) { _, new in new }
    for (parent, names) in newer.entries {
      for (name, change) in names {
        var change = change
        change.isNew = false
        setEntry(parent, name, change)
      }
    }
    stamps.merge(newer.stamps) { _, new in new }
    writes.merge(newer.writes) { _, new in new }
  }
}

/// An overlay on its way into the database: it does not change any more. Written piece by piece, so
/// that a reader who needs the connection waits for one piece only.
final class Flush {
  let overlay: Overlay
  /// Of the redo journal: what was recorded up to here is in this flush or in an earlier one.
  let sequence: UInt64
  /// Below are under the connection's lock.
  private var inodes: [(InodeNumber, Overlay.InodeChange)]?
  private var entries: [(InodeNumber, [ItemName: Overlay.EntryChange])] = []
  private var next = 0
  private(set) var isWritten = false
  /// The transaction that had it was lost; what is in it was taken back into memory.
  var isAbandoned = false

  init(_ overlay: Overlay, sequence: UInt64) {
    self.overlay = overlay
    self.sequence = sequence
  }

  /// Writes about `limit` rows. Order does not matter: all keys differ, and `putEntry` takes away the
  /// rows that stand where a moved name comes to.
  func write(_ connection: SQLConnection, _ queries: Queries, now: Int64, limit: Int) throws {
    let inodes = self.inodes ?? inOrder()
    if self.inodes == nil {
      self.inodes = inodes
      entries = Array(overlay.entries)
    }
    var done = 0
    while next < inodes.count, done < limit {
      try Self.write(inodes[next], connection, queries)
      next += 1
      done += 1
    }
    while next >= inodes.count, next - inodes.count < entries.count, done < limit {
      let (parent, names) = entries[next - inodes.count]
      // Removed first: a new row's number may be that of the row of the old name.
      for (name, change) in names where !change.isThere {
        try queries.deleteEntry.run(connection, parent.column, name)
      }
      for (name, change) in names where change.isThere {
        try queries.putEntry.run(
          connection, change.id, parent.column, name, change.child.column)
      }
      next += 1
      done += names.count
    }
    guard next == inodes.count + entries.count, done < limit else { return }
    try writeRest(connection, queries, now: now)
    self.inodes = nil
    entries = []
    isWritten = true
  }

  /// First those that free an item, for another inode may stand for it now.
  private func inOrder() -> [(InodeNumber, Overlay.InodeChange)] {
    var all = overlay.inodes.map { ($0.key, $0.value) }
    _ = all.partition { change in
      guard let inode = change.1.inode else { return false }
      return !inode.isDetached
    }
    return all
  }

  private static func write(
    _ change: (InodeNumber, Overlay.InodeChange), _ connection: SQLConnection, _ queries: Queries
  ) throws {
    switch change.1 {
    case .stored(let inode, _): try inode.put(connection, queries)
    case .deleted(let kind): try delete(change.0, kind, connection, queries)
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

  private func writeRest(_ connection: SQLConnection, _ queries: Queries, now: Int64) throws {
    for (item, change) in overlay.stamps {
      switch change {
      case .set(let stamp): try queries.setStamp.run(connection, item, stamp.column, now)
      case .retired(let stamp):
        try queries.clearStamp.run(connection, item)
        try queries.setStampIfRemote.run(connection, item, stamp.column, now, item)
      }
    }
    for (number, began) in overlay.writes {
      if let began {
        try queries.beginWrite.run(connection, number.column, began)
      } else {
        try queries.endWrite.run(connection, number.column)
      }
    }
  }
}
