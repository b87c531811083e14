internal import GRDB
package import Model
internal import Platform
internal import RecordFormat
package import SystemPackage

/// A snapshot takes the place of the remote tree: for a device whose log goes on later than its
/// position, and for one that is new.
///
/// Parts are staged as they come (`SnapshotStaging.swift`). Then one transaction changes the remote
/// tree, the places of chunks, the removed items and the position. The local tree and the base stay
/// as they are, so the planner sees the changes of other devices and those that this device has not
/// uploaded yet.
extension Engine {
  /// EINVAL unless the snapshot comes after what was folded; EBADMSG, with nothing done, for one
  /// that is no tree; EIO as `requireAllStaged`.
  func install(
    _ mark: SnapshotMark, hash: [UInt8], members: UInt64, from device: Model.DeviceID,
    _ recovery: LogRecovery?, known: [LogPosition]
  ) throws {
    guard mark.sequence > (try position()).sequence else { throw Errno.invalidArgument }
    try requireAllStaged()
    try checkStagedTree()
    if try !stagesInPlace() {
      try replaceRecords()
      try write { db in try db.execute(Self.replaceEqualRecords) }
      try replaceTree()
    }
    try replaceRest()
    try settleSending()
    try finishInstall(mark, hash: hash, members: members, from: device)
    for position in known where position.sequence < mark.sequence { try noteFolded(position) }
    if let recovery { try setRecovery(recovery) }
  }

  /// The tree and the chunks, but for the records that were there before.
  func replaceTree() throws {
    try write { db in for statement in Self.treeReplacements { try db.execute(statement) } }
  }

  /// Replaces the rest: everything but the tree and the chunks.
  func replaceRest() throws {
    let time = now
    try write { db in
      for statement in Self.restReplacements { try db.execute(statement) }
      try Query("UPDATE removed SET time = ?1 WHERE \(TimeOrder.precedes("?1", "time"))").run(
        db, time.nanoseconds)
      // What was condemned before is so since it was first known here.
      try Query(
        """
        INSERT OR REPLACE INTO pack (id, bytes, state, condemned, since) \
        SELECT s.id, s.bytes, s.state, s.condemned, \
        CASE WHEN p.state = s.state THEN p.since ELSE ? END \
        FROM staged_pack s LEFT JOIN pack p ON p.id = s.id
        """
      ).run(db, time.nanoseconds)
      try db.execute("DELETE FROM pack WHERE id NOT IN (SELECT id FROM staged_pack)")
      try db.execute("DELETE FROM snapshot")
      try queries.metaSet.run(db, "log.weight", Int64(0))
    }
  }

  func finishInstall(
    _ mark: SnapshotMark, hash: [UInt8], members: UInt64, from device: Model.DeviceID
  ) throws {
    try setUsage(stagedUsage)
    try noteSnapshot(mark, from: device)
    let position = LogPosition(sequence: mark.sequence, hash: hash, members: members)
    try setPosition(position)
    try write { db in try db.execute("DELETE FROM folded") }
    try noteFolded(position)
    try keepStagedInPlace()
    try dropStaged()
    tracking?.giveUp()
  }

  private static let replaceEqualRecords = """
    UPDATE remote SET applied = record, same = 0, \
    record = (SELECT s.record FROM staged_item s WHERE s.item = remote.item) \
    WHERE same = 1 AND record IS NOT \
    (SELECT s.record FROM staged_item s WHERE s.item = remote.item)
    """

  private static let treeReplacements = [
    """
    INSERT INTO remote (item, record, applied, same) SELECT s.item, s.record, NULL, 0 \
    FROM staged_item s WHERE NOT EXISTS (SELECT 1 FROM remote r WHERE r.item = s.item) \
    ORDER BY s.item
    """,
    "DELETE FROM remote_link",
    """
    INSERT INTO remote_link (parent, name, item) \
    SELECT parent, name, item FROM staged_link ORDER BY parent, name
    """,
    "DELETE FROM conflicted",
    "INSERT INTO conflicted (item) SELECT item FROM staged_item WHERE conflicted = 1",
    "DELETE FROM chunk",
    """
    INSERT INTO chunk (id, pack, offset, stored, length) \
    SELECT id, pack, offset, stored, length FROM staged_chunk ORDER BY id
    """,
  ]

