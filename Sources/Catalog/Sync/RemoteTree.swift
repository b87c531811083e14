internal import GRDB
internal import Model
internal import Platform
internal import RecordFormat
internal import SystemPackage

/// Nil for NULL. It needs no lock.
func decodeRecord(_ bytes: [UInt8]?) throws -> ItemRecord? {
  guard let bytes else { return nil }
  do {
    return try ItemRecord(decoding: bytes)
  } catch {
    throw CatalogDamage("a record cannot be read: \(error)")
  }
}

/// The remote tree (the log, folded) and the base (what local and remote last agreed on).
extension Engine {
  /// Encoded records; `applied` is spelled out where the row says that it is the same as `record`.
  struct RemoteRow {
    var record: [UInt8]?
    var applied: [UInt8]?
  }

  func remoteRow(_ item: ItemID) throws -> RemoteRow? {
    try read { db in
      try queries.remote.first(db, item) { row in
        let record = row.bytes(0)
        return RemoteRow(
          record: record, applied: row.integer(2) == 1 ? record : row.bytes(1))
      }
    }
  }

  func decode(_ bytes: [UInt8]?) throws -> ItemRecord? { try decodeRecord(bytes) }

  func remote(_ item: ItemID) throws -> ItemRecord? { try decode(try remoteRow(item)?.record) }

  func base(_ item: ItemID) throws -> ItemRecord? { try decode(try remoteRow(item)?.applied) }

  /// Writes both, or deletes the row when there is neither. A version that an inode shows and that
  /// neither names any more is kept beside the inode, so that its chunks can still be found.
  func setRemoteRow(_ item: ItemID, _ new: RemoteRow, was old: RemoteRow?) throws {
    tracking?.willSet(item, old?.record)
    guard new.record != nil || new.applied != nil else {
      if let old {
        try preserveShown(item, old, new)
        try write { db in try queries.deleteRemote.run(db, item) }
      }
      return
    }
    if let old, old.record != new.record || old.applied != new.applied {
      try preserveShown(item, old, new)
    }
    let isSame = new.record == new.applied
    try write { db in
      try queries.setRemote.run(
        db, item, new.record, isSame ? nil : new.applied,
        Int64(isSame ? 1 : 0))
    }
  }

  private func preserveShown(_ item: ItemID, _ old: RemoteRow, _ new: RemoteRow) throws {
    let numbers = try database { db in
      try queries.inodesOfItem.all(db, item) { $0.number(0) }
    }
    for number in numbers {
      guard let version = try inode(number).version else { continue }
      func found(_ bytes: [UInt8]?) throws -> ContentVersion? {
        try decode(bytes)?.version(version)
      }
      let left = try [new.applied, new.record].compactMap { try found($0) }
      if left.contains(where: { $0.manifest != nil }) { continue }
      let isNamed = !left.isEmpty
      for case let candidate? in [old.applied, old.record] {
        guard let content = try found(candidate) else { continue }
        // A recovered log may name a content without its chunks that this device knows.
        guard !isNamed || content.manifest != nil else { continue }
        try write { db in try queries.setShown.run(db, number.column, candidate) }
        break
      }
    }
  }

  /// The version that an inode shows, wherever it is still named, with its chunks where they are
  /// known; nil for an edited content.
  func shownContent(_ inode: Inode) throws -> ContentVersion? {
    guard inode.kind == .file, let version = inode.version else { return nil }
    let row = try remoteRow(inode.item)
    let applied = try decode(row?.applied)?.version(version)
    if let applied, applied.manifest != nil { return applied }
    let record = try decode(row?.record)?.version(version)
    if let record, record.manifest != nil { return record }
    let kept = try read { db in
      try queries.shown.first(db, inode.number.column) { $0.blob(0) }
    }
    let shown = try decode(kept)?.version(version)
    return shown?.manifest != nil ? shown : applied ?? record ?? shown
  }

  // MARK: Position

