internal import GRDB
package import Model
internal import RecordFormat
package import SystemPackage

/// How the log that a recovery published stands to what this device has read.
enum RecoveredLog {
  /// It comes after everything that this device has read: what it lacks was removed.
  case later
  /// This device has read all of it and more: what is here is newer.
  case earlier
  /// Each has what the other has not read.
  case apart
}

/// A recovery takes the place of the remote tree after the store went back to an earlier state.
///
/// **Invariant: nothing that is local here is given up for what the recovered log lacks.** An item
/// that it lacks is new here. A content that it lacks, or names without chunks, and that is local
/// here is uploaded again, as the version that it was: of two devices that have it the first one
/// supplies it for both.
extension Engine {
  func recovery() throws -> LogRecovery? {
    let bytes = try database { db in
      try queries.metaGet.first(db, "recovery") { $0.blob(0) }
    }
    return try bytes.map { try LogRecovery(decoding: $0) }
  }

  func setRecovery(_ recovery: LogRecovery?) throws {
    try write { db in
      if let recovery {
        try queries.metaSet.run(db, "recovery", recovery.encoded())
      } else {
        try queries.metaDelete.run(db, "recovery")
      }
    }
  }

  // MARK: Segments that were read

  func noteFolded(_ position: LogPosition) throws {
    try write { db in
      try queries.setFolded.run(db, position.sequence.column, position.hash)
      if position.sequence % 64 == 0 {
        let oldest = position.sequence - min(position.sequence, UInt64(LogRecovery.mostKnown))
        try queries.dropFolded.run(db, oldest.column)
      }
    }
  }

  /// Ascending; the last one is the position.
  func foldedPositions() throws -> [LogPosition] {
    let position = try position()
    guard position.sequence > 0 else { return [] }
    let known = try database { db in
      try queries.allFolded.all(db) { LogPosition(sequence: $0.unsigned(0), hash: $0.blob(1)) }
    }
    let before = known.filter { $0.sequence < position.sequence }
    return Array(before.suffix(LogRecovery.mostKnown - 1)) + [position]
  }

  // MARK: Installing

  func installRecovered(
    _ mark: SnapshotMark, hash: [UInt8], members: UInt64, from device: Model.DeviceID,
    _ recovery: LogRecovery, packs: Set<PackID>
  ) throws {
    guard try !stagesInPlace() else { throw Errno.invalidArgument }
    try requireAllStaged()
    try checkStagedTree()
    let own = try foldedPositions()
    let log: RecoveredLog =
      if mark.sequence != recovery.sequence {
        // Nobody knows which of it the recovery published and which came later.
        .apart
      } else if let last = own.last, recovery.known.contains(last) {
        .later
      } else if let head = recovery.known.last, own.contains(head) {
        .earlier
      } else {
        .apart
      }
    try keepOwnChunks(packs)
    let lost = try keepConflicts(packs, beside: log, disputed: Set(recovery.disputed))
    let disputed = try itemsBelow(lost.union(recovery.disputed))
    let revived = try replaceRows(log, disputed)
    try replaceTree()
    try replaceRest()
    try settleSending(isRecovery: true)
    try write { db in try db.execute("DELETE FROM upload") }
    try keepContents(log, disputed, revived)
    try finishInstall(mark, hash: hash, members: members, from: device)
    try setRecovery(recovery)
  }

  /// Chunks that only this device knows of, in packs that are still there, are told of again with
  /// the next segment.
  private func keepOwnChunks(_ packs: Set<PackID>) throws {
    let known = try database { db in
      try Query("SELECT id FROM pack WHERE state = 0 ORDER BY id").all(db) {
        try $0.identifier(0) as PackID
      }
    }
    let sent = try database { db in
      try Query("SELECT DISTINCT pack FROM sent").all(db) { try $0.identifier(0) as PackID }
    }
    let time = now.nanoseconds
    try write { db in
      for pack in sent where !packs.contains(pack) {
        try Query("DELETE FROM sent WHERE pack = ?").run(db, pack)
      }
      for pack in known where packs.contains(pack) {
        try Query(
          """
          INSERT OR REPLACE INTO sent (id, pack, offset, stored, length, time) \
          SELECT c.id, c.pack, c.offset, c.stored, c.length, ? FROM chunk c WHERE c.pack = ? \
          AND NOT EXISTS (SELECT 1 FROM staged_chunk s WHERE s.id = c.id)
          """
        ).run(db, time, pack)
      }
    }
  }