  private static let restReplacements = [
    "DELETE FROM removed",
    """
    INSERT INTO removed (item, record, time, device) \
    SELECT item, record, time, device FROM staged_removed ORDER BY item
    """,
  ]

  /// Records of this device whose answer was lost. Where the snapshot shows that they got into the
  /// log, each is the base of its item, as if its segment had been folded: so an item that was
  /// removed here since is a removal and does not come back as new.
  ///
  /// After a recovery, an item without a base is not new to the log: `isRecovery`.
  func settleSending(isRecovery: Bool = false) throws {
    let sent = try database { db in
      try queries.allSending.all(db) { (try $0.identifier(0) as ItemID, $0.bytes(1)) }
    }
    for (item, record) in sent {
      let row = try remoteRow(item) ?? RemoteRow(record: nil, applied: nil)
      // Nobody else can have made an item of this identity, so one that is new to the log came from
      // here.
      let isNew = row.applied == nil && !isRecovery
      let wasLogged = try row.record != nil || removedItem(item) != nil
      var applied = record
      if row.record != record, !(isNew && wasLogged) {
        // After a recovery its base is not what the log that is lost had.
        guard !isRecovery, let current = try decode(row.record),
          let base = try wonBase(current, row.applied)
        else { continue }
        applied = base
      }
      try setRemoteRow(item, RemoteRow(record: row.record, applied: applied), was: row)
      if try syncedInode(item) == nil, try stamp(item) == nil { setStamp(item) }
    }
  }

  /// Those of which base and remote differ already; the others are many and need no second look:
  /// what they show is in the base that they keep.
  private func replaceRecords() throws {
    let items = try database { db in
      try Query(
        """
        SELECT r.item FROM remote r LEFT JOIN staged_item s ON s.item = r.item \
        WHERE r.same = 0 AND r.record IS NOT s.record ORDER BY r.item
        """
      ).all(db) { try $0.identifier(0) as ItemID }
    }
    for item in items {
      let new = try database { db in try queries.stagedItem.first(db, item) { $0.blob(0) } }
      guard let row = try remoteRow(item) else { continue }
      let applied = try baseOfBrought(item, row, new)
      try setRemoteRow(item, RemoteRow(record: new, applied: applied), was: row)
    }
  }
}

extension ContainerCatalog {
  /// Makes what was staged the remote tree, in one transaction, durably. `known`: segments before
  /// it that its writer had read. `members`: the entry of the member log in force there.
  package func installSnapshot(
    _ mark: SnapshotMark, hash: [UInt8], members: UInt64 = 0, from device: Model.DeviceID,
    recovery: LogRecovery? = nil, known: [LogPosition] = []
  ) throws(Errno) {
    try installDurably {
      try $0.install(mark, hash: hash, members: members, from: device, recovery, known: known)
    }
  }

  /// Makes changes past memory durable. EIO when their transaction is lost before it is committed:
  /// on a full disk another commit may fail in between, and hear of it alone.
  func installDurably(_ body: (Engine) throws -> Void) throws(Errno) {
    let known = try changeLazily { engine in
      try body(engine)
      return engine.losses
    }
    try commitDurably(ifNoneLostSince: known)
  }

  func commitDurably(ifNoneLostSince known: UInt64) throws(Errno) {
    try commit(durable: true)
    guard try losses() == known else { throw .ioError }
  }

  /// Where very many rows change, pages of indices that do not stay in memory are written and read
  /// over and over. To be set back when that has ended, however it ended; a large flush does it
  /// too.
  package func useLargeCache(_ isLarge: Bool) {
    // It costs time or memory, and nothing else.
    try? run { engine in
      engine.withConnection {
        engine.connection.setLargeCache(isLarge)
      }
    }
    guard !isLarge else { return }
    giveBackMemory()
    unmapUnusedCode()
  }
}
