internal import Catalog
internal import ContentStore
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// One cycle: read, plan, apply, commit, send, until nothing differs.
extension ContainerSync {
  /// A cycle that goes round this often is answering itself; it yields to the next one.
  private static let roundLimit = 200

  func synchronize() async throws(SyncFailure) -> CycleResult {
    do throws(CycleFailure) {
      let remote = try await remotely { () throws(RemoteError) in try await link.container() }
      reserved = []
      (deniedRoom, deniedFiles) = ([], [:])
      inventories = 0
      defer { releaseClaims() }
      try resumeUploads()
      var pace = CyclePace()
      for _ in 0..<Self.roundLimit {
        guard !Task.isCancelled else { throw CycleFailure.cancelled }
        (hasMoved, isRefused) = (false, false)
        let before = try local { () throws(Errno) in try coordinator.catalog.position() }
        hasLooked = !isLogFresh(at: before)
        if hasLooked { try await pull(remote) }
        guard try await announceMembers(remote) else { continue }
        switch try await round(remote) {
        case .settled: return .settled
        case .waiting: return .waiting
        case .uploading: return .uploading
        case .full: return .full(quotaText)
        case .again: break
        }
        let after = try local { () throws(Errno) in try coordinator.catalog.position() }
        let outcome: CyclePace.Round =
          hasMoved || after != before ? .moved : isRefused ? .refused : .overtaken
        if !keepsClaims { releaseClaims() }
        switch pace.next(after: outcome) {
        case .goOn(let pause?): try? await Task.sleep(for: pause)
        case .goOn(nil): break
        case .end where outcome == .refused: throw await explain(remote) { .refused }
        case .end: return .waiting
        }
      }
      return .waiting
    } catch {
      if case .remote(.removed) = error { endMembership(error.asSyncFailure.description) }
      throw error.asSyncFailure
    }
  }

  /// Others wait for what was given for a round.
  private func releaseClaims() {
    claims.release(givenClaims.filter { !askedAgain.contains($0) })
    givenClaims = []
  }

  private enum Round {
    case settled
    case again
    case waiting
    case uploading
    case full
  }

  /// Folds what the log has beyond the catalog's position.
  func pull(_ remote: RemoteContainer) async throws(CycleFailure) {
    var position = try local { () throws(Errno) in try coordinator.catalog.position() }
    if position == .start {
      // A new device need not read what others have folded already. If that is damaged, it does.
      do throws(CycleFailure) { _ = try await rebuild(remote, beyond: .start) } catch {
        guard case .remote(.damaged) = error else { throw error }
      }
    }
    while true {
      position = try local { () throws(Errno) in try coordinator.catalog.position() }
      let after = position
      let batch: LogBatch
      do throws(CycleFailure) {
        batch = try await look(remote, after: after)
      } catch .remote(.logRemoved(let object)) {
        // This device was away for longer than the log reaches.
        let reason =
          "the log continues with \"\(object)\", the segments before it are missing, and no "
          + "snapshot continues from the last segment that this device read"
        guard try await rebuild(remote, beyond: after, reason: reason) else {
          throw await unsound(reason, remote)
        }
        continue
      } catch .remote(.deleted(let deletion)) {
        throw ended(by: deletion)
      } catch .remote(.rolledBack(let object)) {
        if PlantedMistake.putsUnchecked.isPlanted { return }
        let reason = "\"\(object)\" is missing or differs from the object that this device read"
        guard try await rebuild(remote, beyond: after, onlyRecovered: true, reason: reason) else {
          throw await unsound(reason, remote)
        }
        continue
      }
      if hasForeignName { _ = try await keepName(remote) }
      if foreignHead == nil { setCondition(.normal) }
      guard !batch.segments.isEmpty else { return try checkForeignHead() }
      for segment in batch.segments {
        let isOwn = segment.origin.device == device
        if isOwn { try noteUnacknowledged(segment.changes.removals) }
        let before = versionsForEvents(segment.changes.upserts)
        try taking(remote.objectName(ofSegment: segment.position.sequence)) { () throws(Errno) in
          try coordinator.catalog.fold(
            segment.changes, to: segment.position, from: segment.origin, isOwn: isOwn)
        }
        health.confirm(segment.position)
        FaultPoint.reach("sync.folded")
        noteForEvents(segment, before)
      }
      // Another device's head that was read meanwhile may be of a later segment: look again.
      if batch.isLast, foreignHead == nil { return }
    }
  }