  /// The items below directories, as the log had them before the recovery.
  private func itemsBelow(_ directories: Set<ItemID>) throws -> Set<ItemID> {
    var result: Set<ItemID> = []
    var pending = Array(directories)
    while let next = pending.popLast() {
      let children = try database { db in
        try queries.remoteChildren.all(db, next) { try $0.identifier(0) as ItemID }
      }
      for child in children where result.insert(child).inserted { pending.append(child) }
    }
    return result
  }

  /// `disputed`: the items of packages whose conflict version is lost. For them the log is always
  /// `.apart`: they get no base, so the planner finds the conflict again and keeps both contents.
  ///
  /// Returns the items that were removed and that nobody could bring back, and of which the content
  /// is local here: they are new.
  private func replaceRows(_ log: RecoveredLog, _ disputed: Set<ItemID>) throws -> Set<ItemID> {
    var revived: Set<ItemID> = []
    let items = try database { db in
      try Query(
        """
        SELECT r.item FROM remote r LEFT JOIN staged_item s ON s.item = r.item \
        WHERE r.same = 0 OR r.record IS NOT s.record ORDER BY r.item
        """
      ).all(db) { try $0.identifier(0) as ItemID }
    }
    for item in items {
      let new = try database { db in try queries.stagedItem.first(db, item) { $0.blob(0) } }
      guard let row = try remoteRow(item) else { continue }
      let inode = try syncedInode(item)
      let log = disputed.contains(item) ? .apart : log
      var applied = row.applied
      // An item that was removed here and not told yet stays removed.
      if inode != nil || new == nil {
        switch log {
        case .later: applied = try withoutLostContent(applied, new)
        case .earlier where try isAnotherLine(row.applied, new): applied = nil
        case .earlier:
          applied = row.applied == row.record ? new : try withContent(of: row.applied, in: new)
        case .apart: if applied != new { applied = nil }
        }
      }
      if new == nil, log != .later { applied = nil }
      if new == nil, log == .later, let inode, inode.content == .local, inode.size > 0,
        inode.version != nil, try !isStagedAsRemoved(item)
      {
        applied = nil
        revived.insert(item)
      }
      if let inode { try keepParent(of: inode, was: row.applied, is: applied) }
      try setRemoteRow(item, RemoteRow(record: new, applied: applied), was: row)
      // Nothing else would tell that it differs.
      if let inode, log != .later || revived.contains(item) { mark(inode) }
    }
    return revived
  }

  private func isStagedAsRemoved(_ item: ItemID) throws -> Bool {
    try database { db in
      try queries.isStagedAsRemoved.first(db, item) { _ in true } ?? false
    }
  }

  /// The record that this device has applied, if the log has its content by name only, also as a
  /// conflict version, or if the log lacks it and has the current one by name only. The local bytes
  /// are news then. Another device may supply an older content and remove it, or remove the one
  /// that nobody can read; that removal does not concern the local bytes.
  private func withoutLostContent(_ applied: [UInt8]?, _ new: [UInt8]?) throws -> [UInt8]? {
    guard let new = try decode(new), var record = try decode(applied),
      let content = record.content, content.manifest != nil,
      let named = new.version(content.id) ?? new.content, named.manifest == nil
    else { return applied }
    record.content = content.withoutManifest
    return record.encoded()
  }

  /// Whether the content that this device has applied may not have been made of the recovered one,
  /// although this device had read that.
  ///
  /// One that lost a conflict to the applied content did not become it. A content by name only
  /// gives way in the log to an edit that does not know it, since its writer keeps its bytes.
  /// Contents of one writer are of one line.
  private func isAnotherLine(_ applied: [UInt8]?, _ new: [UInt8]?) throws -> Bool {
    guard let other = try decode(new)?.content, let applied = try decode(applied) else {
      return false
    }
    if applied.conflicts.contains(where: { $0.id == other.id }) { return true }
    guard let own = applied.content else { return false }
    return other.manifest == nil && other.id != own.id && other.id != own.parent
      && other.device != own.device
  }

