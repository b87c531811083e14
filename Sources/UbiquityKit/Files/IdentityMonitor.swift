internal import ControlProtocol
internal import DaemonClient
internal import Foundation
internal import Platform

/// Posts `NSUbiquityIdentityDidChange`.
///
/// The daemon says when an account is signed in or out. What it did while there was no connection
/// shows when there is one again: every connecting compares.
final class IdentityMonitor: Sendable {
  static let shared = IdentityMonitor(service: .shared)

  private struct State {
    var isWatching = false
    var last: String?
  }

  private let service: Service
  private let state = Lock(State())
  /// Observers may wait for the daemon; the connection's own thread must not.
  private let posts = DispatchQueue(label: "org.ubiquityfs.identity")

  init(service: Service) { self.service = service }

  /// Which account the state directory says is signed in. Asks no daemon, which may not run.
  static func identity(state: String) -> String? {
    Files.smallText(state + "/" + IdentityReport.fileName).flatMap { $0.isEmpty ? nil : $0 }
  }

  /// Starts no daemon: nobody signs in or out without one.
  func begin() {
    let isFirst = state.withLock { state in
      guard !state.isWatching else { return false }
      state.isWatching = true
      state.last = Self.identity(state: service.stateDirectory)
      return true
    }
    guard isFirst else { return }
    service.handle(Notifications.accountChanged) { [self] _, _ in compareLater() }
    service.onConnect { [self] connection in subscribe(connection) }
    if let connection = service.existing {
      subscribe(connection)
    } else {
      service.reconnect()
    }
  }

  private func subscribe(_ connection: DaemonConnection) {
    connection.call(Methods.AccountIdentity.self, IdentityRequest(notifies: true)) { [self] _ in
      compareLater()
    }
  }

  /// What is now counts, not what was said: of several changes in a row the last one is told at
  /// least.
  private func compareLater() {
    posts.async { [self] in
      let now = Self.identity(state: service.stateDirectory)
      let isNews = state.withLock { state in
        defer { state.last = now }
        return state.last != now
      }
      guard isNews else { return }
      NotificationCenter.default.post(
        name: Notification.Name.NSUbiquityIdentityDidChange, object: nil)
    }
  }
}
