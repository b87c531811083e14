internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// Keeps the log short and the backend free of what nobody needs. In the background, beside cycles;
/// it may stop anywhere and goes on from what catalog and backend hold.
extension ContainerSync {
  func compactNowAndThen() async {
    guard settings.compaction.isEnabled else { return }
    while !Task.isCancelled {
      // Not all devices of an account at the same moment after a common start.
      try? await Task.sleep(for: settings.compaction.interval * Double.random(in: 0.7...1.3))
      guard !Task.isCancelled else { return }
      // It is of use to nobody today.
      guard !link.isMetered else { continue }
      do throws(SyncFailure) {
        try await compact()
      } catch {
        // It goes on from there the next time; who wonders why the log stays long finds it here.
        logger.log(level: error.isOfTheNetwork ? .debug : .warning, "compaction failed: \(error)")
      }
    }
  }

  /// Does what is due now. Asks the backend nothing where nothing is.
  package func compact() async throws(SyncFailure) {
    try link.check()
    do throws(CycleFailure) {
      let remote = try await remotely { () throws(RemoteError) in try await link.container() }
      let catalog = coordinator.catalog
      try await tellCursor(to: remote)
      let length = try local { () throws(Errno) in try catalog.logLength() }
      if settings.compaction.isSnapshotDue(length, for: device) {
        try await writeSnapshot(to: remote)
      }
      try await removeOldLog(of: remote)
      guard settings.compaction.removesPacks else { return }
      try await deleteCondemned(of: remote)
      if try isSearchDue(length) {
        try await collectGarbage(of: remote)
        try local { () throws(Errno) in
          try catalog.setCompactionNote("search", catalog.now.nanoseconds)
          try catalog.setCompactionNote(
            "searched", Int64(clamping: catalog.position().sequence))
        }
      }
    } catch .overtaken {
      // The next compaction starts over.
      logger.debug("compaction stopped: the state of the catalog was replaced")
    } catch {
      throw error.asSyncFailure
    }
  }

  /// Not while nothing has happened since the last time: then there is no new garbage. What was
  /// removed and is kept no longer is garbage without anything happening.
  private func isSearchDue(_ length: LogLength) throws(CycleFailure) -> Bool {
    let catalog = coordinator.catalog
    let now = catalog.now
    return try local { () throws(Errno) in
      guard let last = try catalog.compactionNote("search") else {
        try catalog.setCompactionNote("search", now.nanoseconds)
        return false
      }
      guard
        settings.compaction.isSearchDue(
          last: Timestamp(nanoseconds: last), length, for: device, now: now)
      else { return false }
      if try catalog.compactionNote("searched") != Int64(clamping: length.position.sequence) {
        return true
      }
      let oldest = now.advanced(by: -CompactionPolicy.days(Int64(settings.keepRemovedDays)))
      return try !catalog.removedItems(before: oldest, limit: 1).isEmpty
    }
  }

  /// Puts a segment of compaction's own after the head. `make` is asked on each state that one
  /// could come after, and gives an empty one when there is nothing to say any more. Gives whether
  /// one was put.
  func append(
    to remote: RemoteContainer, _ make: () throws(CycleFailure) -> LogChanges
  ) async throws(CycleFailure) -> Bool {
    let catalog = coordinator.catalog
    var backoff = Backoff()
    for _ in 0..<20 {
      guard !Task.isCancelled else { throw .cancelled }
      // Whether it settles or not, it read the log to its head.
      if case .failed(.offline) = await runCycle(freshly: true) { throw .remote(.store(.offline)) }
      let position = try local { () throws(Errno) in try catalog.position() }
      let changes = try make()
      guard !changes.isEmpty,
        try local({ () throws(Errno) in try catalog.accepts(changes, after: position) })
      else { return false }
      if try await put(changes, after: position, to: remote) != nil {
        // It is folded like any other device's.
        _ = await runCycle(freshly: true)
        return true
      }
      await backoff.pause()
    }
    return false
  }
}