  /// The recovered record, with the content that this device has applied. A local edit that
  /// predates the newer content was not made of that one. Of a content that the recovered log does
  /// not have it has the name only: a removal in that log does not concern the local bytes.
  private func withContent(of applied: [UInt8]?, in new: [UInt8]?) throws -> [UInt8]? {
    guard let applied = try decode(applied), let record = try decode(new) else { return nil }
    let isSame = record.content?.id == applied.content?.id
    return record.with(content: isSame ? record.content : applied.content?.withoutManifest)
      .encoded()
  }

  private func keepContents(
    _ log: RecoveredLog, _ disputed: Set<ItemID>, _ revived: Set<ItemID>
  ) throws {
    // An earlier recovery may have left some.
    try dropSuppliedVersions(keptVersions().compactMap { try remote($0) })
    let numbers = try database { db in
      try Query(
        "SELECT ino FROM inode WHERE kind = 1 AND version IS NOT NULL AND detached = 0 ORDER BY ino"
      ).all(db) { $0.number(0) }
    }
    for number in numbers {
      let found = try self.inode(number)
      guard let version = found.version, var inode = try syncedInode(found.item),
        inode.number == number
      else { continue }
      let log = disputed.contains(inode.item) ? .apart : log
      let record = try remote(inode.item)
      // Removed by what this device had not read yet.
      if record == nil, log == .later, !revived.contains(inode.item) { continue }
      let current = record?.content
      // The log may have it as a conflict version by name only, which this device can supply.
      let isAwaited =
        record?.conflicts.contains { $0.id == version && $0.manifest == nil } ?? false
      if let current, current.manifest != nil, current.id == version || log == .later, !isAwaited {
        continue
      }
      if inode.content == .local {
        try keepVersion(version, of: inode)
        inode.version = nil
        try store(inode)
        mark(inode)
        continue
      }
      // The recovered log may have it by name only: its chunks were told of on a line that is lost,
      // or stood elsewhere than on the one that the store went back to.
      guard current?.id == version ? current?.manifest == nil : log != .later || isAwaited else {
        continue
      }
      let manifest = try shownContent(inode)?.manifest
      if let manifest, try isReadable(manifest) {
        // Another device may bring an item that the log lacks with another content.
        try keepVersion(version, of: inode)
        mark(inode)
      } else if record == nil {
        try announceOnly(inode, version)
        mark(inode)
      }
    }
  }

  /// No device could read it by what is known here: the log is to have it by name only, until a
  /// device that has it supplies it.
  private func announceOnly(_ inode: Inode, _ version: VersionID) throws {
    let kept = try read { db in
      try queries.shown.first(db, inode.number.column) { $0.blob(0) }
    }
    guard var record = try decode(kept) else { return }
    record.content = record.version(version)?.withoutManifest
    record.conflicts = []
    try write { db in try queries.setShown.run(db, inode.number.column, record.encoded()) }
  }

  private func isReadable(_ manifest: Manifest) throws -> Bool {
    try manifest.chunks.allSatisfy { chunk in
      if let place = try self.chunk(chunk.id),
        try packRow(place.pack)?.record.state ?? .inUse == .inUse
      {
        return true
      }
      return try database { db in
        try queries.isSent.first(db, chunk.id.bytes) { _ in true } ?? false
      }
    }
  }

  // MARK: Versions that are supplied again

  private func keepVersion(_ version: VersionID, of inode: Inode) throws {
    let parent = try shownContent(inode)?.parent
    try write { db in
      try queries.setKeptVersion.run(
        db, inode.item, version, inode.generation.column, inode.size.column,
        inode.modified.nanoseconds, inode.changed.nanoseconds, parent?.bytes)
    }
  }

  /// An edit that the log has not heard of yet loses its base to a recovery, and stays the
  /// successor of the content that it was made of. A version that an earlier recovery left for it
  /// is newer than its base.
  private func keepParent(of inode: Inode, was old: [UInt8]?, is new: [UInt8]?) throws {
    guard inode.kind == .file, inode.content == .local, inode.version == nil,
      let content = try decode(old)?.content, try decode(new)?.content?.id != content.id,
      try keptVersion(of: inode.item) == nil
    else { return }
    // No file was last changed in 1970: the local content never counts as this very version.
    try write { db in
      try queries.setKeptVersion.run(
        db, inode.item, content.id, UInt64(0).column, UInt64(0).column, Int64(0), Int64(0),
        content.parent?.bytes)
    }
  }