  private func round(_ remote: RemoteContainer) async throws(CycleFailure) -> Round {
    givenClaims = claims.held
    (askedAgain, keepsClaims) = ([], false)
    losses = try local { () throws(Errno) in try coordinator.catalog.losses() }
    _ = try collectUploads()
    try checkArrivals()
    // What is planned stands on this state of the log, and is committed right after it or not at
    // all.
    try await bringArrivals()
    try await applyRemovals()
    let paused: (failure: CycleFailure, rest: [ItemID])?
    defer { coordinator.catalog.endMarkWatch() }
    switch try await sendRemovals(to: remote) {
    case .moved: return .again
    case .held(let failure, let rest): paused = (failure, rest)
    case .nothing: paused = nil
    }
    switch try await sendDepartures(to: remote) {
    case .moved: return .again
    case .uploading: return .uploading
    case .nothing: break
    }
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    // Above all marks that the plan is to see.
    let mark = coordinator.catalog.nextGeneration()
    let (differing, changes) = try local { () throws(Errno) in try gather(paused?.rest) }
    var items = consume differing
    // A change since the removals were separated may concern an item that is not in the plan.
    if let paused, coordinator.catalog.newlyMarked()?.isEmpty != true { throw paused.failure }
    let isWriting = items.values.contains { $0.local?.isBusy == true }
    try local { () throws(Errno) in try holdBeyondQuota(&items, changes) }
    packageWake = nil
    guard !items.isEmpty else {
      if let paused { throw paused.failure }
      // Their files are gone, or are in the log as they are.
      uploads.cancelAll()
      packagesHeld = [:]
      try forgetUnannounced()
      staged = [:]
      (snapshots, committedSnapshots) = ([:], [:])
      dropStagings(except: [])
      writers = [:]
      try deletionsEnded()
      return .settled
    }
    isLeftWithSnapshots = false
    snapshots = snapshots.filter { items[$0.key] != nil }
    committedSnapshots = committedSnapshots.filter { items[$0.key] != nil }
    let held = try local { () throws(Errno) in try heldPackages(items, changes) }
    let claimed = try local { () throws(Errno) in try heldByClaims(items) }
    var plan: Plan
    repeat {
      let untouched = claimed.union(deniedRoom)
      let planner = Planner(
        device: device, view: RememberedTrees(CatalogTrees(catalog: coordinator.catalog)),
        reserved: reserved, packages: coordinator.packages, held: held.union(untouched),
        claimed: untouched)
      plan = try local { () throws(Errno) in try planner.plan(items) }
    } while try local({ () throws(Errno) in try denyBeyondQuota(plan) })
    logger.trace("plan for \(items.count) items: \(plan)")

    if try restoreRemoved(plan) { return .again }
    guard let replacements = try await stageReplacements(plan, remote) else { return .again }
    if !plan.local.isEmpty {
      let dropsCopies = try local { () throws(Errno) in try self.dropsCopies(plan) }
      // Downloads may have taken long since the packs were listed.
      let isListed = inventories >= Self.mostInventories || health.hasInventory
      if dropsCopies, inventories == 0 || !isListed {
        // Other devices may have removed packs that their log names no more.
        if hasLooked {
          try await takeInventory(remote)
          inventories += 1
        } else {
          signals.wantLook()
        }
        // Presenters that take their time would be asked again for each look.
        keepsClaims = true
        return .again
      }
      if try local({ () throws(Errno) in try renewsLosers(plan) }) { return .again }
      if dropsCopies, try await renewArchives(of: plan, remote) {
        _ = try await commit(Plan(), to: remote, after: position)
        return .again
      }
      if try local({ () throws(Errno) in try dropsUnannounced(plan) }) {
        _ = try await commit(Plan(), to: remote, after: position)
        return .again
      }
      if dropsCopies { try await confirmBeforeDropping(remote) }
      guard try await apply(plan, replacements, mark) else { return .again }
      if plan.isPreliminary { return .again }
    }
    if let paused { throw paused.failure }
    if !plan.upserts.isEmpty || !plan.removals.isEmpty || !plan.versions.isEmpty {
      let judged = try judgeDeletions(plan)
      try await sendArchives(of: &plan, to: remote)
      guard try await commit(plan, to: remote, after: position) else { return .again }
      try noteDeletions(judged)
    }
    if !plan.uploads.isEmpty, case .staged = try await upload(plan.uploads, to: remote) {
      return .again
    }
    let left = try local { () throws(Errno) in try coordinator.catalog.differing() }
    guard !left.isEmpty else { return .again }
    // The items that are left wait for a close, unless this round moved something. Items that wait
    // for their contents alone would be planned again for nothing: the end of an upload wakes the
    // engine.
    let waits = plan.isWhole && uploads.isBusy && Set(plan.uploads).isSuperset(of: left)
    let hasMoved = !plan.local.isEmpty || !plan.upserts.isEmpty || !plan.removals.isEmpty
    if hasMoved, !waits { return .again }
    if uploads.isBusy || !arriving.isEmpty { return .uploading }
    isLeftWithSnapshots = try local { () throws(Errno) in try areSnapshotsCurrent(left) }
    let isFull =
      !(beyondQuota.isEmpty && deniedRoom.isEmpty) && !isWriting && claimed.isEmpty
      && packageWake == nil && transfers.errors().isEmpty
      && turns.paused(at: monotonicNanoseconds()).isEmpty
    return isFull ? .full : .waiting
  }

