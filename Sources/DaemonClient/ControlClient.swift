package import ControlProtocol
internal import Glibc
internal import Platform
internal import SystemPackage

/// A connection to the daemon of a state directory. Blocking; for one thread at a time.
package final class ControlClient {
  let socket: OpenFile
  private let state: String
  private var buffer = LineBuffer()
  private var nextID = 1
  /// What the daemon said of itself.
  package private(set) var daemon: Greeting

  package static let socketName = "control.sock"

  /// Takes over a connected socket and greets. Throws `Broken` when the other end goes away before
  /// it answers, and a `ControlError` when the daemon is of another protocol.
  private init(socket: OpenFile, state: String) throws {
    self.socket = socket
    self.state = state
    daemon = Greeting(protocolVersion: 0, version: "", pid: 0)
    let mine = Greeting(
      protocolVersion: Product.protocolVersion, version: Product.version, pid: getpid())
    daemon = try exchange(Methods.Hello.self, mine) { (_, _) throws(ControlError) in }
  }

  /// Connects to the daemon of `state`, starting one with `launcher` if none runs.
  package static func connect(state: String, launcher: DaemonLauncher?) throws(ControlError)
    -> ControlClient
  {
    if let client = try connectIfRunning(state: state) { return client }
    guard let launcher else { throw unreachable(state, .connectionRefused) }
    return try launcher.start(state: state)
  }

  /// Connects if a daemon runs; nil if none does.
  ///
  /// One that was killed or told to stop has the socket a while longer, and whoever connects then
  /// is cut off with the greeting unanswered. A greeting does nothing, so nothing is in doubt:
  /// there is no daemon any more.
  ///
  /// One that was killed may have the socket for good, if a thread of it waits in the kernel. It is
  /// freed first.
  package static func connectIfRunning(state: String) throws(ControlError) -> ControlClient? {
    if let complaint = ServedMounts.release(state: state).complaint {
      throw ControlError(.failed, complaint)
    }
    let socket: OpenFile
    do throws(Errno) {
      socket = try UnixSocket.connect(directory: state, name: socketName)
    } catch {
      if isAbsence(error) { return nil }
      throw unreachable(state, error)
    }
    do {
      return try ControlClient(socket: socket, state: state)
    } catch is Broken {
      return nil
    } catch let error as ControlError {
      throw error
    } catch {
      throw notUnderstood(error)
    }
  }

  /// No daemon has the socket: it is not there, or it was left by one that was killed.
  private static func isAbsence(_ error: Errno) -> Bool {
    error == .noSuchFileOrDirectory || error == .connectionRefused
  }

  private static func unreachable(_ state: String, _ error: Errno) -> ControlError {
    if error == .permissionDenied || error == .notPermitted {
      return ControlError(
        .notPermitted,
        "this user may not use the state directory \"\(state)\"; choose another with --state")
    }
    return ControlError(.failed, "cannot reach the daemon of \"\(state)\": \(error)")
  }

  package func call<Method: ControlMethod>(
    _ method: Method.Type, _ parameters: Method.Parameters
  ) throws(ControlError) -> Method.Answer {
    try call(method, parameters) { (_, _) throws(ControlError) in }
  }

  /// Calls `method` and gives each notification that comes before its answer, by name and as the
  /// line that it came in, to `onNotification`.
  package func call<Method: ControlMethod>(
    _ method: Method.Type, _ parameters: Method.Parameters,
    onNotification: (String, [UInt8]) throws(ControlError) -> Void
  ) throws(ControlError) -> Method.Answer {
    do {
      return try exchange(method, parameters, onNotification: onNotification)
    } catch {
      throw Self.failure(error, "the daemon ended before it answered; see `ubiquityfs log`")
    }
  }

  /// Gives every notification that comes to `onNotification`, until the daemon is gone or that
  /// throws.
  package func listen(
    onNotification: (String, [UInt8]) throws(ControlError) -> Void
  ) throws(ControlError) -> Never {
    while true {
      try wait { (name, line) throws(ControlError) in
        try onNotification(name, line)
        return false
      }
    }
  }

  /// As above, until it gives true.
  package func wait(
    until onNotification: (String, [UInt8]) throws(ControlError) -> Bool
  ) throws(ControlError) {
    do {
      while true {
        let line = try nextLine()
        if case .notification(let name) = try Message.received(Nothing.self, in: line),
          try onNotification(name, line)
        {
          return
        }
      }
    } catch {
      throw Self.failure(
        error, "the daemon ended and sends no more notifications; see `ubiquityfs log`")
    }
  }

  private static func failure(_ error: any Error, _ ended: String) -> ControlError {
    switch error {
    case let error as ControlError: error
    case Broken.ended: ControlError(.failed, ended)
    case Broken.failed(let error):
      ControlError(.failed, "the connection to the daemon broke (\(error)); see `ubiquityfs log`")
    default: notUnderstood(error)
    }
  }

  private static func notUnderstood(_ error: any Error) -> ControlError {
    ControlError(.failed, "the daemon's reply is not valid: \(error)")
  }

  /// The other end went away before it answered.
  private enum Broken: Error {
    case ended
    case failed(Errno)
  }

  private func exchange<Method: ControlMethod>(
    _: Method.Type, _ parameters: Method.Parameters,
    onNotification: (String, [UInt8]) throws(ControlError) -> Void
  ) throws -> Method.Answer {
    let id = nextID
    nextID += 1
    let line = try Message.request(id: .number(id), method: Method.name, parameters)
    guard line.count <= LineBuffer.maximumLength else {
      throw ControlError(
        .usage, "the request is too long; name fewer paths, or a directory above them")
    }
    do throws(Errno) { try UnixSocket.send(line, to: socket) } catch { throw Broken.failed(error) }
    while true {
      let line = try nextLine()
      switch try Message.received(Method.Answer.self, in: line) {
      case .result(let answer): return answer
      case .failure(let error): throw error.controlError
      case .notification(let name): try onNotification(name, line)
      }
    }
  }

  private func nextLine() throws -> [UInt8] {
    while true {
      if let line = try buffer.next() { return line }
      // A daemon that is killed meanwhile may keep its end open.
      while !UnixSocket.waitUntilReadable(socket, milliseconds: 1000) {
        if let complaint = ServedMounts.release(state: state).complaint {
          throw ControlError(.failed, complaint)
        }
      }
      let piece: [UInt8]
      do throws(Errno) { piece = try UnixSocket.receive(socket, upTo: 1 << 16) } catch {
        throw Broken.failed(error)
      }
      guard !piece.isEmpty else { throw Broken.ended }
      buffer.append(piece)
    }
  }
}
