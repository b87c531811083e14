internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Snapshots: written in the background, read by a device whose log goes on later than it stands.
extension ContainerSync {
  /// Plain bytes of a part, and at most a page more.
  private static let partSize = 2 << 20
  /// The number of parts that are fetched while one is staged. More than one, since staging pauses
  /// now and then until the disk has the database.
  private static let partsAhead = 2

  /// Writes what is folded here, and tells of it in the log. No cycle and no request waits for it:
  /// the catalog is read page by page, and gives what was there at the beginning. `lost`: the
  /// newest snapshot, if the store has it no more or it cannot be read.
  func writeSnapshot(
    to remote: RemoteContainer, replacing lost: UInt64? = nil
  ) async throws(CycleFailure) {
    try await requireSoundStore(remote, withoutSnapshot: lost)
    let catalog = coordinator.catalog
    defer { catalog.giveBackMemory() }
    let recovery = try local { () throws(Errno) in try catalog.recovery() }
    let export = try local { () throws(Errno) in try SnapshotExport(catalog) }
    let position = export.position
    let known = try local { () throws(Errno) in
      try catalog.foldedPositions().filter { $0.sequence < position.sequence }
    }
    try local { () throws(Errno) in try catalog.noteWriting(snapshotAt: position.sequence) }
    let writer = remote.writeSnapshot(at: position, from: origin)
    let (parts, items) = try await put(export, to: writer)
    export.end()
    try await requireSoundStore(remote, withoutSnapshot: lost)
    var mark = try await remotely { () throws(RemoteError) in
      try await writer.finish(parts, items: items, recovery: recovery, known: known)
    }
    FaultPoint.reach("compact.index-put")
    if mark == nil {
      // Of another device that perhaps ended before it told of it.
      let index: SnapshotIndex
      do throws(CycleFailure) {
        index = try await remotely { () throws(RemoteError) in
          try await remote.snapshot(position.sequence)
        }
      } catch {
        guard case .remote(.damaged) = error,
          try await hasNewerSnapshot(than: position.sequence, remote)
        else { throw error }
        return
      }
      mark = SnapshotMark(
        sequence: position.sequence, bytes: index.parts.reduce(0) { $0 + $1.length })
    }
    guard let mark else { return }
    logger.info(
      "snapshot \(mark.sequence): \(items) items, \(parts.count) parts, \(mark.bytes) bytes")
    _ = try await append(to: remote) { () throws(CycleFailure) in
      let known = try local { () throws(Errno) in try catalog.logLength() }
      return known.snapshot < mark.sequence ? LogChanges(snapshot: mark) : LogChanges()
    }
    FaultPoint.reach("compact.announced")
  }

  /// All parts of a snapshot, durable; with how many items are in them.
  func put(
    _ export: SnapshotExport, to writer: SnapshotWriter, through filter: RecoveryFilter? = nil
  ) async throws(CycleFailure) -> (parts: [SnapshotIndex.Part], items: UInt64) {
    var parts: [SnapshotIndex.Part] = []
    var items: UInt64 = 0
    do throws(CycleFailure) {
      var part = SnapshotPartBody()
      while var page = try local({ () throws(Errno) in try export.next() }) {
        if let filter {
          let whole = page
          page = try local { () throws(Errno) in try filter.readable(whole) }
        }
        guard !Task.isCancelled else { throw .cancelled }
        // Parts of a recovery are put while the store is not sound.
        if filter == nil, let problem = storeProblem { throw .unsound(problem) }
        items += UInt64(page.items.count)
        do throws(RemoteError) { try part.append(page) } catch { throw .remote(error) }
        if part.count >= Self.partSize {
          parts.append(try await put(part, parts.count, writer))
          part = SnapshotPartBody()
        }
        await Task.yield()
      }
      if !part.isEmpty || parts.isEmpty { parts.append(try await put(part, parts.count, writer)) }
    } catch {
      await writer.discard(parts.count + 1)
      throw error
    }
    return (parts, items)
  }

  private func put(_ part: SnapshotPartBody, _ number: Int, _ writer: SnapshotWriter)
    async throws(CycleFailure) -> SnapshotIndex.Part
  {
    let result = try await remotely { () throws(RemoteError) in
      try await writer.put(part, number: number)
    }
    FaultPoint.reach("compact.part-put")
    return result
  }

