import ControlProtocol
import Daemon
import DaemonClient
import Dispatch
import Foundation
import Glibc
import Platform
import SystemPackage
import Testing

/// Clients that do not read, and daemons that do not start.
@Suite struct ConnectionTests {
  private static let pieces = 40
  private static let piece = String(repeating: "A", count: 1 << 18)

  /// A server that sends much on `versions.read`, and notices to `offline` as fast as it can.
  private static func server(_ directory: String) throws -> ControlServer {
    var table = MethodTable()
    table.add(Methods.Hello.self) { greeting, _ throws(ControlError) in greeting }
    table.add(Methods.ReadVersion.self) { _, connection throws(ControlError) in
      try connection.wait {
        for _ in 0..<pieces {
          try await connection.post(Notifications.data, DataPiece(base64: piece))
        }
      }
      return Nothing()
    }
    table.add(Methods.SetOffline.self) { _, connection throws(ControlError) in
      try connection.wait {
        for index in 0..<100_000 {
          connection.notify(
            Notifications.progress, Progress(done: UInt64(index), total: 100_000, unit: "bytes"))
        }
      }
      return Nothing()
    }
    let server = ControlServer(methods: table, logger: quietLogger)
    try server.start(directory: directory, name: "control.sock")
    return server
  }

  private static func ask(_ socket: OpenFile, _ method: String, _ parameters: String) throws {
    let line = #"{"jsonrpc":"2.0","id":1,"method":"\#(method)","params":\#(parameters)}"#
    try UnixSocket.send(Array(line.utf8) + [0x0A], to: socket)
  }

  private static let version =
    #"{"item":{"mountpoint":"/","path":"","shown":"x"},"version":"00"}"#

  /// Lines until the answer, which is the last.
  private static func lines(_ socket: OpenFile) throws -> Int {
    var buffer = LineBuffer()
    var count = 0
    while true {
      while let line = try buffer.next() {
        count += 1
        if String(decoding: line.suffix(200), as: UTF8.self).contains("\"id\":1") { return count }
      }
      let bytes = try UnixSocket.receive(socket, upTo: 1 << 16)
      if bytes.isEmpty { return -1 }
      buffer.append(bytes)
    }
  }

  /// A client that blocks a thread of the concurrency pool would keep the server from its work.
  private static func onThread(_ body: @escaping @Sendable () throws -> Void) async throws {
    try await withCheckedThrowingContinuation {
      (continuation: CheckedContinuation<Void, any Error>) in
      _ = startThread { continuation.resume(with: Result(catching: body)) }
    }
  }

  @Test func clientsThatDoNotReadKeepNobodyAndLoseNothing() async throws {
    try await Self.onThread { try Self.readBesideTheStuck() }
  }

  private static func readBesideTheStuck() throws {
    let scratch = try Scratch()
    let server = try Self.server(scratch.path)
    defer { server.stop() }
    // More than the concurrency pool has threads.
    let stuck = try (0..<24).map { _ in
      let socket = try UnixSocket.connect(directory: scratch.path, name: "control.sock")
      try Self.ask(socket, Methods.ReadVersion.name, Self.version)
      return socket
    }
    let other = try UnixSocket.connect(directory: scratch.path, name: "control.sock")
    try Self.ask(other, Methods.ReadVersion.name, Self.version)
    #expect(try Self.lines(other) == Self.pieces + 1)
    for socket in stuck.dropFirst(20) { #expect(try Self.lines(socket) == Self.pieces + 1) }
  }

  @Test func noticesThatNobodyReadsAreDropped() async throws {
    try await Self.onThread { try Self.readNotices() }
  }

  private static func readNotices() throws {
    let scratch = try Scratch()
    let server = try Self.server(scratch.path)
    defer { server.stop() }
    let socket = try UnixSocket.connect(directory: scratch.path, name: "control.sock")
    try Self.ask(socket, Methods.SetOffline.name, #"{"offline":true}"#)
    let count = try Self.lines(socket)
    #expect(count > 1 && count <= 100_001)
  }

  /// The daemon that has the lock may be one that ends: then another is started.
  @Test func aDaemonThatFindsTheLockTakenIsStartedAgain() throws {
    let scratch = try Scratch()
    let program = scratch.path + "/program"
    let script = """
      #!/bin/sh
      echo start >>"$4/starts"
      test "$(wc -l <"$4/starts")" -lt 3 && exit 5
      echo "ubiquityfs: the third" >&2
      exit 1

      """
    try Self.makeProgram(program, script)
    let launcher = DaemonLauncher(executable: program)
    do throws(ControlError) {
      _ = try launcher.start(state: scratch.path)
      Issue.record("a daemon that is none was found")
    } catch {
      #expect(error == ControlError(.failed, "the third"))
    }
  }

  /// A process of its own writes it: a program that a test beside this one starts would for a
  /// moment have our descriptor too, and what is open for writing cannot be run.
  private static func makeProgram(_ path: String, _ text: String) throws {
    let shell = Process()
    shell.executableURL = URL(fileURLWithPath: "/bin/sh")
    shell.arguments = ["-c", "printf %s \"$1\" > \"$0\" && chmod 700 \"$0\"", path, text]
    try shell.run()
    shell.waitUntilExit()
    #expect(shell.terminationStatus == 0)
  }

  /// Closes its socket when somebody connects; the connection too, if it takes it.
  private static func startDaemonThatEnds(_ directory: String, accepts: Bool) throws {
    let listener = try UnixSocket.listen(directory: directory, name: "control.sock")
    _ = startThread {
      var ready = pollfd(fd: listener.descriptor, events: Int16(POLLIN), revents: 0)
      while poll(&ready, 1, -1) < 0 {}
      if accepts { _ = try? UnixSocket.accept(listener) }
    }
  }

  /// A daemon that was killed has its socket until the kernel has taken the process down, and one
  /// that stops may close a connection that it has just taken.
  @Test(arguments: [false, true]) func aDaemonThatEndsIsNone(accepts: Bool) async throws {
    try await Self.onThread {
      let scratch = try Scratch()
      let program = scratch.path + "/program"
      try Self.makeProgram(program, "#!/bin/sh\necho 'ubiquityfs: the next' >&2\nexit 1\n")
      for launcher in [nil, DaemonLauncher(executable: program)] {
        try Self.startDaemonThatEnds(scratch.path, accepts: accepts)
        defer { try? Files.remove(scratch.path + "/control.sock") }
        if let launcher {
          do throws(ControlError) {
            _ = try ControlClient.connect(state: scratch.path, launcher: launcher)
            Issue.record("a daemon that is none was found")
          } catch {
            #expect(error == ControlError(.failed, "the next"))
          }
        } else {
          #expect(try ControlClient.connectIfRunning(state: scratch.path) == nil)
        }
      }
    }
  }
}
