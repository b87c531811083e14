package import ControlProtocol
internal import Platform
internal import SystemPackage

/// A connection to the daemon on which many requests are under way at a time, and on which the
/// daemon tells things of its own. For any thread.
///
/// A thread of its own reads. It gives notifications to the handler in the order in which they
/// came, so that what a handler does must not wait for an answer on the same connection.
package final class DaemonConnection: Sendable {
  /// A notification's method, and the line that it came in: see `Message.parameters`.
  package typealias Handler = @Sendable (_ method: String, _ line: [UInt8]) -> Void

  private struct State {
    var nextID = 1
    var waiting: [Int: @Sendable (Result<[UInt8], ControlError>) -> Void] = [:]
    var end: ControlError?
    var endings: [@Sendable () -> Void] = []
  }

  private let socket: OpenFile
  private let handler: Handler
  /// Before `state` where both are held.
  private let sending = Lock(())
  private let state = Lock(State())
  /// What the daemon said of itself.
  package let daemon: Greeting

  /// Takes over a client's connection, on which nothing is under way.
  package init(_ client: ControlClient, handler: @escaping Handler) {
    socket = client.socket
    daemon = client.daemon
    self.handler = handler
    _ = startThread { [self] in read() }
  }

  /// Connects to the daemon of `state`, starting one with `launcher` if none runs.
  package static func connect(
    state: String, launcher: DaemonLauncher?, handler: @escaping Handler
  ) throws(ControlError) -> DaemonConnection {
    DaemonConnection(
      try ControlClient.connect(state: state, launcher: launcher), handler: handler)
  }

  /// Ends it: what is under way fails, and with it end its claims and presenters.
  package func close() { UnixSocket.shutdown(socket) }

  package var isEnded: Bool { state.withLock { $0.end != nil } }

  /// Runs `action` when the connection has ended, at once if it has.
  package func onEnd(_ action: @escaping @Sendable () -> Void) {
    let isOver = state.withLock { state in
      if state.end == nil { state.endings.append(action) }
      return state.end != nil
    }
    if isOver { action() }
  }

  // MARK: Requests

  /// Blocks until the answer is there. Not on the connection's own thread, which the handler runs
  /// on.
  package func callAndWait<Method: ControlMethod>(
    _ method: Method.Type, _ parameters: Method.Parameters
  ) throws(ControlError) -> Method.Answer {
    let gate = Gate()
    let result = Lock<Result<Method.Answer, ControlError>?>(nil)
    call(method, parameters) { answer in
      result.withLock { $0 = answer }
      gate.open()
    }
    gate.wait()
    guard let answer = result.withLock({ $0 }) else {
      throw ControlError(.failed, "the daemon gave no answer")
    }
    return try answer.get()
  }

  package func call<Method: ControlMethod>(
    _ method: Method.Type, _ parameters: Method.Parameters
  ) async throws(ControlError) -> Method.Answer {
    let result = await withCheckedContinuation { continuation in
      call(method, parameters) { continuation.resume(returning: $0) }
    }
    return try result.get()
  }

  /// Calls `completion` once, on the connection's thread or on this one.
  package func call<Method: ControlMethod>(
    _: Method.Type, _ parameters: Method.Parameters,
    completion: @escaping @Sendable (Result<Method.Answer, ControlError>) -> Void
  ) {
    let (id, error) = state.withLock { state -> (Int, ControlError?) in
      let id = state.nextID
      state.nextID += 1
      guard state.end == nil else { return (id, state.end) }
      state.waiting[id] = { line in completion(line.flatMap { Self.answer(Method.self, $0) }) }
      return (id, nil)
    }
    if let error {
      return completion(.failure(error))
    }
    do {
      let line = try Message.request(id: .number(id), method: Method.name, parameters)
      guard line.count <= LineBuffer.maximumLength else {
        throw ControlError(.usage, "the request is too long; name fewer items")
      }
      try sending.withLock { _ in try UnixSocket.send(line, to: socket) }
    } catch {
      let error = error as? ControlError ?? Self.broken(error)
      take(id)?(.failure(error))
    }
  }

  private static func answer<Method: ControlMethod>(
    _: Method.Type, _ line: [UInt8]
  ) -> Result<Method.Answer, ControlError> {
    do {
      switch try Message.received(Method.Answer.self, in: line) {
      case .result(let answer): return .success(answer)
      case .failure(let error): return .failure(error.controlError)
      case .notification:
        return .failure(ControlError(.failed, "the daemon's reply is not valid"))
      }
    } catch {
      return .failure(ControlError(.failed, "the daemon's reply is not valid: \(error)"))
    }
  }

  private func take(_ id: Int) -> (@Sendable (Result<[UInt8], ControlError>) -> Void)? {
    state.withLock { $0.waiting.removeValue(forKey: id) }
  }

  // MARK: Reading

  private func read() {
    var buffer = LineBuffer()
    do {
      while true {
        while let line = try buffer.next() { try receive(line) }
        let piece = try UnixSocket.receive(socket, upTo: 1 << 16)
        guard !piece.isEmpty else { break }
        buffer.append(piece)
      }
      end(ControlError(.failed, "the daemon ended; see `ubiquityfs log`"))
    } catch {
      UnixSocket.shutdown(socket)
      end(error as? ControlError ?? Self.broken(error))
    }
  }

  private func receive(_ line: [UInt8]) throws {
    switch try Message.arrival(line) {
    case .reply(to: .number(let id)): take(id)?(.success(line))
    case .reply: break
    case .notification(let method): handler(method, line)
    }
  }

  private func end(_ error: ControlError) {
    let (waiting, endings) = state.withLock { state in
      state.end = error
      defer {
        state.waiting = [:]
        state.endings = []
      }
      return (Array(state.waiting.values), state.endings)
    }
    for completion in waiting { completion(.failure(error)) }
    for action in endings { action() }
  }

  private static func broken(_ error: any Error) -> ControlError {
    ControlError(.failed, "the connection to the daemon broke (\(error)); see `ubiquityfs log`")
  }
}