  /// The items in which the trees differ, each as it is in all three, at one moment.
  ///
  /// With it, when what is dirty was changed. `only`: of these items alone.
  func gather(_ only: [ItemID]? = nil) throws(Errno) -> (
    items: [ItemID: ItemTrees], changes: [ItemID: Timestamp]
  ) {
    var result: [ItemID: ItemTrees] = [:]
    var changes: [ItemID: Timestamp] = [:]
    var numbers: Set<InodeNumber> = []
    let coordinator = coordinator
    let kept = try keptConflicts()
    // Read once, and only if a new file is open for writing.
    var locks: FileLocks??
    let found = try coordinator.catalog.differences(of: only) {
      coordinator.isOpenForWriting($0)
    }
    result.reserveCapacity(found.count)
    for (id, item) in found {
      var trees = ItemTrees(
        base: item.base, remote: item.remote, stamp: item.stamp, keptConflicts: kept[id] ?? [])
      if let local = item.local {
        if local.stamp != nil { changes[id] = local.inode.changed }
        numbers.insert(local.inode.number)
        var mayBeAnnounced = false
        if item.isOpenForWriting, item.base == nil {
          let known: FileLocks?
          if let read = locks { known = read } else { known = coordinator.fileLocks }
          locks = .some(known)
          mayBeAnnounced = mayAnnounce(local.inode.number, known)
        }
        let newer = item.remote?.content?.id
        let edited = try edited(local, item.remote)
        let lacksNewer = newer != nil && damaged[id] == newer
        let isNews = edited.map { item.remote?.content?.parent != $0.version } ?? false
        var isStuck = false
        var replacesLost = false
        // A content that the check of the store has marked has the time that it had before.
        if isNews, local.record.modified != item.base?.modified {
          // A user's `sync` asks for the newer content again. Until it comes, a save replaces a
          // content that a check of the store found lost: else it could lose against it, and nobody
          // can read it.
          replacesLost =
            try lacksNewer ? true : isLost(item.remote?.content, beside: item.base, edited)
        }
        if lacksNewer, !replacesLost, try !isInPackage(local.record, item.remote) {
          isStuck = !isNews || isConflict(edited, of: item.remote)
        }
        trees.local = LocalSide(
          record: local.record, size: local.inode.size, edited: edited, stamp: local.stamp,
          isBusy: item.isOpenForWriting || isArriving(id, newer) || isStuck,
          mayBeAnnounced: mayBeAnnounced, lacksNewer: lacksNewer, replacesLost: replacesLost)
        // What else changed of it elsewhere is merged with the file as it is when it is closed.
        if item.isOpenForWriting, let snapshot = snapshots[id], item.base == item.remote {
          trees.local?.show(snapshot)
        }
        if item.remote == nil, item.base != nil,
          local.isEdited || local.record.kind == .directory || kept[id] != nil
            || item.base?.content.map { $0.manifest == nil } ?? false
        {
          trees.removed = try coordinator.catalog.removedItem(id)?.record
        }
      }
      result[id] = trees
    }
    // What is in sync, or gone, has nothing left that could fail.
    if only == nil { transfers.forgetErrors(except: numbers) }
    return (result, changes)
  }

