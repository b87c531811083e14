internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
package import SystemPackage

/// The result of a recovery.
package struct RecoveryOutcome: Sendable, Hashable {
  /// Nil: the store needed none, or another device had made one.
  package var sequence: UInt64?
  /// Items that the log has now.
  package var items: UInt64 = 0
  /// Contents that this device uploaded again.
  package var uploaded = 0
  /// Paths of the files of which the log has a version by name only: no device has supplied it so
  /// far. A conflict version is said to be one.
  package var missing: [String] = []
}

/// Makes a container whole after its store went back to an earlier state.
///
/// The device publishes what it knows as a snapshot beyond everything that the store or any device
/// has named, with all contents by name only whose packs are gone. Every device, this one included,
/// then reads that snapshot, and supplies what it has and the log has not (`installRecovered`).
///
/// **Invariant: until the index of the snapshot is put, no device acts on any of it.** So a device
/// may stop anywhere in here, and recovering again begins anew at a later number.
extension ContainerSync {
  /// The log goes on at a multiple of this: devices that are away may know of more segments than
  /// anybody told.
  static let recoveryStep: UInt64 = 1_000_000

  /// Compares the store with what this device knows, puts the name of the container again if it is
  /// lost, and sets `condition`. Throws when the store could not be read.
  package func lookAtStore() async throws(SyncFailure) {
    hurrying += 1
    defer { hurrying -= 1 }
    if case .failed(let failure) = await runCycle(freshly: true), condition.isNormal,
      !health.isConnected
    {
      throw failure
    }
    guard condition.isNormal else { return }
    do throws(CycleFailure) {
      let remote = try await remotely { () throws(RemoteError) in try await link.container() }
      try await keepNameIfReadable(remote)
    } catch {
      // Then the condition says it.
      if case .unsound = error { return }
      throw error.asSyncFailure
    }
  }

  package func recoverStore() async throws(SyncFailure) -> RecoveryOutcome {
    hurrying += 1
    defer { hurrying -= 1 }
    try link.check()
    var outcome = RecoveryOutcome()
    var disputed: Set<ItemID> = []
    // Perhaps the store is sound again, or another device was first.
    try await lookAtStore()
    // A deleted container stays deleted.
    try link.check()
    if !condition.isNormal {
      do throws(CycleFailure) {
        let remote = try await remotely { () throws(RemoteError) in try await link.container() }
        (outcome.sequence, disputed) = try await untilStopped { sync throws(CycleFailure) in
          try await sync.publishRecovery(to: remote)
        }
      } catch {
        throw error.asSyncFailure
      }
    }
    supplied = 0
    try await sync(needsRoom: false)
    outcome.uploaded = supplied
    do throws(Errno) {
      outcome.items = UInt64(try coordinator.catalog.loggedItemCount())
      outcome.missing = try (missingPaths() + conflictPaths(disputed)).sorted()
    } catch {
      throw .failed("the catalog of this device cannot be used: \(error)")
    }
    return outcome
  }

  /// Files with a version that no device has supplied, by path.
  package nonisolated func missingPaths() throws(Errno) -> [String] {
    let catalog = coordinator.catalog
    var result: [String] = []
    for pending in try catalog.pendingContents() {
      guard let number = try catalog.inodeNumber(of: pending.item) else { continue }
      let content = try catalog.inode(number).content
      guard pending.isConflictVersion || content == .remote,
        let names = try catalog.path(of: number)
      else { continue }
      let path = names.map(\.description).joined(separator: "/")
      result.append(pending.isConflictVersion ? "\(path) (a conflict version)" : path)
    }
    return result.sorted()
  }

  /// Packages whose lost conflict version only the device that made it can supply, by path.
  private nonisolated func conflictPaths(_ packages: Set<ItemID>) throws(Errno) -> [String] {
    let catalog = coordinator.catalog
    var result: [String] = []
    for item in packages {
      guard let number = try catalog.inodeNumber(of: item),
        let names = try catalog.path(of: number)
      else { continue }
      let path = names.map(\.description).joined(separator: "/")
      result.append("\(path) (a conflict version)")
    }
    return result
  }

