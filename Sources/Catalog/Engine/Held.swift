package import Model

/// What local contents take on the disk.
extension Inode {
  /// What its content counts for, in blocks of 512 bytes: what its file takes, or, where nobody has
  /// asked the file yet, its length in pages.
  var heldBlocks: UInt64 {
    guard kind == .file, content == .local else { return 0 }
    return countedBlocks(blocks, size)
  }
}

private func countedBlocks(_ blocks: UInt64?, _ size: UInt64) -> UInt64 {
  blocks ?? (size &+ 4095) / 4096 &* 8
}

extension Engine {
  func currentHeld() throws -> UInt64 {
    if let held { return held }
    let result = try database { db in try queries.held.first(db) { $0.unsigned(0) } } ?? 0
    held = result
    return result
  }

  /// Of the next `limit` inodes after one, those that hold content. Rows of which memory knows
  /// something newer are left out, and come from there with the last page.
  func heldFiles(after start: InodeNumber, limit: Int) throws -> (
    files: [HeldFile], next: InodeNumber?
  ) {
    var files: [HeldFile] = []
    var count = 0
    var last = start
    let rows = try read { db in
      try queries.heldPage.all(db, start.column, Int64(limit)) { row -> HeldFile? in
        count += 1
        last = row.number(0)
        guard row.integer(1) != 0 else { return nil }
        let blocks = row.unsigned(9)
        return HeldFile(
          number: last,
          key: ContentKey(item: try row.identifier(2), generation: row.unsigned(3)),
          size: row.unsigned(4), accessed: row.time(5), modified: row.time(6),
          flags: row.integer(7), isEdited: row.integer(8) != 0,
          blocks: blocks == 0 ? nil : blocks - 1, isLinked: row.integer(10) > 1)
      }
    }
    for case .some(let row) in rows where change(row.number) == nil { files.append(row) }
    guard count < limit else { return (files, last) }
    var known = flushing?.overlay.inodes ?? [:]
    known.merge(pending.inodes) { $1 }
    files += known.values.compactMap { $0.inode.flatMap { HeldFile($0) } }
    return (files, nil)
  }
}

/// A file whose content is here, as far as choosing what is to go needs it.
package struct HeldFile: Sendable {
  package let number: InodeNumber
  package let key: ContentKey
  package let size: UInt64
  package let accessed: Timestamp
  package let modified: Timestamp
  package let isPinned: Bool
  package let isExcluded: Bool
  package let isOrphan: Bool
  /// The content is no version that the log may have.
  package let isEdited: Bool
  /// Of 512 bytes; nil where nobody has asked the file yet.
  package let blocks: UInt64?
  /// It has several names.
  package let isLinked: Bool

  fileprivate init(
    number: InodeNumber, key: ContentKey, size: UInt64, accessed: Timestamp, modified: Timestamp,
    flags: Int64, isEdited: Bool, blocks: UInt64?, isLinked: Bool
  ) {
    self.isLinked = isLinked
    self.number = number
    self.key = key
    self.size = size
    self.accessed = accessed
    self.modified = modified
    (isPinned, isExcluded, isOrphan) = Inode.marks(in: flags)
    self.isEdited = isEdited
    self.blocks = blocks
  }

  fileprivate init?(_ inode: Inode) {
    guard inode.kind == .file, inode.content == .local, let key = inode.contentKey else {
      return nil
    }
    self.init(
      number: inode.number, key: key, size: inode.size, accessed: inode.accessed,
      modified: inode.modified, flags: inode.flags, isEdited: inode.version == nil,
      blocks: inode.blocks, isLinked: inode.linkCount > 1)
  }

  /// What it counts for, in bytes.
  package var bytes: UInt64 { countedBlocks(blocks, size) &* 512 }
}
