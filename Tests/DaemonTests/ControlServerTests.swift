import ControlProtocol
import Daemon
import DaemonClient
import Glibc
import Platform
import SystemPackage
import Testing

/// A server with two methods, on a real socket.
private final class Running {
  let scratch: Scratch
  let server: ControlServer

  init(deep: Bool = false) throws {
    scratch = try Scratch()
    var table = MethodTable()
    table.add(Methods.Hello.self) { greeting, connection throws(ControlError) in
      // A client that said hello holds something from then on.
      connection.onEnd {}
      return Greeting(protocolVersion: Product.protocolVersion, version: "test", pid: greeting.pid)
    }
    table.add(Methods.SetOffline.self) { request, connection throws(ControlError) in
      connection.notify(Notifications.progress, Progress(done: 1, total: 2, unit: "items"))
      guard request.offline else { throw ControlError(.offline, "no") }
      return Nothing()
    }
    server = ControlServer(methods: table, logger: quietLogger)
    if deep { try Files.makeDirectories(directory(deep: true)) }
    try server.start(directory: directory(deep: deep), name: "control.sock")
  }

  deinit { server.stop() }

  /// Deeper than a socket's address has room for.
  func directory(deep: Bool) -> String {
    deep ? scratch.path + "/" + String(repeating: "d", count: 150) : scratch.path
  }

  func connect() throws -> OpenFile {
    try UnixSocket.connect(directory: scratch.path, name: "control.sock")
  }
}

private func ask(_ socket: OpenFile, _ text: String) throws -> String {
  try UnixSocket.send(Array(text.utf8) + [0x0A], to: socket)
  return try answer(socket)
}

private func answer(_ socket: OpenFile) throws -> String {
  var bytes: [UInt8] = []
  while bytes.last != 0x0A {
    let piece = try UnixSocket.receive(socket, upTo: 4096)
    if piece.isEmpty { break }
    bytes += piece
  }
  return String(decoding: bytes, as: UTF8.self)
}

@Suite struct ControlServerTests {
  @Test func aClientCallsAndIsTold() throws {
    let running = try Running()
    #expect(try running.scratch.mode("control.sock") == 0o600)
    let client = try ControlClient.connect(state: running.scratch.path, launcher: nil)
    #expect(client.daemon.version == "test")
    var told: [String] = []
    _ = try client.call(Methods.SetOffline.self, OfflineRequest(offline: true)) {
      name, _ throws(ControlError) in told.append(name)
    }
    #expect(told == ["progress"])
    do throws(ControlError) {
      _ = try client.call(Methods.SetOffline.self, OfflineRequest(offline: false))
      Issue.record("an error was lost")
    } catch {
      #expect(error == ControlError(.offline, "no"))
    }
    #expect(throws: ControlError.self) { try client.call(Methods.Secret.self, Nothing()) }
    // The connection goes on after an error.
    _ = try client.call(Methods.SetOffline.self, OfflineRequest(offline: true))
  }

  @Test("clients that connect and ask for nothing keep nobody out")
  func idleClients() throws {
    let running = try Running()
    var silent: [OpenFile] = []
    for _ in 0..<128 { silent.append(try running.connect()) }
    let deadline = monotonicNanoseconds() + 20_000_000_000
    var answer = ""
    while monotonicNanoseconds() < deadline, !answer.contains("result") {
      answer = try ask(
        try running.connect(),
        #"{"jsonrpc":"2.0","id":1,"method":"offline","params":{"offline":true}}"#)
    }
    #expect(answer.contains("result"))
    withExtendedLifetime(silent) {}
  }

  @Test("arrays and objects that are nested without end are no message")
  func nesting() throws {
    let running = try Running()
    let socket = try running.connect()
    for opening in ["[", #"{"a":"#, #"{"jsonrpc":"2.0","id":1,"method":"hello","params":["#] {
      let text = String(repeating: opening, count: 10_000)
      #expect(try ask(socket, text).contains("-32700"))
    }
    #expect(try ask(socket, #"{"jsonrpc":"2.0","id":1,"method":"none"}"#).contains("-32601"))
  }

  @Test func longPathsHaveSocketsToo() throws {
    let running = try Running(deep: true)
    let client = try ControlClient.connect(state: running.directory(deep: true), launcher: nil)
    #expect(client.daemon.version == "test")
  }

  @Test func nonsenseIsAnsweredAndTheConnectionGoesOn() throws {
    let running = try Running()
    let socket = try running.connect()
    for (text, code) in [
      ("nonsense", -32700), ("{}", -32600), ("[]", -32600),
      (#"{"jsonrpc":"2.0","id":1,"method":"none"}"#, -32601),
      (#"{"jsonrpc":"2.0","id":1,"method":"offline","params":{"offline":"perhaps"}}"#, -32602),
      (#"{"jsonrpc":"2.0","id":1,"method":"offline","params":[]}"#, -32602),
    ] {
      #expect(try ask(socket, text).contains("\"code\":\(code)"), "\(text)")
    }
    // Notifications get no answer; the next request's answer is the next line.
    let both = """
      {"jsonrpc":"2.0","method":"none"}
      {"jsonrpc":"2.0","id":"last","method":"none"}
      """
    #expect(try ask(socket, both).contains("\"id\":\"last\""))
  }

  @Test func aLineWithoutEndEndsItsConnectionAlone() throws {
    let running = try Running()
    let other = try running.connect()
    let socket = try running.connect()
    let piece = [UInt8](repeating: 0x61, count: 1 << 16)
    // The server may close before all of it is sent.
    for _ in 0..<20 { guard (try? UnixSocket.send(piece, to: socket)) != nil else { break } }
    // It was answered with an error, or reset before the answer was read.
    if let text = try? answer(socket), !text.isEmpty { #expect(text.contains("-32600")) }
    #expect((try? answer(socket)) ?? "" == "")
    #expect(try ask(other, "{}").contains("-32600"))
  }

  @Test("when all connections hold something, a further client is refused with a message")
  func manyConnectionsAreBounded() throws {
    let running = try Running()
    let hello =
      #"{"jsonrpc":"2.0","id":1,"method":"hello","params":"#
      + #"{"protocolVersion":\#(Product.protocolVersion),"version":"t","pid":1}}"#
    let sockets = try (0..<128).map { _ in
      let socket = try running.connect()
      try #require(try ask(socket, hello).contains("result"))
      return socket
    }
    #expect(try answer(try running.connect()).contains("too many"))
    #expect(try ask(sockets[0], "{}").contains("-32600"))
  }

  @Test func aStoppedServerTakesNobody() throws {
    let running = try Running()
    let socket = try running.connect()
    _ = try ask(socket, "{}")
    running.server.stop()
    #expect((try? answer(socket)) ?? "" == "")
  }
}
