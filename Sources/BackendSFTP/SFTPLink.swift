internal import Backend
internal import Platform

/// The session with the server, started when it is first needed and again after it failed.
///
/// Safe from any task. Tasks that need a session at the same time start one together.
final class SFTPLink: Sendable {
  private struct State {
    var session: SFTPSession?
    var start: Task<Result<SFTPSession, SFTPFailure>, Never>?
  }

  private let words: [String]
  private let environment: [String: String]
  private let patience: Duration
  private let state = Lock(State())

  /// A program and arguments in place of `ssh` and its options, separated by blanks, such as
  /// `/usr/lib/openssh/sftp-server`. It gets no arguments more.
  private static let commandVariable = "UBIQUITYFS_SFTP_COMMAND"

  init(_ address: SFTPAddress, environment: [String: String], patience: Duration) {
    self.environment = environment
    self.patience = patience
    if let command = environment[Self.commandVariable], !command.isEmpty {
      words = command.split(separator: " ").map(String.init)
    } else {
      words = Self.ssh(address)
    }
  }

  deinit { state.withLock { $0.session }?.stop() }

  private static func ssh(_ address: SFTPAddress) -> [String] {
    var words = [
      "ssh",
      // Nobody answers questions.
      "-oBatchMode=yes", "-oConnectTimeout=10", "-oLogLevel=ERROR", "-oForwardAgent=no",
      "-oClearAllForwardings=yes", "-oPermitLocalCommand=no", "-oRequestTTY=no",
    ]
    if let port = address.port { words += ["-p", "\(port)"] }
    if let user = address.user { words += ["-l", user] }
    return words + ["-s", "--", address.host, "sftp"]
  }

  func files() async throws(SFTPFailure) -> SFTPFiles {
    let task: Task<Result<SFTPSession, SFTPFailure>, Never>? = state.withLock { state in
      if let session = state.session, session.isAlive { return nil }
      if let start = state.start { return start }
      let (words, environment, patience) = (words, environment, patience)
      let start = Task {
        // A failure crosses as a value: `BlockingWork` and typed errors of closures do not mix.
        await BlockingWork.run { () -> Result<SFTPSession, SFTPFailure> in
          do throws(SFTPFailure) {
            return .success(
              try SFTPSession(words, environment: environment, patience: patience))
          } catch {
            return .failure(error)
          }
        }
      }
      state.start = start
      return start
    }
    guard let task else {
      if let session = state.withLock({ $0.session }) { return SFTPFiles(session: session) }
      return try await files()
    }
    let result = await task.value
    state.withLock { state in
      guard state.start == task else { return }
      state.start = nil
      state.session = try? result.get()
    }
    return SFTPFiles(session: try result.get())
  }
}
