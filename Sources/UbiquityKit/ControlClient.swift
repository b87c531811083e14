package import ControlProtocol
internal import Glibc
package import Platform
internal import SystemPackage

/// A connection to the daemon of a state directory. Blocking; for one thread at a time.
package final class ControlClient {
  private let socket: OpenFile
  private var buffer = LineBuffer()
  private var nextID = 1
  /// What the daemon said of itself.
  package private(set) var daemon: Greeting

  package static let socketName = "control.sock"

  /// Takes over a connected socket and greets. Throws when the daemon is of another protocol.
  package init(socket: OpenFile) throws(ControlError) {
    self.socket = socket
    daemon = Greeting(protocolVersion: 0, version: "", pid: 0)
    let mine = Greeting(
      protocolVersion: Product.protocolVersion, version: Product.version, pid: getpid())
    daemon = try call(Methods.Hello.self, mine)
  }

  /// Connects to the daemon of `state`, starting one with `launcher` if none runs.
  package static func connect(state: String, launcher: DaemonLauncher?) throws(ControlError)
    -> ControlClient
  {
    do {
      return try ControlClient(
        socket: try UnixSocket.connect(directory: state, name: socketName))
    } catch let error as Errno {
      guard let launcher, isAbsence(error) else { throw Self.unreachable(state, error) }
      return try ControlClient(socket: try launcher.start(state: state))
    } catch let error as ControlError {
      throw error
    } catch {
      throw ControlError(.failed, "\(error)")
    }
  }

  /// Connects if a daemon runs; nil if none does.
  package static func connectIfRunning(state: String) throws(ControlError) -> ControlClient? {
    let socket: OpenFile
    do throws(Errno) {
      socket = try UnixSocket.connect(directory: state, name: socketName)
    } catch {
      if isAbsence(error) { return nil }
      throw unreachable(state, error)
    }
    return try ControlClient(socket: socket)
  }

  /// No daemon has the socket: it is not there, or it was left by one that was killed.
  static func isAbsence(_ error: Errno) -> Bool {
    error == .noSuchFileOrDirectory || error == .connectionRefused
  }

  static func unreachable(_ state: String, _ error: Errno) -> ControlError {
    if error == .permissionDenied || error == .notPermitted {
      return ControlError(
        .notPermitted,
        "the state directory \(state) is not yours to use; choose another with --state")
    }
    return ControlError(.failed, "the daemon of \(state) cannot be reached: \(error)")
  }

  package func call<Method: ControlMethod>(
    _ method: Method.Type, _ parameters: Method.Parameters
  ) throws(ControlError) -> Method.Answer {
    try call(method, parameters) { (_, _) throws(ControlError) in }
  }

  /// Calls `method` and gives each notification that comes before its answer, by name and as the
  /// line that it came in, to `onNotification`.
  package func call<Method: ControlMethod>(
    _: Method.Type, _ parameters: Method.Parameters,
    onNotification: (String, [UInt8]) throws(ControlError) -> Void
  ) throws(ControlError) -> Method.Answer {
    do {
      let id = nextID
      nextID += 1
      let line = try Message.request(id: .number(id), method: Method.name, parameters)
      guard line.count <= LineBuffer.maximumLength else {
        throw ControlError(
          .usage, "this is too much for one command; name fewer paths, or a directory above them")
      }
      try UnixSocket.send(line, to: socket)
      while true {
        let line = try nextLine()
        switch try Message.received(Method.Answer.self, in: line) {
        case .result(let answer): return answer
        case .failure(let error): throw error.controlError
        case .notification(let name): try onNotification(name, line)
        }
      }
    } catch let error as ControlError {
      throw error
    } catch let error as Errno {
      throw ControlError(
        .failed, "the connection to the daemon broke (\(error)); see `ubiquityfs log`")
    } catch {
      throw ControlError(.failed, "the daemon's reply is not understood: \(error)")
    }
  }

  private func nextLine() throws -> [UInt8] {
    while true {
      if let line = try buffer.next() { return line }
      let piece = try UnixSocket.receive(socket, upTo: 1 << 16)
      guard !piece.isEmpty else {
        throw ControlError(.failed, "the daemon ended before it answered; see `ubiquityfs log`")
      }
      buffer.append(piece)
    }
  }
}
