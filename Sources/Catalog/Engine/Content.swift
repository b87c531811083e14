internal import Model
internal import Platform
internal import SystemPackage

/// What happens to a file's content: written here, brought here, sent away.
extension Engine {
  func noteContentChange(
    _ number: InodeNumber, size: UInt64, blocks: UInt64?, modified: Timestamp
  ) throws {
    var inode = try inode(number)
    guard inode.kind == .file else { throw Errno.invalidArgument }
    guard inode.content == .local else { throw Errno.invalidArgument }
    inode.size = size
    inode.blocks = blocks
    inode.modified = modified
    inode.changed = now
    inode.version = nil
    try store(inode)
    mark(inode)
  }

  func replaceContent(_ number: InodeNumber) throws -> (inode: Inode, obsolete: ContentKey) {
    var inode = try inode(number)
    guard inode.kind == .file, let key = inode.contentKey else { throw Errno.invalidArgument }
    inode.content = .local
    inode.generation = nextNumber()
    inode.size = 0
    inode.blocks = 0
    inode.version = nil
    inode.modified = now
    inode.changed = inode.modified
    try store(inode)
    mark(inode)
    return (inode, key)
  }

  func noteBlocks(_ key: ContentKey, of number: InodeNumber, _ blocks: UInt64?) throws {
    var inode = try inode(number)
    guard inode.contentKey == key, inode.content == .local, inode.blocks != blocks else { return }
    inode.blocks = blocks
    try store(inode)
  }

  func markContentLocal(_ number: InodeNumber, generation: UInt64, blocks: UInt64?) throws -> Bool {
    var inode = try inode(number)
    guard inode.kind == .file, inode.generation == generation else { return false }
    guard inode.content == .remote else { return true }
    inode.content = .local
    inode.blocks = blocks
    try store(inode)
    return true
  }

  func evict(_ number: InodeNumber, isOpen: (InodeNumber) -> Bool) throws -> ContentKey {
    var inode = try inode(number)
    guard inode.kind == .file, let key = inode.contentKey else { throw Errno.invalidArgument }
    guard try !inode.isExcluded && !hasExcludedName(inode) else { throw Errno.notPermitted }
    let shown = try shownContent(inode)
    let isSent = try stamp(inode.item) == nil && shown?.manifest != nil && !storeLacks(shown)
    guard !inode.isOrphan, !inode.isPinned, !isOpen(number),
      isSent || PlantedMistake.evictsUnsent.isPlanted
    else { throw Errno.resourceBusy }
    inode.content = .remote
    inode.blocks = nil
    // A download that begins before the old file is unlinked writes to another one.
    inode.generation = nextNumber()
    try store(inode)
    return key
  }

  /// Whether a file that syncs has a hard link that does not. Its content stays: the other devices
  /// know nothing of that name.
  func hasExcludedName(_ inode: Inode) throws -> Bool {
    guard inode.kind == .file, inode.linkCount > 1 else { return false }
    return try links(of: inode.number).contains { link in
      try link.name.isExcludedFromSync || self.inode(link.parent).isExcluded
    }
  }

  // MARK: After an unclean end

  func noteWriteBegan(_ number: InodeNumber) throws {
    let inode = try inode(number)
    // An edited content has nothing to lose its version against: only its size may be out of date,
    // and that `recover` reads back from every edited file.
    guard inode.kind == .file, inode.version != nil else { return }
    setWriting(number, since: clock.nanoseconds())
  }

  func noteWriteEnded(_ number: InodeNumber) throws {
    // Without the mark a crash would leave nothing that says so.
    if unjournaled[number] != nil { try recordSoftChanges() }
    setWriting(number, since: nil)
  }

  func recover(
    _ probe: (ContentKey) throws -> FoundContent?
  ) throws -> [InodeNumber] {
    let began = try database { db in
      let rows = try Query("SELECT ino, began FROM open_write").all(db) { row in
        (row.number(0), row.time(1))
      }
      return Dictionary(rows, uniquingKeysWith: { first, _ in first })
    }
    let edited = try database { db in
      let rows = try Query(
        """
        SELECT ino, EXISTS (SELECT 1 FROM dirty WHERE item = inode.item)
        FROM inode WHERE kind = 1 AND content = 0 AND version IS NULL
        """
      ).all(db) { row in (row.number(0), row.integer(1) != 0) }
      return Dictionary(rows, uniquingKeysWith: { first, _ in first })
    }
    var result: [InodeNumber] = []
    if PlantedMistake.recoversNothing.isPlanted { return result }
    for number in Set(edited.keys).union(began.keys).sorted() {
      guard var inode = try? inode(number), let key = inode.contentKey, inode.content == .local
      else { continue }
      // A power cut can leave the row of a file that was never synchronised and not its content
      // file: the file is empty then, as it would be on a local disk. What is uploaded never is.
      guard let found = try probe(key) ?? (inode.version == nil ? .nothing : nil) else { continue }
      // The file's clock is the kernel's coarse one; a second covers that.
      let isWritten =
        began[number].map { found.modified >= $0.advanced(by: -1_000_000_000) } ?? false
      // An fsync leaves the time to the content file. A time that was set on purpose is older than
      // the change time, which is that of the last change that the row knows.
      let isLater = inode.version == nil && found.modified > inode.changed
      let isKnown = inode.blocks == found.blocks
      inode.blocks = found.blocks
      guard found.size != inode.size || isLater || (isWritten && inode.version != nil) else {
        if !isKnown { try store(inode) }
        // An earlier release could lose the mark of an edit when it was killed. Nothing else says
        // that the edit has to go up.
        if edited[number] == false, !inode.isExcluded, !inode.isOrphan {
          mark(inode)
          result.append(number)
        }
        continue
      }
      inode.size = found.size
      inode.version = nil
      inode.modified = max(inode.modified, found.modified)
      inode.changed = now
      try store(inode)
      mark(inode)
      result.append(number)
    }
    try write { db in
      try db.execute("DELETE FROM open_write")
      // A manifest may be of bytes that were overwritten in the moment before the end.
      try db.execute("DELETE FROM upload")
    }
    return result
  }

  func unneededContent(among keys: [ContentKey]) throws -> [ContentKey] {
    let needed = try database { db in
      try Query("SELECT item, generation FROM inode WHERE kind = 1 AND content = 0").all(db) {
        row in ContentKey(item: try row.identifier(0), generation: row.unsigned(1))
      }
    }
    let isNeeded = Set(needed)
    return keys.filter { !isNeeded.contains($0) }
  }
}
