internal import Backend
internal import ControlProtocol
internal import Logging
internal import Model
internal import RemoteStore
internal import SyncEngine

extension DaemonService {
  /// Of the containers that are named, or of all of which the store is not what this device knows.
  /// A container that fails does not keep others from it.
  func recover(_ request: RecoverRequest, _ connection: ClientConnection)
    throws(ControlError) -> RecoveryReport
  {
    let account = try requireAccount()
    guard !offline.isOffline else {
      throw ControlError(
        .offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
    }
    try lookForBackend(account, connection)
    var sessions = try request.containers.map { name throws(ControlError) in
      try session(named: name, of: account)
    }
    var report = RecoveryReport()
    // First: no device could join what is recovered into a store without it.
    report.formatRestored = try restoreFormat(account, connection)
    if request.containers.isEmpty {
      sessions = try unsoundContainers(account, connection, &report)
    }
    for session in sessions {
      let sync = session.sync
      do throws(ControlError) {
        let outcome = try connection.wait { try await sync.recoverStore() }
        report.containers.append(
          RecoveredContainer(
            id: session.id.description, recovered: outcome.sequence != nil, items: outcome.items,
            uploaded: outcome.uploaded, missing: outcome.missing))
      } catch {
        guard !connection.isClosed else { throw error }
        report.failures.append(FailedRecovery(id: session.id.description, error))
      }
    }
    return report
  }

  private func session(named name: String, of account: AccountSession) throws(ControlError)
    -> ContainerSession
  {
    if let found = account.sessions.first(where: { $0.id.description == name }) { return found }
    if let failure = account.failures.first(where: { $0.key.description == name }) {
      throw ControlError(.failed, failure.value)
    }
    throw ControlError(.notFound, "the container \"\(name)\" is not on this device")
  }

  /// Puts the object with which devices sign in again. False: the store has it.
  private func restoreFormat(_ account: AccountSession, _ connection: ClientConnection)
    throws(ControlError) -> Bool
  {
    let remote = account.account
    switch try connection.wait({ try await remote.restoreFormat() }) {
    case .present: return false
    case .restored:
      logger.notice("the backend lacked the object \"format\"; the object was restored")
      // Most likely the store lost the record of this device, too.
      try? connection.wait { try await account.connect() }
      return true
    case .ofAnotherAccount:
      throw ControlError(
        .failed,
        "the backend \"\(account.stored.backend)\" holds another account: its object \"format\" "
          + "differs from the one with which this device signed in. Nothing was changed. Restore "
          + "the newest copy of the backend, or move the objects of the other account to another "
          + "place, then run `ubiquityfs store recover` again")
    }
  }

  /// The containers of which the store is not what this device knows. Those that cannot be looked
  /// at become failures of the report.
  private func unsoundContainers(
    _ account: AccountSession, _ connection: ClientConnection, _ report: inout RecoveryReport
  ) throws(ControlError) -> [ContainerSession] {
    for (id, failure) in account.failures.sorted(by: { $0.key < $1.key }) {
      report.failures.append(
        FailedRecovery(id: id.description, ControlError(.failed, failure)))
    }
    var result: [ContainerSession] = []
    for session in account.sessions {
      let sync = session.sync
      // A daemon that just started has not compared anything with the store.
      if sync.condition.isNormal {
        do throws(ControlError) {
          try connection.wait { try await sync.lookAtStore() }
        } catch {
          guard !connection.isClosed else { throw error }
          report.failures.append(FailedRecovery(id: session.id.description, error))
          continue
        }
      }
      if !sync.condition.isNormal, !sync.isDeleted { result.append(session) }
    }
    return result
  }
}