  /// Whether the log has a content that this device does not know, and a check of the store found
  /// that the store lost it.
  private func isLost(
    _ newer: ContentVersion?, beside base: ItemRecord?, _ edited: EditedContent?
  ) throws(Errno) -> Bool {
    guard let newer, newer.id != base?.content?.id, newer.id != edited?.version else {
      return false
    }
    return try coordinator.catalog.storeLacks(newer)
  }

  /// Whether a file is in a package, here or in the log. Then the package says what becomes of it.
  private func isInPackage(_ file: ItemRecord, _ remote: ItemRecord?) throws(Errno) -> Bool {
    guard let remote else { return true }
    var finder = PackageFinder(
      view: CatalogTrees(catalog: coordinator.catalog), types: coordinator.packages, items: [:])
    let here = try finder.roots(of: file, .local)
    let there = try finder.roots(of: remote, .remote)
    return !here.isEmpty || !there.isEmpty
  }

  /// Whether the log has an edit as a conflict version.
  private func isConflict(_ edited: EditedContent?, of remote: ItemRecord?) -> Bool {
    guard let edited, let remote else { return false }
    return remote.conflicts.contains { $0.isOf(edited) }
  }

  /// Nil for a content that the log knows as it is.
  private func edited(_ item: LocalItem, _ remote: ItemRecord?) throws(Errno) -> EditedContent? {
    guard item.isEdited else {
      guard item.inode.kind == .file, item.inode.content == .remote,
        remote?.content?.id != item.inode.version || remote?.content?.manifest == nil,
        let kept = try keptContent(item),
        // The same bytes under another version: the placeholder takes that version.
        kept.manifest != remote?.content?.manifest
      else { return nil }
      staged[item.inode.item] = kept
      return EditedContent(kept)
    }
    // Before what was announced while it was open: the log has this version.
    if let known = committedSnapshots[item.inode.item], known.isStill(item.inode) {
      staged[item.inode.item] = known
      return EditedContent(known)
    }
    if let known = staged[item.inode.item], known.isStill(item.inode) {
      return EditedContent(known)
    }
    var announced = try keptContent(item)
    if announced == nil {
      announced = StagedContent(
        version: announcedVersion(item.inode, remote) ?? .random(), inode: item.inode,
        manifest: item.inode.size == 0 ? .empty : nil, lineage: try keptLineage(item.inode))
    }
    staged[item.inode.item] = announced
    return announced.map { EditedContent($0) }
  }

  /// The version by which the log has the name of this content already. Nobody has any bytes of it,
  /// so it need not be announced again by another. After a recovery somebody may have them.
  private func announcedVersion(_ inode: Catalog.Inode, _ remote: ItemRecord?) -> VersionID? {
    guard isRecovered != true, let content = remote?.content, content.manifest == nil,
      content.device == device, content.size == inode.size, content.modified == inode.modified
    else { return nil }
    return content.id
  }