  /// Makes the newest whole snapshot the remote tree that a device at a position may take for it:
  /// one that comes after the position on the same log, or one after a later recovery, wherever it
  /// is. A snapshot of a log that lacks what this device has read is none: the store went back, and
  /// others went on from there. False: there is none. One that is damaged is passed over for an
  /// older one; its error is thrown when none is left. `onlyRecovered`: the log is not the one that
  /// this device has read, so that only a recovery leads on.
  ///
  /// Changes after a recovery are judged by the state that the recovery itself published
  /// (`installRecovered`). So its own snapshot comes before the newest one, if the store has it.
  ///
  /// With a `reason` why this device cannot go on, a damaged snapshot of a later recovery counts as
  /// a rollback: the store was set back in the midst of that recovery, and any device may recover
  /// anew. Another damaged snapshot does not: other devices can write a new one.
  func rebuild(
    _ remote: RemoteContainer, beyond position: LogPosition, onlyRecovered: Bool = false,
    reason: String? = nil
  ) async throws(CycleFailure) -> Bool {
    let own = try local { () throws(Errno) in try coordinator.catalog.recovery() }
    let found = try await remotely { () throws(RemoteError) in
      try await remote.snapshots(beyond: 0)
    }
    var failure: CycleFailure?
    var brokenRecovery: String?
    // An older snapshot of another log may not tell that it is one.
    var isFork = false
    defer { coordinator.catalog.useLargeCache(false) }
    var pending = found
    while !pending.isEmpty {
      let sequence = pending.removeFirst()
      // Of an index that cannot be read the number tells.
      var isLater = sequence % Self.recoveryStep == 0 && sequence > position.sequence
      do throws(CycleFailure) {
        let index = try await remotely { () throws(RemoteError) in
          try await remote.snapshot(sequence)
        }
        isLater = index.recovery.map { $0.isLater(than: own) } ?? false
        if index.recovery == own, index.isFork(for: position) { isFork = true }
        guard
          position == .start || isLater
            || (!onlyRecovered && !isFork && index.recovery == own && sequence > position.sequence)
        else { continue }
        if isLater, position != .start, let first = index.recovery?.sequence, first != sequence,
          let place = pending.firstIndex(of: first)
        {
          pending.remove(at: place)
          pending.insert(contentsOf: [first, sequence], at: 0)
          continue
        }
        try await install(index, remote, isRecovery: isLater && position != .start)
        coordinator.tellContainer()
        return true
      } catch .remote(.damaged(let object, let reason)) {
        logger.error("the object \"\(object)\" in the backend is damaged: \(reason)")
        failure = .remote(.damaged(object: object, reason: reason))
        if isLater { brokenRecovery = "\"\(object)\" is damaged: \(reason)" }
        try local { () throws(Errno) in try coordinator.catalog.dropSnapshot() }
      } catch {
        // If this fails, the next snapshot, segment or opening drops the parts.
        try? coordinator.catalog.dropSnapshot()
        throw error
      }
    }
    guard let failure else { return false }
    // Its parts may be missing since the whole container was deleted.
    if case .deleted(let deletion)? = try? await remote.presence() { throw ended(by: deletion) }
    if let reason, let brokenRecovery { throw rolledBack("\(reason), and \(brokenRecovery)") }
    throw failure
  }

