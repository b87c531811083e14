package import Model
package import SystemPackage

/// What happens to a file's content. The bytes are the content store's; this is what is known of
/// them.
extension ContainerCatalog {
  /// Bytes of a local file changed. Cheap: memory only, the row follows with the next commit. The
  /// change time is now; the content is no version any more. EINVAL for a file whose content is
  /// remote: it must be made local first, or replaced. `blocks` is what the file takes on the disk
  /// since, nil where nobody looked.
  package func noteContentChange(
    _ number: InodeNumber, size: UInt64, blocks: UInt64? = nil, modified: Timestamp
  ) throws(Errno) {
    try run { engine in
      try engine.operation {
        engine.isSoft = true
        try engine.noteContentChange(number, size: size, blocks: blocks, modified: modified)
      }
    }
  }

  /// What a local content file takes on the disk, nil for what is not to be relied on. Changes
  /// nothing else, and is soft like `noteContentChange`; with another content by now it does
  /// nothing.
  package func noteBlocks(_ key: ContentKey, of number: InodeNumber, _ blocks: UInt64?)
    throws(Errno)
  {
    try run { engine in
      try engine.operation {
        engine.isSoft = true
        try engine.noteBlocks(key, of: number, blocks)
      }
    }
  }

  /// `noteBlocks` by one who looked at a file that was not open. Who wrote to it since knows
  /// better: only what was not known is noted.
  package func rememberBlocks(_ key: ContentKey, of number: InodeNumber, _ blocks: UInt64)
    throws(Errno)
  {
    try run { engine in
      guard try engine.inode(number).blocks == nil else { return }
      try engine.operation {
        engine.isSoft = true
        try engine.noteBlocks(key, of: number, blocks)
      }
    }
  }

  /// Gives a file a new, empty, local content, whatever it had: truncation to nothing needs no
  /// download. The content file of the new generation need not exist. The old one is to be unlinked
  /// in `afterDurableCommit`; what has it open keeps it.
  package func replaceContent(_ number: InodeNumber) throws(Errno)
    -> (inode: Inode, obsolete: ContentKey)
  {
    try change { try $0.replaceContent(number) }
  }

  /// To be called before the first write of an open of a file, and before an open for writing that
  /// the kernel serves itself. ENOSPC where the disk has only the catalog's reserve left. After a
  /// crash `recover` knows by it that the bytes may not be the version that the row names; for a
  /// file that is edited already it does nothing.
  package func noteWriteBegan(_ number: InodeNumber) throws(Errno) {
    try change { engine in
      try engine.requireRoom()
      try engine.noteWriteBegan(number)
    }
  }

  /// To be called when the last open for writing is closed and the row is up to date.
  package func noteWriteEnded(_ number: InodeNumber) throws(Errno) {
    try change { try $0.noteWriteEnded(number) }
  }

  /// All bytes of the generation are in its content file, durably, which takes `blocks` of the
  /// disk, where that is known: remote becomes local. False if the inode has another generation by
  /// now, and then nothing is done.
  package func markContentLocal(
    _ number: InodeNumber, generation: UInt64, blocks: UInt64? = nil
  ) throws(Errno) -> Bool {
    try change { try $0.markContentLocal(number, generation: generation, blocks: blocks) }
  }

  /// Local becomes remote, durably, under a new generation; gives the content file to unlink.
  ///
  /// EBUSY while it is open, pinned, dirty, edited or not uploaded; EPERM in `.nosync`; EINVAL for
  /// what is no file. Of a placeholder it gives the file of what was downloaded so far.
  /// `isOpen` is called under the catalog's lock.
  package func evict(_ number: InodeNumber, isOpen: (InodeNumber) -> Bool) throws(Errno)
    -> ContentKey
  {
    let key = try change { try $0.evict(number, isOpen: isOpen) }
    try commit(durable: true)
    return key
  }

  /// Whether a file that syncs has a hard link that does not, so that it cannot be evicted.
  package func hasExcludedName(_ number: InodeNumber) throws(Errno) -> Bool {
    try run { try $0.hasExcludedName(try $0.inode(number)) }
  }

  /// `evict` of many at once, durable together; what cannot be evicted is passed over.
  package func evict(_ numbers: [InodeNumber], isOpen: (InodeNumber) -> Bool) throws(Errno)
    -> [(number: InodeNumber, obsolete: ContentKey)]
  {
    var result: [(number: InodeNumber, obsolete: ContentKey)] = []
    for number in numbers {
      guard let key = try? change({ try $0.evict(number, isOpen: isOpen) }) else { continue }
      result.append((number, key))
    }
    if !result.isEmpty { try commit(durable: true) }
    return result
  }

  /// After an unclean end: what was open for writing, and what is edited, gets its size from its
  /// content file, 0 where there is none, and the blocks that it takes; what may have been written
  /// since its row was committed becomes edited and dirty. `probe` gives what a content file is,
  /// nil where there is none. Gives the inodes that were put right.
  package func recover(
    _ probe: (ContentKey) throws(Errno) -> FoundContent?
  ) throws(Errno) -> [InodeNumber] {
    let result = try change { try $0.recover { key in try probe(key) } }
    try commit(durable: true)
    return result
  }

  /// Of the content files that there are, those that no local content needs: what nothing names,
  /// and downloads that were not finished. To be asked when nothing is open.
  package func unneededContent(among keys: [ContentKey]) throws(Errno) -> [ContentKey] {
    try change { try $0.unneededContent(among: keys) }
  }
}
