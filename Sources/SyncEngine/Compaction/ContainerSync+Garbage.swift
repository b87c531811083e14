internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Packs that nothing uses: condemned in the log, kept for a grace, deleted in the log, removed.
/// `docs/remote-format.md`, "Garbage", has the invariants.
extension ContainerSync {
  /// What was removed and is kept no longer on any device is forgotten; then packs of which little
  /// or nothing is live are condemned.
  func collectGarbage(of remote: RemoteContainer) async throws(CycleFailure) {
    try await forgetExpired(remote)
    let catalog = coordinator.catalog
    let live = try local { () throws(Errno) in try LiveChunks(catalog) }
    while try local({ () throws(Errno) in try live.readPage() }) {
      guard !Task.isCancelled else { throw .cancelled }
      await Task.yield()
    }
    _ = try local { () throws(Errno) in try live.catchUp() }
    var dead: [PackID] = []
    var sparse: [PackUse] = []
    var size: UInt64 = 0
    var last: PackID?
    while true {
      let after = last
      let uses = try local { () throws(Errno) in try catalog.packUses(after: after, live) }
      guard let end = uses.last else { break }
      last = end.pack
      for use in uses {
        switch settings.compaction.fate(of: use, now: catalog.now) {
        case .keep: break
        case .condemn: dead.append(use.pack)
        case .rewrite where size + use.liveBytes <= settings.compaction.repackLimit:
          size += use.liveBytes
          sparse.append(use)
        case .rewrite: break
        }
      }
      guard !Task.isCancelled else { throw .cancelled }
      await Task.yield()
    }
    dead += try await strays(of: remote)
    let moved = try await storeReadable(&sparse, remote)
    FaultPoint.reach("compact.rewritten")
    let places = Dictionary(moved.map { ($0.chunk.id, $0) }, uniquingKeysWith: { $1 })
    guard !dead.isEmpty || !moved.isEmpty else { return }
    let chosen = (dead + sparse.map(\.pack)).sorted()
    let isDone = try await append(to: remote) { () throws(CycleFailure) in
      try local { () throws(Errno) in
        // Judged anew on the very state that the segment comes after.
        _ = try live.catchUp()
        var changes = LogChanges()
        for pack in chosen {
          guard let use = try catalog.packUse(pack, live) else {
            // Of no log: nothing is in it that anybody could look for.
            if try catalog.isUnknown(pack) { changes.condemned.append(pack) }
            continue
          }
          let new = use.live.compactMap { places[$0.chunk.id] }
          guard new.count == use.live.count else { continue }
          changes.condemned.append(pack)
          changes.chunks += new
        }
        return changes.condemned.isEmpty ? LogChanges() : changes
      }
    }
    FaultPoint.reach("compact.condemned")
    if isDone {
      logger.info("condemned \(chosen.count) packs and rewrote \(size) bytes of them")
    }
  }

  /// Stores the live chunks of packs anew. A pack that cannot be read whole is left out of `packs`:
  /// it stays, and holds up no other.
  private func storeReadable(
    _ packs: inout [PackUse], _ remote: RemoteContainer
  ) async throws(CycleFailure) -> [ChunkLocation] {
    do throws(CycleFailure) {
      return try await storeAnew(packs.flatMap(\.live), remote)
    } catch .remote(.damaged), .remote(.packMissing) {}
    var readable: [PackUse] = []
    for use in packs {
      guard !Task.isCancelled else { throw .cancelled }
      do throws(CycleFailure) {
        _ = try await remotely { () throws(RemoteError) in try await remote.read(use.live) }
        readable.append(use)
      } catch .remote(.damaged), .remote(.packMissing) {
        logger.warning("cannot read all of pack \(use.pack); it stays unchanged")
      }
    }
    packs = readable
    return try await storeAnew(readable.flatMap(\.live), remote)
  }

  /// What is in the backend and in no log for so long that no upload will be gone on with. What the
  /// log deleted and is still there, since who deleted it ended before, is removed.
  private func strays(of remote: RemoteContainer) async throws(CycleFailure) -> [PackID] {
    let catalog = coordinator.catalog
    let policy = settings.compaction
    let now = catalog.now
    let last = try local { () throws(Errno) in try catalog.compactionNote("strays") }
    if let last, now.nanoseconds(since: Timestamp(nanoseconds: last)) < policy.strayInterval {
      return []
    }
    let packs = try await remotely { () throws(RemoteError) in try await remote.packs() }
    for pack in packs where try local({ () throws(Errno) in try catalog.isDeleted(pack) }) {
      try await requireSoundStore(remote)
      // After a recovery it may be in use.
      guard try local({ () throws(Errno) in try catalog.isDeleted(pack) }) else { continue }
      try await remotely { () throws(RemoteError) in try await remote.removePack(pack) }
    }
    return try local { () throws(Errno) in
      try catalog.setCompactionNote("strays", now.nanoseconds)
      return try catalog.noteStrays(
        packs, seenSince: now.advanced(by: -policy.strayAge))
    }
  }