  // MARK: Local

  /// Applies the plan's local half. False: something changed meanwhile; plan again.
  func apply(
    _ plan: Plan, _ replacements: [ItemID: UInt64], _ mark: UInt64
  ) async throws(CycleFailure) -> Bool {
    let coordinator = coordinator
    let operations = plan.local.map { operation -> LocalOperation in
      guard case .upsert(let record, content: .placeholder, let stamp) = operation,
        let generation = replacements[record.id]
      else { return operation }
      return .upsert(record, content: .staged(generation: generation), stamp: stamp)
    }
    guard let claim = try local({ () throws(Errno) in try holdForApplying(operations) }) else {
      return false
    }
    defer { claims.table.release(claim) }
    coordinator.beginMoving()
    defer { coordinator.endMoving() }
    do throws(ApplyFailure) {
      let result = try coordinator.changeNames { () throws(ApplyFailure) in
        let result = try coordinator.catalog.apply(
          operations, given: plan.givens, keepingBaseOf: plan.keepsBase,
          keepingParentOf: plan.keepsParent,
          guarding: plan.packages.isEmpty
            ? nil : GuardedTrees(roots: plan.packages, mark: mark, writers: coordinator.writers),
          isOpen: { coordinator.isOpen($0) },
          isOpenForWriting: { coordinator.isOpenForWriting($0) })
        return (result, result.invalidations)
      }
      FaultPoint.reach("sync.applied")
      hasMoved = true
      for item in replacements.keys { stagings[item] = nil }
      for case .upsert(let record, let content, _) in operations where content != .keep {
        if let link = record.links.first { turns.received(link, at: monotonicNanoseconds()) }
      }
      coordinator.tell(result.changes, by: { writers[$0] })
      discard(result.obsolete)
      fetchArrivals(operations, result.changes)
      return true
    } catch {
      logger.trace("not applied: \(error)")
      switch error {
      case .changed, .busy:
        return false
      case .occupied(let link):
        // A name that something has which syncs is the planner's to settle, next time round.
        let isOrdinary = try local { () throws(Errno) in
          try coordinator.catalog.localChild(link.parent, link.name) != nil
        }
        guard isOrdinary || reserved.insert(link).inserted else {
          throw .local("cannot apply a remote change to \"\(link.name)\": the name is taken")
        }
        return false
      case .notEmpty(let id):
        throw .local(
          "a remote device removed the directory \(id), which is not empty on this device")
      case .system(let errno):
        throw .local("cannot apply a remote change: \(errno)")
      }
    }
  }

  /// Unlinks content files once no row names them, durably: the other order could leave a row whose
  /// bytes are gone.
  func discard(_ keys: [ContentKey]) {
    guard !keys.isEmpty else { return }
    fetcher.contentsAreGone(keys)
    let content = coordinator.content
    coordinator.catalog.afterDurableCommit {
      for key in keys { try? content.remove(key) }
    }
  }

  // MARK: Remote