  /// After the remote tree was replaced by that of a recovery: nothing that was noted about the old
  /// one holds, and chunks that only this device knows of are told of again.
  func beginAnew() throws(CycleFailure) {
    uploads.forgetAll()
    staged = [:]
    (snapshots, committedSnapshots) = ([:], [:])
    dropStagings(except: [])
    damaged = [:]
    unannounced = []
    condemnedPlaces = [:]
    hasResumed = false
    isRecovered = nil
    try resumeUploads()
    // The log had some of them before.
    awaitingContent = []
  }

  /// Whether the log stands on a recovery. Without one nothing is kept in the catalog.
  private func standsOnRecovery() throws(Errno) -> Bool {
    if let isRecovered { return isRecovered }
    let found = try coordinator.catalog.recovery() != nil
    isRecovered = found
    return found
  }

  /// Conflict versions that the log had before a recovery and lacks now.
  func keptConflicts() throws(Errno) -> [ItemID: [ContentVersion]] {
    try standsOnRecovery() ? try coordinator.catalog.keptConflicts() : [:]
  }

  /// The version of a local content before a recovery, if it still is that.
  func keptContent(_ item: LocalItem) throws(Errno) -> StagedContent? {
    guard try standsOnRecovery(),
      let found = try coordinator.catalog.keptVersion(of: item.inode.item)
    else { return nil }
    let kept = found.content
    // Content that is not here can be supplied only where its chunks are.
    let manifest =
      item.inode.content == .local
      ? nil : try coordinator.catalog.shownContent(of: item.inode.number)?.manifest
    guard item.inode.content == .local || (item.inode.version == kept.version && manifest != nil)
    else { return nil }
    let content = StagedContent(
      version: kept.version, inode: item.inode,
      manifest: item.inode.size == 0 ? .empty : manifest, lineage: Lineage(parent: found.parent))
    // A placeholder shows its version until it is replaced. A rename or new times change nothing.
    guard item.inode.content == .local else { return content }
    return kept.generation == item.inode.generation && kept.size == item.inode.size
      && kept.modified == item.inode.modified && kept.changed == item.inode.changed
      ? content : nil
  }

  /// The lineage of a local content that was edited after the recovery, or was an edit before.
  func keptLineage(_ inode: Catalog.Inode) throws(Errno) -> Lineage? {
    guard inode.content == .local, try standsOnRecovery(),
      let found = try coordinator.catalog.keptVersion(of: inode.item)
    else { return nil }
    return Lineage(parent: found.content.version, grandparent: found.parent)
  }

  /// Packs that this device's log had condemned or deleted, and that the store has again. The log
  /// moved their live chunks, perhaps into packs that the store has lost. Their chunks are told of
  /// again, so that this device supplies contents from there.
  private func readReturnedPacks(_ remote: RemoteContainer) async throws(CycleFailure) {
    let catalog = coordinator.catalog
    let listed = Set(try await remotely { () throws(RemoteError) in try await remote.packs() })
    for pack in listed.sorted() {
      guard !Task.isCancelled else { throw .cancelled }
      guard try local({ () throws(Errno) in try catalog.isOutOfUse(pack) }) else { continue }
      let places: [ChunkLocation]
      do throws(CycleFailure) {
        places = try await remotely { () throws(RemoteError) in try await remote.contents(of: pack)
        }
      } catch .remote(.damaged(let object, let reason)) {
        logger.warning("cannot use the object \"\(object)\": \(reason)")
        continue
      } catch .remote(.store(.notFound(let object))) {
        logger.warning(
          "cannot use the object \"\(object)\": the backend lists it but does not return it")
        continue
      }
      try local { () throws(Errno) in
        let known = try catalog.chunkLocations(places.map(\.chunk.id))
        try catalog.noteSent(
          places.filter { place in
            known[place.chunk.id].map { !listed.contains($0.pack) } ?? false
          })
      }
    }
  }