  /// What any device still lets be brought back is kept; it told so with its cursor.
  private func forgetExpired(_ remote: RemoteContainer) async throws(CycleFailure) {
    let catalog = coordinator.catalog
    func expired(_ days: Int64) throws(CycleFailure) -> [ItemID] {
      let time = catalog.now.advanced(by: -CompactionPolicy.days(days))
      return try local { () throws(Errno) in
        try catalog.removedItems(before: time, limit: 10_000)
      }
    }
    guard try !expired(Int64(settings.keepRemovedDays)).isEmpty else { return }
    let days = try await cursors(remote).map { Int64($0.cursor.keepRemovedDays) }.max() ?? 0
    let longest = max(days, Int64(settings.keepRemovedDays))
    _ = try await append(to: remote) { () throws(CycleFailure) in
      LogChanges(forgotten: try expired(longest).sorted())
    }
  }

  /// Of the other devices that are not away.
  private func cursors(_ remote: RemoteContainer) async throws(CycleFailure)
    -> [(cursor: DeviceCursor, unchangedSince: Timestamp)]
  {
    let catalog = coordinator.catalog
    let now = catalog.now
    var result: [(DeviceCursor, Timestamp)] = []
    for cursor in try await remotely({ () throws(RemoteError) in try await remote.cursors() })
    where cursor.device != device {
      let since = try local { () throws(Errno) in
        // One that is put again says that its device is there.
        let mark = cursor.sequence &+ UInt64(bitPattern: cursor.time.nanoseconds)
        return try catalog.notePeer(cursor.device, mark: mark)
      }
      if now.nanoseconds(since: since) < settings.compaction.away {
        result.append((cursor, since))
      }
    }
    return result
  }

  /// Removes packs that were condemned for long enough. The log says so first: a device that reads
  /// it looks for nothing in them any more.
  func deleteCondemned(of remote: RemoteContainer) async throws(CycleFailure) {
    let catalog = coordinator.catalog
    let policy = settings.compaction
    func ripe(_ cursors: [(sequence: UInt64, unchangedSince: Timestamp)]) throws(CycleFailure)
      -> [PackID]
    {
      try local { () throws(Errno) in try catalog.condemnedPacks() }.filter {
        policy.mayDelete(
          condemnedAt: $0.record.condemnedAt, since: $0.since, cursors: cursors,
          now: catalog.now)
      }.map(\.record.pack)
    }
    guard try !ripe([]).isEmpty else { return }
    let cursors = try await cursors(remote).map { ($0.cursor.sequence, $0.unchangedSince) }
    var packs: [PackID] = []
    let isDone = try await append(to: remote) { () throws(CycleFailure) in
      packs = try ripe(cursors)
      return LogChanges(deleted: packs.sorted())
    }
    guard isDone else { return }
    FaultPoint.reach("compact.deleted")
    for pack in packs {
      try await requireSoundStore(remote)
      // After a recovery it may be in use.
      guard try local({ () throws(Errno) in try catalog.isDeleted(pack) }) else { continue }
      try await remotely { () throws(RemoteError) in try await remote.removePack(pack) }
      FaultPoint.reach("compact.pack-removed")
    }
    logger.info("removed \(packs.count) unused packs from the backend")
  }

  /// Tells the others how far this device has read: once a day where the log goes on, once a week
  /// where it does not, and when packs wait to be deleted. `isDue`: whenever it changed.
  func tellCursor(
    to remote: RemoteContainer, isDue: Bool = false
  ) async throws(CycleFailure) {
    let catalog = coordinator.catalog
    let position = try local { () throws(Errno) in try catalog.position() }
    let told = try local { () throws(Errno) in try catalog.compactionNote("cursor") }
    let time = try local { () throws(Errno) in try catalog.compactionNote("cursor.time") }
    let now = catalog.now
    let age = time.map { now.nanoseconds(since: Timestamp(nanoseconds: $0)) } ?? .max
    // A device that tells nothing for long is taken for one that is away.
    let isSilent = age >= 7 * CompactionPolicy.day
    guard position.sequence > 0, isSilent || told != Int64(clamping: position.sequence) else {
      return
    }
    let condemned = try local { () throws(Errno) in try catalog.condemnedPacks() }
    let isAwaited = condemned.contains { Int64(clamping: $0.record.condemnedAt) > told ?? 0 }
    guard isDue || isAwaited || age >= CompactionPolicy.day else { return }
    let recovery = try local { () throws(Errno) in try catalog.recovery() }
    let cursor = DeviceCursor(
      device: device, sequence: position.sequence, time: now,
      keepRemovedDays: UInt32(clamping: settings.keepRemovedDays), hash: position.hash,
      recovery: recovery?.number ?? 0)
    try await requireSoundStore(remote)
    try await remotely { () throws(RemoteError) in try await remote.put(cursor) }
    try local { () throws(Errno) in
      try catalog.setCompactionNote("cursor", Int64(clamping: position.sequence))
      try catalog.setCompactionNote("cursor.time", now.nanoseconds)
    }
  }
}
