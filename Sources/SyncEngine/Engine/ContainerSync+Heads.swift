internal import Catalog
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// Devices tell each other with their cursors which segment they read last, and its hash. So a
/// device to which a store shows an older log, or another one, than to the others finds out.
extension ContainerSync {
  func compareHeadsNowAndThen() async {
    var idle = 0
    var pause = Duration.seconds(60)
    var last: LogPosition?
    while !Task.isCancelled {
      try? await Task.sleep(for: pause * Double.random(in: 0.7...1.3))
      pause = settings.headExchange
      guard !Task.isCancelled else { return }
      guard !link.isMetered, condition.isNormal else { continue }
      // While nothing happens here this costs next to nothing.
      let position = try? coordinator.catalog.position()
      idle = position == last ? idle + 1 : 0
      guard idle % 4 == 0 else { continue }
      do throws(SyncFailure) { try await compareHeads() } catch {
        logger.debug("cannot read the positions of remote devices: \(error)")
      }
      last = try? coordinator.catalog.position()
    }
  }

  package func compareHeads() async throws(SyncFailure) {
    try link.check()
    // It looks whether the store still has what this device read.
    if case .failed(let failure) = await runCycle(freshly: true) { throw failure }
    do throws(CycleFailure) {
      let remote = try await remotely { () throws(RemoteError) in try await link.container() }
      try await keepNameIfReadable(remote)
      try await tellCursor(to: remote, isDue: true)
      let (cursors, damaged) = try await remotely { () throws(RemoteError) in
        try await remote.readableCursors()
      }
      for failure in damaged { logger.warning("\(failure)") }
      let recovery = try local { () throws(Errno) in try coordinator.catalog.recovery() }
      let others = cursors.filter {
        $0.device != device && $0.hash != nil && $0.recovery == recovery?.number ?? 0
      }
      let position = try local { () throws(Errno) in try coordinator.catalog.position() }
      if others.contains(where: { $0.sequence > position.sequence }) {
        // They may have written meanwhile.
        _ = await runCycle(freshly: true)
      }
      for cursor in others where try !hasRead(cursor) {
        foreignHead = cursor
        throw rolledBack(Self.text(cursor))
      }
    } catch {
      throw error.asSyncFailure
    }
  }

  /// Whether the log that is shown to this device has what the other one read.
  private func hasRead(_ cursor: DeviceCursor) throws(CycleFailure) -> Bool {
    let known = try local { () throws(Errno) in try coordinator.catalog.foldedPositions() }
    guard let head = known.last, cursor.sequence <= head.sequence else { return false }
    let own = known.first { $0.sequence == cursor.sequence }
    return own.map { $0.hash == cursor.hash } ?? true
  }

  /// At the end of the log: throws while it is not the one that another device has read.
  func checkForeignHead() throws(CycleFailure) {
    guard let cursor = foreignHead else { return }
    let recovery = try local { () throws(Errno) in try coordinator.catalog.recovery() }
    guard cursor.recovery == recovery?.number ?? 0, try !hasRead(cursor) else {
      foreignHead = nil
      return setCondition(.normal)
    }
    throw rolledBack(Self.text(cursor))
  }

  private static func text(_ cursor: DeviceCursor) -> String {
    "device \(cursor.device) read segment \(cursor.sequence) of another log than this device"
  }
}
