internal import Backend
internal import ControlProtocol
internal import Model
internal import SyncEngine

extension DaemonService {
  /// Of the containers that are named, or of all of which the store is not what this device knows.
  func recover(_ request: RecoverRequest, _ connection: ClientConnection)
    throws(ControlError) -> RecoveryReport
  {
    let account = try requireAccount()
    guard !offline.isOffline else {
      throw ControlError(
        .offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
    }
    try lookForBackend(account, connection)
    var sessions: [ContainerSession] = []
    for name in request.containers {
      guard let found = account.sessions.first(where: { $0.id.description == name }) else {
        throw ControlError(.notFound, "there is no container “\(name)” on this device")
      }
      sessions.append(found)
    }
    if request.containers.isEmpty {
      // A daemon that just started has not compared anything with the store.
      for session in account.sessions where session.sync.condition.isNormal {
        let sync = session.sync
        _ = try connection.wait { try await sync.lookAtStore() }
      }
      sessions = account.sessions.filter { !$0.sync.condition.isNormal && !$0.sync.isDeleted }
    }
    var result: [RecoveredContainer] = []
    for session in sessions {
      let sync = session.sync
      let outcome = try connection.wait { try await sync.recoverStore() }
      result.append(
        RecoveredContainer(
          id: session.id.description, recovered: outcome.sequence != nil, items: outcome.items,
          uploaded: outcome.uploaded, missing: outcome.missing))
    }
    return RecoveryReport(containers: result)
  }
}
