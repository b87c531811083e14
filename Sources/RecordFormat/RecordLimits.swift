/// What a record may hold at most. A reader refuses more, so a writer must not make more.
package enum RecordLimits {
  /// Hard links of one item, as on ext4.
  package static let links = 65_000
  package static let attributes = 65_536
  /// Bytes of an attribute's name, its `user.` included. Source: xattr(7), XATTR_NAME_MAX.
  package static let attributeName = 255
  /// Bytes of an attribute's value. Source: xattr(7), XATTR_SIZE_MAX.
  package static let attributeValue = 65_536
  /// Bytes of a symbolic link's target: PATH_MAX without its NUL.
  package static let target = 4095
  package static let conflicts = 4096
  /// Chunks of one content: 1 TiB and more of the smallest chunks.
  package static let chunks = 1 << 23
  /// Plain bytes of one chunk.
  package static let chunkLength: UInt32 = 1 << 24
  /// Bytes of one pack.
  package static let packLength: UInt64 = 1 << 28
  /// Bytes that a chunk grows by when it is sealed: how it is stored, a nonce and a tag.
  package static let sealOverhead: UInt32 = 29
  /// Records of one segment.
  package static let records = 1 << 22
  package static let deviceName = 255
  /// Epochs of an account. Each costs 32 bytes in `format`.
  package static let epochs: UInt32 = 1024
  /// Bytes of an epoch's key that is sealed for a member.
  package static let sealedKey = 256
  /// Bytes of an account's secret that is sealed.
  package static let sealedSecret = 8192
  /// Bytes of the URL of a store.
  package static let storeAddress = 4096
  /// Parts of one snapshot.
  package static let snapshotParts = 65_536
  /// Bytes of one part as stored. With the limit above, all parts make less than 2^45 bytes.
  package static let snapshotPartLength: UInt64 = 1 << 28
  /// The greatest number of a segment or a recovery, and the most bytes or items that a record
  /// tells of. Four of them can be added without an overflow.
  package static let number: UInt64 = 1 << 61
  /// Days for which a device lets what was removed be brought back. More count as so many.
  package static let days: UInt32 = 36_500
}

/// Why bytes are no record. The text says what is wrong with them, for a message to a person.
package struct RecordError: Error, Equatable, Sendable, CustomStringConvertible {
  package let description: String

  package init(_ description: String) { self.description = description }
}
