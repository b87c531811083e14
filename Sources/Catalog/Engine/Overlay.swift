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