  /// Puts the plan's remote half into the log. False: another device was first.
  func commit(
    _ plan: Plan, to remote: RemoteContainer, after position: LogPosition
  ) async throws(CycleFailure) -> Bool {
    let catalog = coordinator.catalog
    var changes = LogChanges(
      upserts: plan.upserts, removals: plan.removals, chunks: chunksToTell(plan))
    let origin = origin
    var newPosition = position
    if !changes.isEmpty {
      guard let usable = try await usable(changes, plan.archives, remote) else { return false }
      changes = usable.changes
      guard
        try local({ () throws(Errno) in
          try catalog.accepts(changes, after: position, incomplete: usable.incomplete)
        })
      else {
        throw .local("the changes of this device do not fit the log; nothing was uploaded")
      }
      // What others are told of must not be gone here after a power cut: they would wait for
      // content that nobody has.
      try local { () throws(Errno) in
        // Not what the plan makes for the log alone: that was never here, so it has not gone.
        try catalog.noteSending(changes.upserts.filter { plan.ofHere.contains($0.id) })
        // Nothing but the content of a conflict's winner is settled when the log has it.
        var won: [ItemRecord] = []
        for record in changes.upserts where plan.winners.contains(record.id) {
          guard let base = try catalog.base(record.id) else { continue }
          won.append(base.with(content: record.content))
        }
        try catalog.noteSending(won)
        try catalog.commit(durable: true)
      }
      guard try local({ () throws(Errno) in try catalog.losses() }) == losses else { return false }
      FaultPoint.reach("sync.announcing")
      guard let committed = try await put(changes, after: position, to: remote) else {
        isRefused = true
        signals.wantLook()
        return false
      }
      newPosition = committed
      // The log has the rest of them.
      for (id, versions) in usable.salvaged {
        try local { () throws(Errno) in try catalog.dropKeptConflicts(versions, of: id) }
      }
    }
    FaultPoint.reach("sync.committed")
    var versions: [ItemID: UploadedContent] = [:]
    var settled = plan.settled
    for (id, version) in plan.versions {
      // What is being written again is an edit of that version by the time it is closed. It stays
      // marked: were it not, and never written to before a crash, nothing would ever make it a
      // version.
      guard let content = staged[id], snapshots[id]?.version != version,
        !isBeingWritten(id)
      else {
        settled[id] = nil
        continue
      }
      versions[id] = UploadedContent(content, as: version)
    }
    // The loser of a conflict is in the log too. Were it an edit still, it would be added again
    // after another device resolved the conflict.
    for record in changes.upserts where plan.undecided.contains(record.id) {
      guard let content = staged[record.id], snapshots[record.id] == nil,
        record.conflicts.contains(where: { $0.id == content.version && $0.manifest != nil }),
        !isBeingWritten(record.id)
      else { continue }
      versions[record.id] = UploadedContent(content, as: content.version)
    }
    let (stamps, undecided) = (settled, plan.undecided)
    let before = versionsForEvents(changes.upserts)
    try local { () throws(Errno) in
      try catalog.committed(
        changes, to: newPosition, stamps: stamps, versions: versions, undecided: undecided,
        keepingParentOf: plan.keepsParent, origin: origin)
    }
    FaultPoint.reach("sync.acknowledged")
    for record in changes.upserts {
      coordinator.tellVersions(
        of: record.id, were: before[record.id] ?? [], are: record.conflicts, by: nil)
    }
    // What is announced and not sent yet is not uploaded.
    coordinator.tellUploaded(
      changes.upserts.filter { $0.content.map { $0.manifest != nil } ?? true }.map(\.id))
    tellCommitted(Set(stamps.keys).union(versions.keys).union(changes.upserts.map(\.id)))
    // An open that the kernel serves marked nothing if the content was no version then; now it is
    // one, and after a crash it must be seen that it may not be that any more.
    for id in versions.keys where isBeingWritten(id) {
      try local { () throws(Errno) in
        guard let number = try catalog.inodeNumber(of: id) else { return }
        try catalog.noteWriteBegan(number)
      }
    }
    told(changes.chunks)
    supplied += versions.count
    for record in plan.upserts where plan.versions[record.id] != nil {
      if let link = record.links.first { turns.sent(link, at: monotonicNanoseconds()) }
    }
    for (id, version) in plan.versions {
      if let snapshot = snapshots[id], snapshot.version == version {
        committedSnapshots[id] = snapshot
        snapshots[id] = nil
      } else {
        staged[id] = nil
        if versions[id] != nil { committedSnapshots[id] = nil }
      }
    }
    return true
  }

  /// Of a segment that is written now.
  var origin: LogOrigin {
    LogOrigin(device: device, time: coordinator.catalog.now)
  }

  private func isBeingWritten(_ id: ItemID) -> Bool {
    guard let number = try? coordinator.catalog.inodeNumber(of: id) else { return false }
    return coordinator.isOpenForWriting(number)
  }
}
