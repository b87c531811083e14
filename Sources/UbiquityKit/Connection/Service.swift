internal import ControlProtocol
internal import DaemonClient
internal import Foundation
internal import Platform

/// This process's connection to the daemon of its state directory: made when something first needs
/// it, and made anew when it was lost.
final class Service: Sendable {
  typealias Handler = DaemonConnection.Handler

  /// Of the state directory that the environment names.
  static let shared = Service(
    state: StateLocation.standard(environment: ProcessInfo.processInfo.environment))

  private struct State {
    var connection: DaemonConnection?
    var handlers: [String: Handler] = [:]
    var restorers: [@Sendable (DaemonConnection) -> Void] = []
    var isReconnecting = false
  }

  let stateDirectory: String
  private let connecting = Lock(())
  /// After `connecting` where both are held.
  private let state = Lock(State())

  init(state: String) { stateDirectory = state }

  /// The connection that there is, or a new one; a daemon is started if none runs. May block for as
  /// long as a daemon takes to start. Not on the thread that handlers run on.
  func connection() throws(ControlError) -> DaemonConnection {
    if let connection = existing { return connection }
    return try connect(launcher: DaemonLauncher(executable: Self.executable))
  }

  /// The connection that there is.
  var existing: DaemonConnection? {
    state.withLock { state in state.connection.flatMap { $0.isEnded ? nil : $0 } }
  }

  private func connect(launcher: DaemonLauncher?) throws(ControlError) -> DaemonConnection {
    try connecting.withLock { _ throws(ControlError) in
      if let connection = existing { return connection }
      let connection = try DaemonConnection.connect(
        state: stateDirectory, launcher: launcher
      ) { [weak self] method, line in
        self?.state.withLock { $0.handlers[method] }?(method, line)
      }
      let restorers = state.withLock { state in
        state.connection = connection
        return state.restorers
      }
      for restore in restorers { restore(connection) }
      connection.onEnd { [weak self] in self?.reconnect() }
      return connection
    }
  }

  /// What is to be told goes on being told when the daemon was restarted. None is started for it:
  /// who stopped it meant it.
  func reconnect() {
    let mustStart = state.withLock { state in
      guard !state.restorers.isEmpty, !state.isReconnecting else { return false }
      state.isReconnecting = true
      return true
    }
    guard mustStart else { return }
    Task.detached { [self] in
      defer { state.withLock { $0.isReconnecting = false } }
      while existing == nil {
        try? await Task.sleep(for: .milliseconds(500))
        _ = try? connect(launcher: nil)
      }
    }
  }

  // MARK: What the daemon tells

  /// One handler for each method; it runs on the connection's thread and must not wait for the
  /// daemon.
  func handle(_ method: String, with handler: @escaping Handler) {
    state.withLock { $0.handlers[method] = handler }
  }

  /// `restore` runs after each connecting, on the thread that connects, and may ask the daemon.
  func onConnect(_ restore: @escaping @Sendable (DaemonConnection) -> Void) {
    state.withLock { $0.restorers.append(restore) }
  }

  /// The program of the daemon: what `UBIQUITYFS_EXECUTABLE` names, else `ubiquityfs` in `PATH`.
  private static var executable: String {
    let environment = ProcessInfo.processInfo.environment
    if let named = environment["UBIQUITYFS_EXECUTABLE"], !named.isEmpty { return named }
    for directory in (environment["PATH"] ?? "").split(separator: ":") {
      let path = "\(directory)/ubiquityfs"
      if FileManager.default.isExecutableFile(atPath: path) { return path }
    }
    return "/usr/local/bin/ubiquityfs"
  }
}
