internal import Model

/// Dirty marks: which items the other devices have to hear of.
extension Engine {
  func stamp(_ item: ItemID) throws -> UInt64? {
    if case .set(let stamp) = pending.stamps[item] { return stamp }
    return try database { db in try queries.stamp.first(db, item) { $0.unsigned(0) } }
  }

  /// Items with a mark above this one.
  func marked(after mark: UInt64) throws -> [ItemID] {
    var result = Set(
      try database { db in
        try queries.stampedAfter.all(db, mark.column) { try $0.identifier(0) as ItemID }
      })
    for (item, change) in pending.stamps {
      if case .set(let stamp) = change, stamp > mark { result.insert(item) }
    }
    return result.sorted()
  }

  func setStamp(_ item: ItemID, _ stamp: UInt64? = nil) {
    touched?.insert(item)
    note(.stamp(item, slot: pending.stamps[item]))
    pending.stamps[item] = .set(stamp ?? nextNumber())
    noteNews(item)
  }

  func clearStamp(_ item: ItemID) throws {
    touched?.insert(item)
    try write { db in try queries.clearStamp.run(db, item) }
  }

  /// Marks an item that changed, if it is one that syncs.
  func mark(_ inode: Inode) {
    guard !inode.isExcluded, !inode.isOrphan, inode.kind.isSynced else { return }
    setStamp(inode.item)
  }

  /// An item ceased to exist for the other devices: dirty if they know of it, else forgotten.
  func retire(_ item: ItemID) {
    touched?.insert(item)
    note(.stamp(item, slot: pending.stamps[item]))
    pending.stamps[item] = .retired(nextNumber())
    noteNews(item)
  }

  private func noteNews(_ item: ItemID) {
    hasNews = true
    guard let count = marked?.count else { return }
    if count < Self.markedLimit { marked?.insert(item) } else { marked = nil }
  }
}
