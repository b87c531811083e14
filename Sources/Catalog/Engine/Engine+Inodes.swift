internal import Model
internal import SystemPackage

/// Inodes, as memory and the database have them together.
extension Engine {
  /// What memory knows of an inode; `.deleted` where that is what it knows.
  func change(_ number: InodeNumber) -> Overlay.InodeChange? {
    pending.inodes[number] ?? flushing?.overlay.inodes[number]
  }

  /// ENOENT when there is none.
  func inode(_ number: InodeNumber) throws -> Inode {
    if let change = change(number) {
      guard let inode = change.inode else { throw Errno.noSuchFileOrDirectory }
      return inode
    }
    if let known = inodes.value(number) { return known }
    let row = try read { db in try queries.inode.first(db, number.column) { try Inode($0) } }
    guard let row else { throw Errno.noSuchFileOrDirectory }
    inodes.insert(number, row)
    return row
  }

  /// The directory; ENOENT, ENOTDIR, and ENOENT for one that was removed, where nothing can be
  /// made.
  func directory(_ number: InodeNumber) throws -> Inode {
    let inode = try inode(number)
    guard inode.kind == .directory else { throw Errno.notDirectory }
    guard !inode.isOrphan else { throw Errno.noSuchFileOrDirectory }
    return inode
  }

  /// Notes an inode's new state.
  func store(_ inode: Inode) throws {
    let before = try self.inode(inode.number)
    count(before, inode)
    let slot = pending.inodes[inode.number]
    note(.inode(inode.number, slot: slot, was: before))
    var isNew = false
    if case .stored(_, let wasNew) = slot { isNew = wasNew }
    if inode.isExcluded { hasExclusions = true }
    pending.inodes[inode.number] = .stored(inode, isNew: isNew)
  }

  /// Gives a new inode its number. Its row is the caller's to write, unless `insert` is used.
  func numbered(_ inode: Inode) -> Inode {
    var made = inode
    made.number = InodeNumber(nextInode)
    nextInode += 1
    count(nil, made)
    if made.isExcluded { hasExclusions = true }
    return made
  }

  /// Notes a new inode, with its number.
  func insert(_ inode: Inode) throws -> Inode {
    let made = numbered(inode)
    note(.inode(made.number, slot: nil, was: nil))
    pending.inodes[made.number] = .stored(made, isNew: true)
    return made
  }

  /// Deletes an inode and what hangs on it; its entries must be gone.
  func delete(_ inode: Inode) throws {
    let number = inode.number
    let slot = pending.inodes[number]
    note(.inode(number, slot: slot, was: inode))
    if let began = pending.writes[number] {
      note(.write(number, slot: began))
      pending.writes[number] = nil
    }
    if case .stored(_, isNew: true) = slot {
      pending.inodes[number] = nil
    } else {
      pending.inodes[number] = .deleted(inode.kind)
    }
    count(inode, nil)
    inodes.remove(number)
    unnamed.remove(number)
  }

  func note(_ step: Undo) {
    if isInOperation { undo.append(step) }
  }

  private func count(_ before: Inode?, _ after: Inode?) {
    if let known = held {
      held = known &- (before?.heldBlocks ?? 0) &+ (after?.heldBlocks ?? 0)
    }
    guard var result = counts else { return }
    if let before { result.subtract(before) }
    if let after { result.add(after) }
    counts = result
  }

  func currentCounts() throws -> CatalogCounts {
    if let counts { return counts }
    let result = try database { db in
      try queries.counts.first(db) { row in
        CatalogCounts(
          items: row.unsigned(0), totalBytes: row.unsigned(1), localBytes: row.unsigned(2))
      }
    }
    counts = result ?? CatalogCounts()
    return result ?? CatalogCounts()
  }

  // MARK: Open for writing

  func setWriting(_ number: InodeNumber, since began: Int64?) {
    let slot = pending.writes[number]
    note(.write(number, slot: slot))
    pending.writes.updateValue(began, forKey: number)
  }
}

extension CatalogCounts {
  fileprivate mutating func add(_ inode: Inode) {
    guard !inode.isOrphan, inode.number != .root else { return }
    items &+= 1
    guard inode.kind == .file else { return }
    totalBytes &+= inode.size
    if inode.content == .local { localBytes &+= inode.size }
  }

  fileprivate mutating func subtract(_ inode: Inode) {
    guard !inode.isOrphan, inode.number != .root else { return }
    items &-= 1
    guard inode.kind == .file else { return }
    totalBytes &-= inode.size
    if inode.content == .local { localBytes &-= inode.size }
  }
}