  /// Gives the sequence of the snapshot, and the packages of which it lacks a conflict version that
  /// this device knew.
  private func publishRecovery(
    to remote: RemoteContainer
  ) async throws(CycleFailure) -> (sequence: UInt64, disputed: Set<ItemID>) {
    let catalog = coordinator.catalog
    try await readReturnedPacks(remote)
    let export = try local { () throws(Errno) in try SnapshotExport(catalog) }
    defer { export.end() }
    let known = try local { () throws(Errno) in try catalog.foldedPositions() }
    let own = try local { () throws(Errno) in try catalog.recovery() }
    guard let head = known.last, head == export.position else {
      throw .local(
        "this device has not read any of \"\(coordinator.container)\" yet; run `ubiquityfs store "
          + "recover` on a device that has")
    }
    let origin = origin
    let (last, number) = try await remotely { () throws(RemoteError) in
      let stored = try await remote.sequences().max() ?? 0
      var last = max(head.sequence, stored)
      var number = own?.number ?? 0
      for cursor in try await remote.cursors() {
        if cursor.sequence <= UInt64(Int64.max) / 2 { last = max(last, cursor.sequence) }
        number = max(number, cursor.recovery)
      }
      if let newest = try await remote.snapshots(beyond: 0).first,
        let index = try? await remote.snapshot(newest)
      {
        number = max(number, index.recovery?.number ?? 0)
      }
      return (last, number)
    }
    guard last < UInt64(Int64.max) / 2, number < .max else {
      throw .local(
        "cannot recover \"\(coordinator.container)\": the segment numbers in the backend are too "
          + "large")
    }
    let isNamed: Bool
    do throws(CycleFailure) {
      isNamed = try await remotely { () throws(RemoteError) in
        try await remote.restoreName(from: origin)
      }
    } catch {
      // The devices that have the container need no name. `store verify` reports it.
      guard let damage = error.damage else { throw error }
      logger.warning("\(damage)")
      isNamed = true
    }
    guard isNamed else {
      throw .local(
        "another container has the name \"\(coordinator.container)\" in the backend, so this one "
          + "cannot be recovered there. To use the other container, unmount this one and run "
          + "`ubiquityfs container set-aside add \(coordinator.container)`. Then copy the local "
          + "files of this one into a directory with `ubiquityfs container set-aside restore "
          + "\(coordinator.container) DIRECTORY`")
    }
    let sequence = (last / Self.recoveryStep + 1) * Self.recoveryStep
    let segment = try await remotely { () throws(RemoteError) in
      try await remote.recoverySegment(at: sequence, after: head, from: origin)
    }
    let writer = remote.writeSnapshot(at: segment.position, from: origin)
    let packs = Set(try await remotely { () throws(RemoteError) in try await remote.packs() })
    let filter = RecoveryFilter(catalog: catalog, packs: packs)
    let (parts, items) = try await put(export, to: writer, through: filter)
    // A device that was away for the recovery before reads this one only.
    let disputed = filter.disputed.union(own?.disputed ?? []).sorted()
    guard disputed.count <= LogRecovery.mostDisputed else {
      await writer.discard(parts.count)
      throw .local(
        "cannot recover \"\(coordinator.container)\": \(disputed.count) packages lost a conflict "
          + "version, and a recovery can name at most \(LogRecovery.mostDisputed)")
    }
    let recovery = LogRecovery(
      number: number + 1, sequence: sequence, known: known, disputed: disputed)
    FaultPoint.reach("recover.parts-put")
    guard !Task.isCancelled else { throw .cancelled }
    let isFirst = try await remotely { () throws(RemoteError) in
      try await remote.put(recovery: segment)
    }
    FaultPoint.reach("recover.segment-put")
    guard isFirst else {
      await writer.discard(parts.count)
      throw .unsound(
        "another device is recovering \"\(coordinator.container)\"; wait for it, then run "
          + "`ubiquityfs sync`")
    }
    let mark = try await remotely { () throws(RemoteError) in
      try await writer.finish(parts, items: items, recovery: recovery)
    }
    FaultPoint.reach("recover.index-put")
    guard mark != nil else {
      throw .unsound("another device recovered \"\(coordinator.container)\"")
    }
    logger.notice("recovery \(recovery.number): published \(items) items at segment \(sequence)")
    return (sequence, filter.disputed)
  }
}
