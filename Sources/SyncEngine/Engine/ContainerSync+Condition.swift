internal import Catalog
package import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
package import SystemPackage

/// Whether the store holds what this device has read: checked with every look at the log, before
/// every put, and before anything local is evicted.
extension ContainerSync {
  package nonisolated var condition: StoreCondition { health.condition }

  /// Nil while the store is sound.
  nonisolated var storeProblem: String? { condition.problem(of: coordinator.container) }

  func setCondition(_ condition: StoreCondition) {
    guard health.set(condition) else { return }
    if let problem = condition.problem(of: coordinator.container) {
      // Nothing is put into such a store.
      uploads.cancelAll()
      logger.error("\(problem)")
    } else {
      logger.notice(
        "the backend of \"\(coordinator.container)\" has the log again that this device read")
    }
    coordinator.tellContainer()
  }

  /// Whether a round may send something without reading the log: this device looked at it a moment
  /// ago, has read or put the segment at its position since, and heard of no news. Another device
  /// may have been first all the same, or the store may have gone back. A put finds that: its place
  /// has to be free and the segment before it there (`RemoteContainer.isInLog`).
  func isLogFresh(at position: LogPosition) -> Bool {
    hurrying == 0 && foreignHead == nil && !signals.wantsLook
      && monotonicNanoseconds() &- lookedAt <= StoreHealth.freshness
      && health.isConfirmed(position, within: StoreHealth.freshness)
  }

  /// The log as it is after a position, with the check that the store still has that position. The
  /// hash is compared when something is about to be put, and on the first look after an
  /// interruption.
  func look(_ remote: RemoteContainer, after position: LogPosition) async throws(CycleFailure)
    -> LogBatch
  {
    let started = monotonicNanoseconds()
    let isWanted = signals.beginLook()
    let isDirty = try local { () throws(Errno) in try coordinator.catalog.dirtyCount() } > 0
    // A user who asks for a sync is told of a rollback at once.
    let isThorough = !health.isConnected || hurrying > 0
    let readsHead =
      isThorough
      || (isDirty && !health.isConfirmed(position, within: StoreHealth.putLimit / 2))
    let looksBack =
      isThorough ? StoreHealth.thoroughLook : readsHead ? StoreHealth.longLook : StoreHealth.look
    // After news the next segment is asked for beside the list.
    let readsNext = isWanted && remote.looksForNews && hasNews
    hasNews = false
    let batch = try await remotely { () throws(RemoteError) in
      try await remote.batch(
        after: position, readsHead: readsHead, looksBack: looksBack, readsNext: readsNext)
    }
    if readsHead { health.confirm(position, at: started) }
    lookedAt = started
    return batch
  }

  /// The store shows another log than this device has read.
  func rolledBack(_ reason: String) -> CycleFailure {
    setCondition(.rolledBack(reason: reason))
    return .unsound(storeProblem ?? reason)
  }

  /// To be called before anything in the store is put or removed. Within a cycle this costs
  /// nothing: the look at its beginning, or shortly before, was that check.
  ///
  /// `lost`: a snapshot that the store has lost. Without it the log begins with a gap. Old log goes
  /// only up to a snapshot, so the gap ends with that snapshot's segment: all later segments have
  /// to be there. This confirms nothing, since the store is not sound yet.
  func requireSoundStore(
    _ remote: RemoteContainer, withoutSnapshot lost: UInt64? = nil
  ) async throws(CycleFailure) {
    if PlantedMistake.putsUnchecked.isPlanted { return }
    if let problem = storeProblem { throw .unsound(problem) }
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    guard position.sequence > 0 else { return }
    if lost == nil, health.isConfirmed(position, within: StoreHealth.putLimit) { return }
    let started = monotonicNanoseconds()
    do throws(RemoteError) {
      if let lost {
        try await remote.requireLog(after: lost, upTo: position)
      } else {
        try await readHead(remote, position)
      }
    } catch {
      // The next cycle finds out what it means.
      if !error.isTransient { signals.look() }
      throw .remote(error)
    }
    if lost == nil { health.confirm(position, at: started) }
  }

  /// Later segments in the list are left to a cycle. A store that is asked for news does not tell
  /// of them again, since its list had them.
  private nonisolated func readHead(
    _ remote: RemoteContainer, _ position: LogPosition
  ) async throws(RemoteError) {
    let others = try await remote.segments(
      after: position, readsHead: true, looksBack: StoreHealth.longLook)
    if !others.isEmpty { signals.look() }
  }