  func position() throws -> LogPosition {
    try database { db in
      let sequence = try queries.metaGet.first(db, "position.sequence") { $0.unsigned(0) }
      let hash = try queries.metaGet.first(db, "position.hash") { $0.blob(0) }
      guard let sequence, let hash else { return LogPosition.start }
      let members = try queries.metaGet.first(db, "position.members") { $0.unsigned(0) }
      return LogPosition(sequence: sequence, hash: hash, members: members ?? 0)
    }
  }

  func setPosition(_ position: LogPosition) throws {
    try write { db in
      try queries.metaSet.run(db, "position.sequence", position.sequence.column)
      try queries.metaSet.run(db, "position.hash", position.hash)
      try queries.metaSet.run(db, "position.members", position.members.column)
      // Whatever was on the way to this place in the log is now known to be there or not to be.
      try queries.clearSending.run(db)
    }
  }

  // MARK: Folding

  /// Folds one segment. EINVAL unless it is the next after what was folded; EBADMSG, with nothing
  /// done, for one after which the tree would be none. `isOwn`: this device put it, and has not
  /// heard so.
  func fold(
    _ changes: LogChanges, to position: LogPosition, from origin: LogOrigin?, isOwn: Bool = false
  ) throws {
    let present = try self.position()
    // A gap is what a lost transaction leaves: the next round reads the log from where it is.
    guard position.sequence == present.sequence + 1 else { throw Errno.invalidArgument }
    if present == .start, try stagesInPlace() { try dropStaged() }
    let upserts = changes.upserts
    var seen: Set<ItemID> = []
    for id in upserts.map(\.id) + changes.removals {
      guard seen.insert(id).inserted else { throw Errno.badMessage }
    }
    guard !changes.removals.contains(.root) else { throw Errno.badMessage }
    let usage = try knownUsage()

    // All old links go before any new one comes, so that names can be swapped in one segment.
    var rows: [ItemID: RemoteRow] = [:]
    var olds: [ItemID: ItemRecord] = [:]
    for id in upserts.map(\.id) + changes.removals {
      guard let row = try remoteRow(id) else { continue }
      rows[id] = row
      guard let old = try decode(row.record) else { continue }
      olds[id] = old
      try write { db in
        for link in old.links {
          try queries.deleteRemoteLink.run(db, link.parent, link.name)
        }
      }
    }
    for record in upserts {
      try check(record, knownAs: olds[record.id]?.kind)
      var row = RemoteRow(record: record.encoded(), applied: rows[record.id]?.applied)
      if try wasSent(record.id, as: row.record) {
        row.applied = row.record
      } else if let base = try wonBase(record, row.applied) {
        row.applied = base
      } else {
        row.applied = try baseOfBrought(record.id, rows[record.id], row.record)
      }
      try setRemoteRow(record.id, row, was: rows[record.id])
      try setConflicted(record.id, !record.conflicts.isEmpty)
      do {
        try write { db in
          for link in record.links {
            try queries.insertRemoteLink.run(
              db, link.parent, link.name, record.id)
          }
        }
      } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
        // The name is another item's.
        throw Errno.badMessage
      }
    }
    for id in changes.removals
    where changes.upserts.isEmpty || !PlantedMistake.foldsHalf.isPlanted {
      // A removal from here is settled: the item is news if another device restores it.
      let isSettled = try isOwn && isSettledRemoval(of: id)
      let applied = isSettled ? nil : try baseOfBrought(id, rows[id], nil)
      try setRemoteRow(id, RemoteRow(record: nil, applied: applied), was: rows[id])
      try setConflicted(id, false)
    }
    if let usage {
      try setUsage(
        usage &- olds.values.reduce(0) { $0 &+ $1.allottedBytes }
          &+ upserts.reduce(0) { $0 &+ $1.allottedBytes })
    }
    try keepRemoved(changes, olds, from: origin)
    try dropSuppliedConflicts(upserts)
    try dropSuppliedVersions(upserts)
    try checkTree(changes)
    try foldPacks(changes, at: position)
    try noteLog(changes, from: origin)
    try setPosition(position)
    try noteFolded(position)
  }

  /// These records, of items that were here when the segment was planned, are about to be put into
  /// the log. Whether they got there is not known before the next fold: a device that is stopped
  /// meanwhile, or whose answer is lost, must still know of one that goes until then that others
  /// may have heard of it, and as what.
  func noteSending(_ records: [ItemRecord]) throws {
    for record in records {
      try write { db in try queries.setSending.run(db, record.id, record.encoded()) }
      // It went between the plan and now.
      if try syncedInode(record.id) == nil, try stamp(record.id) == nil { setStamp(record.id) }
    }
  }

  /// Whether an item that this device removed is gone here, or is here by what was done since.
  private func isSettledRemoval(of item: ItemID) throws -> Bool {
    guard try syncedInode(item) == nil else { return try stamp(item) != nil }
    if try stamp(item) != nil { try clearStamp(item) }
    return true
  }

  /// Whether this very record was on its way from here. Then what the log has of the item is no
  /// news, and what has become of the item since, a removal or a new name, is a change of it.
  private func wasSent(_ item: ItemID, as record: [UInt8]?) throws -> Bool {
    guard try read({ db in try queries.sending.first(db, item) { $0.bytes(0) } }) == record,
      record != nil
    else { return false }
    if try syncedInode(item) == nil, try stamp(item) == nil { setStamp(item) }
    return true
  }

  /// The base of an item whose content was on its way from here and won a conflict: the log has
  /// that content now, or one that was made of it, so a later content or a removal is news of it.
  /// The loser and the other facets are not known here yet. Nil for any other item.
  func wonBase(_ record: ItemRecord, _ applied: [UInt8]?) throws -> [UInt8]? {
    let bytes = try read { db in try queries.sending.first(db, record.id) { $0.bytes(0) } }
    guard let sent = try decode(bytes ?? nil)?.content,
      sent == record.content || sent.id == record.content?.parent,
      let base = try decode(applied), base.content?.id != sent.id
    else { return nil }
    return base.with(content: sent).encoded()
  }

  /// The base of an item whose record in the log becomes `new`.
  ///
  /// A plan for a package's conflict brings items here and leaves their base alone, until the log
  /// has the other version. If the log goes back to that base before, nothing would tell that such
  /// an item differs: so the record that was brought becomes its base. An item that was changed
  /// here is dirty.
  func baseOfBrought(_ item: ItemID, _ old: RemoteRow?, _ new: [UInt8]?) throws -> [UInt8]? {
    guard let old, old.applied == new, old.record != new, try stamp(item) == nil,
      let local = try local(item), !local.isEdited, var there = try decode(old.record),
      local.record.content?.id == there.content?.id
    else { return old?.applied }
    var here = local.record
    here.content = nil
    here.conflicts = []
    there.content = nil
    there.conflicts = []
    return here == there ? old.record : old.applied
  }

  private func setConflicted(_ item: ItemID, _ isConflicted: Bool) throws {
    try write { db in
      if isConflicted {
        try queries.setConflicted.run(db, item)
      } else {
        try queries.clearConflicted.run(db, item)
      }
    }
  }

  func check(_ record: ItemRecord, knownAs kind: ItemKind?) throws {
    guard record.kind.isSynced, kind == nil || kind == record.kind else { throw Errno.badMessage }
    if record.id == .root {
      guard record.kind == .directory, record.links.isEmpty else { throw Errno.badMessage }
    } else if record.kind == .directory {
      guard record.links.count == 1 else { throw Errno.badMessage }
    } else {
      guard !record.links.isEmpty else { throw Errno.badMessage }
    }
  }

  /// What a segment changed still makes a tree: parents are directories, what was removed holds
  /// nothing, no directory is below itself. The root is there even before a record says so.
  private func checkTree(_ changes: LogChanges) throws {
    var checked: Set<ItemID> = []
    var directories: Set<ItemID> = []
    for record in changes.upserts {
      for link in record.links {
        if record.kind != .directory, directories.contains(link.parent) { continue }
        var current = link.parent
        var passed: Set<ItemID> = [record.id]
        while current != .root, !checked.contains(current) {
          guard record.kind != .directory || passed.insert(current).inserted else {
            throw Errno.badMessage
          }
          guard let parent = try remote(current), parent.kind == .directory,
            let above = parent.links.first?.parent
          else { throw Errno.badMessage }
          // Files end no cycle: what is above their directory is its own record's concern.
          guard record.kind == .directory else {
            directories.insert(current)
            break
          }
          current = above
        }
        if record.kind == .directory { checked.formUnion(passed) }
      }
    }
    for id in changes.removals {
      let isUsed = try database { db in
        try queries.anyRemoteChild.first(db, id) { _ in true } ?? false
      }
      guard !isUsed else { throw Errno.badMessage }
    }
  }

  // MARK: Base

  /// Base := remote.
  func agree(_ item: ItemID) throws {
    guard let row = try remoteRow(item), row.applied != row.record else { return }
    try setRemoteRow(item, RemoteRow(record: row.record, applied: row.record), was: row)
  }

  /// Base := remote, with the content of the base: an edit here was made of that.
  func agreeButContent(_ item: ItemID) throws {
    guard let row = try remoteRow(item), let record = try decode(row.record) else { return }
    // The log may have the content that was edited here as what lost a conflict.
    let base = record.with(content: try decode(row.applied)?.content)
    try setRemoteRow(item, RemoteRow(record: row.record, applied: base.encoded()), was: row)
  }

  func forgetBase(_ item: ItemID) throws {
    if let row = try remoteRow(item), row.applied != nil {
      try setRemoteRow(item, RemoteRow(record: row.record, applied: nil), was: row)
    }
    if try stamp(item) != nil { try clearStamp(item) }
  }

  /// Our own segment is in the log.
  func committed(
    _ changes: LogChanges, to position: LogPosition, stamps: [ItemID: UInt64],
    versions: [ItemID: UploadedContent], undecided: Set<ItemID>,
    keepingParentOf edits: Set<ItemID>, origin: LogOrigin?
  ) throws {
    let isAhead = try self.position() != position
    if !changes.isEmpty || isAhead {
      try fold(changes, to: position, from: origin)
    }
    if !changes.chunks.isEmpty {
      try write { db in
        for chunk in changes.chunks { try queries.deleteSent.run(db, chunk.chunk.id.bytes) }
      }
    }
    for record in changes.upserts {
      if !undecided.contains(record.id) {
        try agree(record.id)
      } else if edits.contains(record.id) {
        try agreeButContent(record.id)
      }
    }
    for id in changes.removals { try agree(id) }
    var stillEdited: Set<ItemID> = []
    for (item, content) in versions {
      if try !adoptVersion(item, content) { stillEdited.insert(item) }
      try dropKeptVersion(of: item)
    }
    for (item, expected) in stamps {
      let stamp = try stamp(item)
      // What was changed since it was read stays marked, or it would never go up.
      if stamp == expected, !stillEdited.contains(item), try isSupplied(item) {
        try clearStamp(item)
      } else if stamp == nil, try remoteRow(item) != nil {
        // It went, or left the synced tree, while its first record was on the way.
        setStamp(item)
      }
    }
    // So may have gone what was only announced, and is not settled by its record. Without a mark
    // nobody would ever know that it is to go elsewhere too.
    for record in changes.upserts
    where try stamp(record.id) == nil && syncedInode(record.id) == nil {
      setStamp(record.id)
    }
  }

  /// False for a content that was changed since it was read.
  private func adoptVersion(_ item: ItemID, _ content: UploadedContent) throws -> Bool {
    guard let number = try inodeNumber(of: item) else { return true }
    var inode = try inode(number)
    guard inode.kind == .file, !inode.isExcluded, inode.version == nil else { return true }
    guard inode.generation == content.generation, inode.size == content.size,
      inode.modified == content.modified, inode.changed == content.changed
    else { return false }
    inode.version = content.version
    try store(inode)
    return true
  }
}
