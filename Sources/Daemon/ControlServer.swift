package import ControlProtocol
internal import Glibc
package import Logging
internal import Platform
internal import SystemPackage

/// Accepts connections on the control socket and answers their requests, one thread a connection.
///
/// Only the owner of the daemon and root are served. Whatever a client sends, it gets an error or
/// loses its connection; others do not notice.
package final class ControlServer: Sendable {
  private struct State {
    var listener: OpenFile?
    var connections: [Int32: ClientConnection] = [:]
  }

  private let methods: MethodTable
  private let logger: Logger
  private let state = Lock(State())
  private static let maximumConnections = 128
  /// A client that connects asks at once; one that has not for so long can connect again.
  private static let shortestIdleness: UInt64 = 1_000_000_000

  package init(methods: MethodTable, logger: Logger) {
    self.methods = methods
    self.logger = logger
  }

  /// The caller holds the directory's lock, so that a socket file that is there is a dead one's.
  package func start(directory: String, name: String) throws(ControlError) {
    let listener: OpenFile
    do throws(Errno) {
      do { try Files.remove("\(directory)/\(name)") } catch .noSuchFileOrDirectory {}
      listener = try UnixSocket.listen(directory: directory, name: name)
    } catch {
      throw ControlError(
        .failed, "cannot create the control socket \"\(directory)/\(name)\": \(error)")
    }
    state.withLock { $0.listener = listener }
    _ = startThread { self.acceptLoop(listener) }
  }

  /// No new connections, and no more answers on those that are there.
  package func stop() {
    let (listener, connections) = state.withLock { state in
      defer { state.listener = nil }
      return (state.listener, Array(state.connections.values))
    }
    if let listener { UnixSocket.shutdown(listener) }
    for connection in connections { connection.shutdown() }
  }

  private func acceptLoop(_ listener: OpenFile) {
    while true {
      let socket: OpenFile
      do throws(Errno) {
        socket = try UnixSocket.accept(listener)
      } catch {
        if state.withLock({ $0.listener == nil }) { return }
        // Out of descriptors or memory; wait for some to come back.
        logger.warning("cannot accept a connection: \(error)")
        usleep(100_000)
        continue
      }
      serve(socket)
    }
  }

  private func serve(_ socket: OpenFile) {
    guard let peer = try? UnixSocket.peer(of: socket), peer.user == geteuid() || peer.user == 0
    else {
      logger.warning("refused a connection of another user")
      return
    }
    guard let connection = try? ClientConnection(socket) else {
      logger.warning("refused a connection: no file descriptor is free")
      return
    }
    switch take(connection, socket.descriptor) {
    // Closed without a word: the client finds the next daemon.
    case .stopped: return
    case .full:
      connection.fail(.null, ControlError(.busy, "the daemon has too many connections"))
      return
    case .taken: break
    }
    _ = startThread {
      self.answer(connection)
      connection.ended()
      self.state.withLock { state in
        guard state.connections[socket.descriptor] === connection else { return }
        state.connections[socket.descriptor] = nil
      }
    }
  }

  private enum Admission {
    case taken
    case full
    case stopped
  }

  /// Where there is no room, ends the connection that has asked for nothing for the longest time:
  /// clients that connect and say nothing keep nobody out. Waits until that one is idle long
  /// enough.
  private func take(_ connection: ClientConnection, _ descriptor: Int32) -> Admission {
    while true {
      let (result, wait) = state.withLock { state -> (Admission?, UInt64) in
        guard state.listener != nil else { return (.stopped, 0) }
        if state.connections.count >= Self.maximumConnections {
          guard let idlest = Self.idlest(state) else { return (.full, 0) }
          let end = idlest.since &+ Self.shortestIdleness
          let now = monotonicNanoseconds()
          guard now > end else { return (nil, end - now) }
          state.connections[idlest.descriptor] = nil
          idlest.connection.shutdown()
        }
        state.connections[descriptor] = connection
        return (.taken, 0)
      }
      if let result { return result }
      usleep(UInt32(clamping: wait / 1000 + 1000))
    }
  }

  /// Nil: each of them is being served.
  private static func idlest(
    _ state: State
  ) -> (since: UInt64, descriptor: Int32, connection: ClientConnection)? {
    state.connections.compactMap { descriptor, connection in
      connection.idleSince.map { ($0, descriptor, connection) }
    }.min { $0.0 < $1.0 }
  }

  private func answer(_ connection: ClientConnection) {
    while true {
      let line: [UInt8]?
      do {
        line = try connection.nextLine()
      } catch LineBuffer.Overflow.lineTooLong {
        connection.fail(
          .null,
          ErrorObject(
            code: ErrorCode.invalidRequest,
            message: "the message is longer than \(LineBuffer.maximumLength) bytes",
            status: .failed))
        return
      } catch {
        return
      }
      guard let line else { return }
      if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0D }) { continue }
      answer(line, connection)
    }
  }

  private func answer(_ line: [UInt8], _ connection: ClientConnection) {
    let head: RequestHead
    do throws(Message.HeadError) {
      head = try Message.head(line)
    } catch {
      connection.fail(.null, error.object)
      return
    }
    // A request without an identity wants no answer, and all that we do has one.
    guard let id = head.id else { return }
    guard let method = methods.table[head.method] else {
      connection.fail(
        id,
        ErrorObject(
          code: ErrorCode.methodNotFound, message: "unknown method \"\(head.method.prefix(100))\"",
          status: .failed))
      return
    }
    do {
      if let answer = try method(id, line, connection) { connection.send(answer) }
    } catch let error as ControlError {
      logger.debug("\(head.method): \(error.message)")
      connection.fail(id, error)
    } catch {
      connection.fail(
        id,
        ErrorObject(
          code: ErrorCode.invalidParameters,
          message: "the parameters of \"\(head.method)\" are not valid",
          status: .failed))
    }
  }
}

/// The methods that a server knows.
package struct MethodTable: Sendable {
  fileprivate var table:
    [String: @Sendable (MessageID, [UInt8], ClientConnection) throws -> [UInt8]?] =
      [:]

  package init() {}

  /// `body` runs on its connection's thread and may block it.
  package mutating func add<Method: ControlMethod>(
    _: Method.Type,
    _ body:
      @escaping @Sendable (Method.Parameters, ClientConnection) throws(ControlError) ->
      Method.Answer
  ) {
    table[Method.name] = { id, line, connection in
      let parameters = try Message.parameters(Method.Parameters.self, in: line)
      return try Message.reply(id: id, try body(parameters, connection))
    }
  }

  /// For what may take long while the connection goes on: `body` returns at once, and the reply is
  /// given by whoever has it.
  package mutating func addLater<Method: ControlMethod>(
    _: Method.Type,
    _ body:
      @escaping @Sendable (Method.Parameters, ClientConnection, LaterReply<Method.Answer>)
      throws(ControlError) -> Void
  ) {
    table[Method.name] = { id, line, connection in
      let parameters = try Message.parameters(Method.Parameters.self, in: line)
      try body(parameters, connection, LaterReply(id: id, connection: connection))
      return nil
    }
  }
}

/// The reply to one request, to be given once, from any thread. If the method throws it is not to
/// be given.
package struct LaterReply<Answer: Encodable & Sendable>: Sendable {
  let id: MessageID
  let connection: ClientConnection

  package func give(_ result: Result<Answer, ControlError>) {
    let line: [UInt8]?
    switch result {
    case .success(let answer): line = try? Message.reply(id: id, answer)
    case .failure(let error): line = try? Message.failure(id: id, ErrorObject(error))
    }
    if let line { connection.sendLater(line) }
  }
}
