internal import Catalog
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// Devices that join and leave, as far as a container's sync has to know.
extension ContainerSync {
  /// Another device removed this one from the account. It stops, and keeps everything that is
  /// local: nothing is uploaded, evicted or removed any more.
  package func endMembership(_ reason: String) {
    guard link.end(.deviceRemoved(reason)) else { return }
    setCondition(.removed(reason))
    uploads.cancelAll()
    dropArrivals()
    stopWatching()
  }

  /// Puts a segment without changes, if devices were removed and the log does not say so yet: what
  /// they put after it is void. False: the log is to be read again first.
  func announceMembers(_ remote: RemoteContainer) async throws(CycleFailure) -> Bool {
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    guard remote.lacksMembers(at: position) else { return true }
    let origin = origin
    guard let committed = try await put(LogChanges(), after: position, to: remote) else {
      signals.wantLook()
      return false
    }
    try local { () throws(Errno) in
      try coordinator.catalog.fold(LogChanges(), to: committed, from: origin, isOwn: true)
    }
    logger.info("the log names entry \(committed.members) of the member log")
    return true
  }
}
