internal import ControlProtocol
internal import Platform

/// The connections that want to hear when an account is signed in or out.
final class IdentityListeners: Sendable {
  private let connections = Lock<[ObjectIdentifier: ClientConnection]>([:])

  /// On the connection's thread; it ends with the connection.
  func add(_ connection: ClientConnection) {
    let key = ObjectIdentifier(connection)
    let isNew = connections.withLock { $0.updateValue(connection, forKey: key) == nil }
    guard isNew else { return }
    connection.onEnd { [self] in connections.withLock { _ = $0.removeValue(forKey: key) } }
  }

  func tell(_ report: IdentityReport) {
    for connection in connections.withLock({ Array($0.values) }) {
      connection.notify(Notifications.accountChanged, report)
    }
  }
}

/// Which account is signed in, for programs: without its secret, its backend or a look at either.
extension DaemonService {
  func identity(_ request: IdentityRequest, _ connection: ClientConnection) -> IdentityReport {
    if request.notifies == true { identityListeners.add(connection) }
    return IdentityReport(identity: state.storedIdentity)
  }

  func tellIdentity() { identityListeners.tell(IdentityReport(identity: state.storedIdentity)) }
}
