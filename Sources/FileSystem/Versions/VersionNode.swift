package import Catalog
package import Model

/// What the kernel calls the nodes of the hidden directory: numbers that no row of the catalog ever
/// has, so that one comparison tells them from all others.
package enum VersionNode: Hashable, Sendable {
  /// `.ubiquity` itself.
  case hidden
  /// Of a directory, or of a file that has versions: `versions` is that of the root.
  case mirror(InodeNumber)
  /// One version of a file. See `VersionTable`.
  case version(UInt64)

  /// The least number of all. Positive as a signed number too, which some programs take it for.
  package static let first: UInt64 = 1 << 62
  /// Set for versions; the others are those of the inodes.
  private static let file: UInt64 = 1 << 61

  /// Nil for an ordinary inode.
  package init?(_ number: UInt64) {
    guard number >= Self.first else { return nil }
    let rest = number & (Self.file - 1)
    if number & Self.file != 0 {
      self = .version(rest)
    } else {
      self = rest == 0 ? .hidden : .mirror(InodeNumber(rest))
    }
  }

  package var number: UInt64 {
    switch self {
    case .hidden: Self.first
    case .mirror(let inode): Self.first | inode.rawValue
    case .version(let rest): Self.first | Self.file | rest
    }
  }

  /// Where a version's number is looked for first: the same after a restart, too.
  static func preferred(_ version: VersionID, of inode: InodeNumber) -> UInt64 {
    (version.low ^ inode.rawValue &* 0x9E37_79B9_7F4A_7C15) & (file - 1)
  }

  static func next(_ rest: UInt64) -> UInt64 { (rest + 1) & (file - 1) }
}

/// What `stat` tells of a node of the hidden directory.
package struct VersionStatus: Sendable {
  package let node: UInt64
  /// A directory or a file.
  package let isDirectory: Bool
  /// The permission bits.
  package let mode: UInt16
  package let owner: UInt32
  package let group: UInt32
  package let size: UInt64
  package let modified: Timestamp
  package let changed: Timestamp
}

/// A name in a directory of it.
package struct VersionName: Sendable {
  package let name: [UInt8]
  package let node: UInt64
  package let isDirectory: Bool
  /// Where listing goes on after it.
  package let offset: UInt64
}