  private func install(_ index: SnapshotIndex, _ remote: RemoteContainer, isRecovery: Bool)
    async throws(CycleFailure)
  {
    let catalog = coordinator.catalog
    let sequence = index.position.sequence
    catalog.useLargeCache(true)
    try local { () throws(Errno) in try catalog.beginSnapshot(isRecovery: isRecovery) }
    // The next ones are fetched, verified and prepared while one is staged.
    let first = index.parts.indices.prefix(Self.partsAhead)
    var coming = first.map { Self.fetch($0, of: index, remote) }
    defer { for task in coming { task.cancel() } }
    for number in index.parts.indices {
      guard !Task.isCancelled else { throw .cancelled }
      let fetched = await coming.removeFirst().value
      let next = number + Self.partsAhead
      if next < index.parts.count { coming.append(Self.fetch(next, of: index, remote)) }
      let part = try await remotely { () throws(RemoteError) in try fetched.get() }
      try taking("snapshot \(index.position.sequence)") { () throws(Errno) in
        try catalog.stage(part)
      }
      FaultPoint.reach("compact.staged")
      await Task.yield()
    }
    let mark = SnapshotMark(
      sequence: sequence, bytes: index.parts.reduce(0) { $0 + $1.length })
    if isRecovery, let recovery = index.recovery {
      let packs = Set(try await remotely { () throws(RemoteError) in try await remote.packs() })
      FaultPoint.reach("recover.staged")
      try taking("snapshot \(index.position.sequence)") { () throws(Errno) in
        try catalog.installRecovered(
          mark, hash: index.position.hash, members: index.position.members,
          from: index.origin.device, recovery, packs: packs)
      }
      try beginAnew()
    } else {
      try taking("snapshot \(index.position.sequence)") { () throws(Errno) in
        try catalog.installSnapshot(
          mark, hash: index.position.hash, members: index.position.members,
          from: index.origin.device, recovery: index.recovery, known: index.known)
      }
    }
    FaultPoint.reach("compact.installed")
    logger.notice("read \(index.items) items from snapshot \(sequence)")
  }

  private static func fetch(_ number: Int, of index: SnapshotIndex, _ remote: RemoteContainer)
    -> Task<Result<PreparedPart, RemoteError>, Never>
  {
    Task.detached {
      do throws(RemoteError) {
        return .success(PreparedPart(try await remote.part(number, of: index)))
      } catch {
        return .failure(error)
      }
    }
  }

  /// Another device that compacts too removes the snapshots before its own.
  private func hasNewerSnapshot(
    than sequence: UInt64, _ remote: RemoteContainer
  ) async throws(CycleFailure) -> Bool {
    try await remotely { () throws(RemoteError) in
      try await !remote.snapshots(beyond: sequence).isEmpty
    }
  }

  private func readWhole(_ sequence: UInt64, _ remote: RemoteContainer) async throws(CycleFailure) {
    let index = try await remotely { () throws(RemoteError) in
      try await remote.snapshot(sequence)
    }
    for number in index.parts.indices {
      guard !Task.isCancelled else { throw .cancelled }
      _ = try await remotely { () throws(RemoteError) in
        try await remote.part(number, of: index)
      }
    }
  }

  // MARK: Old log

  /// Removes the log before the newest snapshot that has been known long enough, and the snapshots
  /// before that. Nothing goes before the snapshot was read whole and verified.
  func removeOldLog(of remote: RemoteContainer) async throws(CycleFailure) {
    let catalog = coordinator.catalog
    let known = try local { () throws(Errno) in try catalog.knownSnapshots() }
    let done = try local { () throws(Errno) in try catalog.compactionNote("removed") } ?? 0
    guard let kept = settings.compaction.settled(known, for: device, now: catalog.now),
      Int64(clamping: kept.mark.sequence) > done
    else { return }
    let sequence = kept.mark.sequence
    do throws(CycleFailure) {
      try await readWhole(sequence, remote)
    } catch {
      guard case .remote(.damaged) = error, try await hasNewerSnapshot(than: sequence, remote)
      else { throw error }
      logger.debug("cannot read snapshot \(sequence), but there is a newer one")
      return
    }
    let limit = settings.compaction.removable(before: sequence)
    try await requireSoundStore(remote)
    let count = try await remotely { () throws(RemoteError) in
      try await remote.removeLog(upTo: limit)
    }
    try await requireSoundStore(remote)
    let recovery = try local { () throws(Errno) in try catalog.recovery() }
    try await remotely { () throws(RemoteError) in
      try await remote.removeSnapshots(before: sequence, sparing: recovery?.sequence)
    }
    try local { () throws(Errno) in
      try catalog.forgetSnapshots(before: sequence)
      try catalog.setCompactionNote("removed", Int64(clamping: sequence))
    }
    logger.info("removed \(count) segments before snapshot \(sequence) from the backend")
  }
}
