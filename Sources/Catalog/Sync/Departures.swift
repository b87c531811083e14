package import Model
package import SystemPackage

/// Very many items that were made or changed here: which of them there are, so that they can be
/// sent part by part.
extension Engine {
  /// By their inodes, after one; with the directories above them that are new, whatever their
  /// numbers.
  fileprivate func changedItems(after start: InodeNumber, limit: Int) throws -> (
    items: [ItemID], next: InodeNumber?
  ) {
    let rows = try database { db in
      try queries.changedItems.all(db, start.column, Int64(limit)) { row in
        (item: try row.identifier(0) as ItemID, number: row.number(1))
      }
    }
    var items: [ItemID] = []
    var seen: Set<ItemID> = [.root]
    for row in rows {
      var pending = [row.number]
      if seen.insert(row.item).inserted { items.append(row.item) }
      while let number = pending.popLast() {
        for link in try links(of: number) {
          let above = try inode(link.parent)
          guard seen.insert(above.item).inserted, try remoteRow(above.item) == nil else { continue }
          items.append(above.item)
          pending.append(link.parent)
        }
      }
    }
    return (items, rows.count == limit ? rows.last?.number : nil)
  }
}

extension ContainerCatalog {
  /// Whether more than `count` items were changed here.
  package func isDirtyInMore(than count: Int) throws(Errno) -> Bool {
    try changeLazily { engine in
      try engine.database { db in
        try engine.queries.dirtyMore.first(db, Int64(count) + 1) { Int($0.integer(0)) } ?? 0
      } > count
    }
  }

  /// Whether something that the log has is gone here and was not told.
  package func hasRemovals() throws(Errno) -> Bool {
    try changeLazily { engine in
      try engine.database { db in try engine.queries.anyRemoval.first(db) { _ in true } ?? false }
    }
  }

  /// About `limit` items that were made or changed here, those that `unsentFiles` gives apart,
  /// after an inode; each with the directories above it that are new. `next` is where to go on, nil
  /// at the end.
  package func changedItems(after start: InodeNumber, limit: Int) throws(Errno) -> (
    items: [ItemID], next: InodeNumber?
  ) {
    try changeLazily { try $0.changedItems(after: start, limit: limit) }
  }

  /// About `limit` files that the log has, whose content was changed here: those changed since
  /// `time` first, then the small ones; `after` so many of them.
  package func unsentFiles(
    changedSince time: Timestamp, limit: Int, after passed: Int
  ) throws(Errno) -> [ItemID] {
    try changeLazily { engine in
      try engine.database { db in
        try engine.queries.unsentFiles.all(
          db, time.nanoseconds, Int64(limit), Int64(passed)
        ) {
          try $0.identifier(0)
        }
      }
    }
  }

  /// From here on `newlyMarked` lists the items that are marked. It costs memory until
  /// `endMarkWatch`.
  package func beginMarkWatch() { engine.withLock { $0.marked = [] } }

  package func endMarkWatch() { engine.withLock { $0.marked = nil } }

  /// The items that were marked since the watch began, or since the last call. Nil: too many to
  /// tell.
  package func newlyMarked() -> Set<ItemID>? {
    engine.withLock { engine in
      defer { engine.marked = [] }
      return engine.marked
    }
  }
}
