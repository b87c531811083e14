package import Model

/// What a new item is, apart from its name and its times.
package struct NewItem: Sendable {
  package var kind: ItemKind
  /// The permission bits, 0o7777, with the umask applied already.
  package var mode: UInt16
  package var owner: UInt32
  /// Taken from the parent instead where that is set-group-ID.
  package var group: UInt32
  package var device: UInt64
  package var target: [UInt8]

  package init(
    kind: ItemKind, mode: UInt16, owner: UInt32, group: UInt32, device: UInt64 = 0,
    target: [UInt8] = []
  ) {
    self.kind = kind
    self.mode = mode
    self.owner = owner
    self.group = group
    self.device = device
    self.target = target
  }
}

/// Source: rename(2), renameat2(2).
package enum RenameMode: Sendable {
  case replace
  case noReplace
  case exchange
}

package struct RenameOutcome: Sendable {
  /// The inode after the rename.
  package let moved: Inode
  /// What had the new name: after losing it (`isOrphan` when that was its last), or, exchanged,
  /// under the old name.
  package let replaced: Inode?
  /// The moved file stands for the item of the one that it replaced from now on.
  package var isHeir = false
}

/// The attributes to change; nil leaves one as it is.
package struct AttributeChanges: Sendable {
  /// The permission bits, 0o7777.
  package var mode: UInt16?
  package var owner: UInt32?
  package var group: UInt32?
  package var accessed: Timestamp?
  package var modified: Timestamp?

  package init(
    mode: UInt16? = nil, owner: UInt32? = nil, group: UInt32? = nil, accessed: Timestamp? = nil,
    modified: Timestamp? = nil
  ) {
    self.mode = mode
    self.owner = owner
    self.group = group
    self.accessed = accessed
    self.modified = modified
  }
}

package struct DirectoryEntry: Sendable {
  /// Where to go on after this entry. At least 16: the low ones are free for `.` and `..`.
  package let offset: Int64
  package let name: ItemName
  package let inode: Inode
}

/// A `DirectoryEntry` for who wants to know no more than what kind of thing has the name.
package struct NameEntry: Sendable {
  package let offset: Int64
  package let name: ItemName
  package let number: InodeNumber
  package let kind: ItemKind
}

/// Source: setxattr(2).
package enum AttributeMode: Sendable {
  case createOrReplace
  /// EEXIST when it is there.
  case create
  /// ENODATA when it is not.
  case replace
}

/// What a container has, orphans and the root not counted.
package struct CatalogCounts: Hashable, Sendable {
  package var items: UInt64 = 0
  /// The lengths of all files.
  package var totalBytes: UInt64 = 0
  /// Of those, the lengths of the files whose content is local.
  package var localBytes: UInt64 = 0

  package init(items: UInt64 = 0, totalBytes: UInt64 = 0, localBytes: UInt64 = 0) {
    self.items = items
    self.totalBytes = totalBytes
    self.localBytes = localBytes
  }
}

/// What a content file was found to be.
package struct FoundContent: Sendable {
  package let size: UInt64
  package let modified: Timestamp
  /// Of 512 bytes; nil where nobody asked.
  package let blocks: UInt64?

  package init(size: UInt64, modified: Timestamp, blocks: UInt64? = nil) {
    self.size = size
    self.modified = modified
    self.blocks = blocks
  }

  /// There is none, and an empty one is as good.
  static let nothing = FoundContent(size: 0, modified: .earliest, blocks: 0)
}
