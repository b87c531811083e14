package import Model

/// The number by which the kernel and the catalog know an item on this device: a rowid that is
/// never reused. 1 is the container's root, as FUSE wants it.
package struct InodeNumber: Hashable, Comparable, Sendable, CustomStringConvertible {
  package let rawValue: UInt64

  package init(_ rawValue: UInt64) { self.rawValue = rawValue }

  package static let root = InodeNumber(1)

  package var description: String { "\(rawValue)" }

  package static func < (left: Self, right: Self) -> Bool { left.rawValue < right.rawValue }
}

/// Where a file's bytes are.
package enum ContentState: UInt8, Sendable {
  /// Whole, in the content file of the inode's generation. An empty file may have none.
  case local = 0
  /// In the backend; the content file of the inode's generation, if there is one, holds a part.
  case remote = 1
}

/// One inode as it is now: a value, not a handle.
package struct Inode: Hashable, Sendable {
  package var number: InodeNumber
  package var item: ItemID
  package var kind: ItemKind
  /// The permission bits, 0o7777.
  package var mode: UInt16
  package var owner: UInt32
  package var group: UInt32
  package var device: UInt64
  package var linkCount: UInt32
  /// Of a file its length, of a symbolic link its target's; of a directory 0.
  package var size: UInt64
  package var accessed: Timestamp
  package var modified: Timestamp
  package var changed: Timestamp
  package var created: Timestamp
  package var target: [UInt8]
  package var isPackage: Bool
  package var isPinned: Bool
  /// It or a directory above it has a name that stays on the device.
  package var isExcluded: Bool
  /// Nothing names it any more; it lives while something has it open or the kernel remembers it.
  package var isOrphan: Bool
  package var content: ContentState
  /// Of a directory: what becomes of the content of files below it. This device's own.
  package var policy = DownloadPolicy.inherit
  /// It does not stand for its item: another inode does, or may.
  var isDetached = false
  /// The 512-byte blocks that local content takes on the disk; nil where that is not known, and for
  /// what is remote. Known, the content file need not be asked unless something has it open.
  package var blocks: UInt64?
  /// With `item`, the name of the content file.
  package var generation: UInt64
  /// Which version the content is; nil when it was changed here since, or was never uploaded.
  package var version: VersionID?

  package init(
    number: InodeNumber, item: ItemID, kind: ItemKind, mode: UInt16, owner: UInt32, group: UInt32,
    device: UInt64 = 0, linkCount: UInt32, size: UInt64, accessed: Timestamp, modified: Timestamp,
    changed: Timestamp, created: Timestamp, target: [UInt8] = [], isPackage: Bool = false,
    isPinned: Bool = false, isExcluded: Bool = false, isOrphan: Bool = false,
    content: ContentState = .local, generation: UInt64, version: VersionID? = nil
  ) {
    self.number = number
    self.item = item
    self.kind = kind
    self.mode = mode
    self.owner = owner
    self.group = group
    self.device = device
    self.linkCount = linkCount
    self.size = size
    self.accessed = accessed
    self.modified = modified
    self.changed = changed
    self.created = created
    self.target = target
    self.isPackage = isPackage
    self.isPinned = isPinned
    self.isExcluded = isExcluded
    self.isOrphan = isOrphan
    self.content = content
    self.generation = generation
    self.version = version
  }
}