  /// Reads the head of the log now. Throws when the store does not hold what this device has read.
  func confirmHead(_ remote: RemoteContainer) async throws(CycleFailure) {
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    guard position.sequence > 0 else { return }
    let started = monotonicNanoseconds()
    do throws(RemoteError) {
      try await readHead(remote, position)
    } catch .rolledBack(let object) {
      throw rolledBack("\"\(object)\" is missing or differs from the object that this device read")
    } catch {
      throw .remote(error)
    }
    health.confirm(position, at: started)
  }

  /// Reads the head of the log before a copy gives way here. An answer that was long on its way
  /// does not count: the store may have gone back since.
  func confirmBeforeDropping(_ remote: RemoteContainer) async throws(CycleFailure) {
    for _ in 0..<3 {
      let started = monotonicNanoseconds()
      try await confirmHead(remote)
      if monotonicNanoseconds() &- started <= StoreHealth.dropLimit { return }
    }
    let seconds = StoreHealth.dropLimit / 1_000_000_000
    throw .remote(
      .store(
        .unavailable(
          "the backend takes more than \(seconds) s to return the end of the log; a file that lost "
            + "a conflict is replaced only after a faster answer")))
  }

  /// Reads the head of the log now, and sets `condition` if the store does not hold it, or if
  /// another device deleted the container. A store that cannot be read changes nothing.
  package func checkHead() async {
    guard !isDeleted, let remote = try? await link.container() else { return }
    do throws(CycleFailure) {
      try await confirmHead(remote)
      // The cycle finds that the store is sound again.
      if !condition.isNormal { signals.look() }
    } catch {
      if case .remote(let failure) = error {
        if failure.isTransient { return }
        if case .deleted(let deletion) = failure { _ = ended(by: deletion) }
      }
      // The cycle finds out what it means.
      signals.look()
    }
  }

  /// Puts a segment into the log, unless the store is not sound.
  func put(
    _ changes: LogChanges, after position: LogPosition, to remote: RemoteContainer
  ) async throws(CycleFailure) -> LogPosition? {
    try await requireSoundStore(remote)
    let origin = origin
    let committed: LogPosition?
    do throws(RemoteError) {
      committed = try await remote.commit(changes, after: position, from: origin)
    } catch .rolledBack(let object) {
      throw rolledBack("\"\(object)\" is missing or differs from the object that this device read")
    } catch {
      throw .remote(error)
    }
    if let committed {
      health.confirm(committed)
      committedAt = monotonicNanoseconds()
    }
    return committed
  }
}

extension ContainerSync: StoreConfirming {
  package nonisolated func evictionRefusal(since: UInt64) -> Errno? {
    if PlantedMistake.evictsUnchecked.isPlanted { return nil }
    if PlantedMistake.evictsDeleted.isPlanted, link.isEnded { return nil }
    if !condition.isNormal { return .resourceBusy }
    if link.obstacle != nil { return .networkDown }
    return health.mayEvict(since: since) ? nil : .resourceTemporarilyUnavailable
  }

  package nonisolated func confirmStore(
    since: UInt64, _ completion: @escaping @Sendable (Errno?) -> Void
  ) {
    let refusal = evictionRefusal(since: since)
    guard refusal == .resourceTemporarilyUnavailable else { return completion(refusal) }
    let isFirst = health.join { isSound in
      let refusal = self.condition.isNormal ? Errno.networkDown : Errno.resourceBusy
      completion(isSound ? nil : refusal)
    }
    guard isFirst else { return }
    Task { self.health.checked(await self.isStoreSound()) }
  }

  /// One list request and one for the head, and at times a list of the packs; beside cycles, of
  /// which one may take long. `isListed`: the list was read just now.
  private nonisolated func isStoreSound(isListed: Bool = false) async -> Bool {
    let started = monotonicNanoseconds()
    do {
      let remote = try await link.container()
      let position = try coordinator.catalog.position()
      guard position.sequence > 0 else { return false }
      try await readHead(remote, position)
      health.confirm(position, at: started)
      if isListed || health.hasInventory { return health.grantEvictions(at: started) }
      try await takeInventory(remote)
      // That may have taken long.
      return await isStoreSound(isListed: true)
    } catch let error as RemoteError {
      switch error {
      case .rolledBack(let object): await suspect(object)
      case .logRemoved: signals.look()
      default: break
      }
      return false
    } catch {
      return false
    }
  }

  /// A cycle finds out what it means; until then nothing is evicted.
  private func suspect(_ object: String) {
    guard condition.isNormal else { return }
    setCondition(
      .rolledBack(
        reason: "\"\(object)\" is missing or differs from the object that this device read"))
    signals.look()
  }
}