  func keptVersion(of item: ItemID) throws -> KeptVersion? {
    try database { db in
      try queries.keptVersion.first(db, item) { row in
        KeptVersion(
          content: UploadedContent(
            version: try row.identifier(0), generation: row.unsigned(1), size: row.unsigned(2),
            modified: row.time(3), changed: row.time(4)),
          parent: row.bytes(5) == nil ? nil : try row.identifier(5))
      }
    }
  }

  /// Whether a placeholder is to be supplied as a version that the log does not have.
  func keepsVersion(_ inode: Inode, beside remote: ItemRecord?) throws -> Bool {
    guard inode.kind == .file, inode.content == .remote, let version = inode.version,
      remote?.content?.id != version || remote?.content?.manifest == nil
    else { return false }
    return try keptVersion(of: inode.item)?.content.version == version
  }

  /// After these records were folded: another device supplied the version that a placeholder shows.
  /// The placeholder is no edit any more when a newer content replaces that version.
  func dropSuppliedVersions(_ records: [ItemRecord]) throws {
    let kept = Set(try keptVersions())
    guard !kept.isEmpty else { return }
    for record in records where kept.contains(record.id) {
      guard let content = record.content, content.manifest != nil,
        let inode = try syncedInode(record.id), inode.content == .remote,
        inode.version == content.id
      else { continue }
      try dropKeptVersion(of: record.id)
    }
  }

  private func keptVersions() throws -> [ItemID] {
    try database { db in try queries.keptVersions.all(db) { try $0.identifier(0) } }
  }

  func dropKeptVersion(of item: ItemID) throws {
    try write { db in try queries.dropKeptVersion.run(db, item) }
  }
}

/// A content that is local here as it was before a recovery, and is to be supplied as that version.
/// An edit of it is its successor.
package struct KeptVersion: Sendable {
  package let content: UploadedContent
  /// The version that it was made of.
  package let parent: VersionID?
}

/// A version of a file that the log has by name only.
package struct PendingContent: Sendable {
  package let item: ItemID
  package let isConflictVersion: Bool
}

extension ContentVersion {
  /// By name only: no chunks of it are in the store.
  package var withoutManifest: ContentVersion {
    ContentVersion(
      id: id, parent: parent, device: device, modified: modified, size: size, manifest: nil,
      isResolved: isResolved)
  }
}

extension ContainerCatalog {
  /// The last recovery that the log stands on.
  package func recovery() throws(Errno) -> LogRecovery? { try run { try $0.recovery() } }

  /// The segments that this device has read last, ascending up to its position.
  package func foldedPositions() throws(Errno) -> [LogPosition] {
    try run { try $0.foldedPositions() }
  }

  /// The version that a content here was before a recovery, and is to be supplied as.
  package func keptVersion(of item: ItemID) throws(Errno) -> KeptVersion? {
    try optional { try $0.keptVersion(of: item) }
  }

  /// Makes what was staged the remote tree after a recovery, in one transaction, durably. `packs`
  /// are those that the store has. EBADMSG, with nothing done, for what is no tree.
  package func installRecovered(
    _ mark: SnapshotMark, hash: [UInt8], members: UInt64 = 0, from device: Model.DeviceID,
    _ recovery: LogRecovery, packs: Set<PackID>
  ) throws(Errno) {
    try installDurably {
      try $0.installRecovered(
        mark, hash: hash, members: members, from: device, recovery, packs: packs)
    }
  }

  /// Files of which the log has a version by name only, since no device has supplied its content.
  package func pendingContents() throws(Errno) -> [PendingContent] {
    var result: [PendingContent] = []
    var after: ItemID?
    while true {
      let start = after
      let page = try run { try $0.remotePage(after: start) }
      // Requests do not wait for the decoding.
      for (item, bytes) in page.rows {
        guard let record = try? ItemRecord(decoding: bytes) else { throw .ioError }
        if let content = record.content, content.manifest == nil {
          result.append(PendingContent(item: item, isConflictVersion: false))
        }
        if record.kind == .file, record.conflicts.contains(where: { $0.manifest == nil }) {
          result.append(PendingContent(item: item, isConflictVersion: true))
        }
      }
      guard !page.isLast else { return result }
      after = page.rows.last?.0
    }
  }
}
