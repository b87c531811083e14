internal import ControlProtocol
internal import Coordination
internal import Platform

/// Commands that are to download nothing, and who asks over the control socket.
extension DaemonService {
  /// `ubiquityfs run` registers itself; then it becomes the command.
  func registerRun(
    _ request: RunRequest, _ connection: ClientConnection
  ) throws(ControlError) {
    guard let access = Self.access(request) else {
      throw ControlError(
        .usage,
        "the access of a run must be `deny` with EPERM or EAGAIN, or `rangeOnly`, not "
          + "\"\(request.access.prefix(100))\"")
    }
    guard let peer = connection.peer, peer.process > 0,
      let start = Processes.start(of: peer.process), start.ticks == request.started
    else {
      throw ControlError(
        .failed,
        "the daemon cannot see the calling process; run it in the daemon's PID namespace")
    }
    downloads.register(start, access)
  }

  private static func access(_ request: RunRequest) -> DownloadAccess? {
    switch (request.access, request.error) {
    case ("rangeOnly", nil): .rangeOnly
    case ("deny", let error?): DownloadAccess.errors[error].map { .deny($0) }
    default: nil
    }
  }

  func requester(_ connection: ClientConnection) -> Requester? {
    connection.peer.flatMap { downloads.requester(ofThread: $0.process) }
  }
}
