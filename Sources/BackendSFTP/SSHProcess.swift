internal import Glibc
internal import Platform
internal import SystemPackage

/// A running `ssh`, with one end of a socket pair as its standard input and output.
///
/// A socket, not pipes: a write after the end of `ssh` is an error and no signal.
final class SSHProcess: Sendable {
  let descriptor: Int32
  private let errors: Int32
  private let process: pid_t

  private static let mostErrorBytes = 4096

  /// `words`: the program, which is searched for in PATH, and its arguments.
  init(_ words: [String], environment: [String: String]) throws(Errno) {
    let input = try Self.pair()
    let failures: (Int32, Int32)
    do throws(Errno) {
      failures = try Self.pair()
    } catch {
      close(input.0)
      close(input.1)
      throw error
    }
    defer {
      close(input.1)
      close(failures.1)
    }
    (descriptor, errors) = (input.0, failures.0)
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_adddup2(&actions, input.1, 0)
    posix_spawn_file_actions_adddup2(&actions, input.1, 1)
    posix_spawn_file_actions_adddup2(&actions, failures.1, 2)
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var (none, defaults) = (sigset_t(), sigset_t())
    sigemptyset(&none)
    sigemptyset(&defaults)
    for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE] { sigaddset(&defaults, signal) }
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setsigdefault(&attributes, &defaults)
    // A session of its own: Ctrl-C for a daemon in a terminal is not for `ssh`.
    posix_spawnattr_setflags(
      &attributes,
      Int16(0x80 | Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF)))
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    var variables: [UnsafeMutablePointer<CChar>?] =
      environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
    defer { for text in arguments + variables { free(text) } }
    var child: pid_t = 0
    let code = posix_spawnp(&child, words[0], &actions, &attributes, &arguments, &variables)
    process = child
    guard code == 0 else {
      close(input.0)
      close(failures.0)
      throw Errno(rawValue: code)
    }
  }

  /// Two connected sockets that `execve` closes.
  private static func pair() throws(Errno) -> (Int32, Int32) {
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    var sockets: [Int32] = [-1, -1]
    _ = try retrying { socketpair(AF_UNIX, kind, 0, &sockets) }
    return (sockets[0], sockets[1])
  }

  /// Makes reads and writes of the socket fail; any thread may call it, several times.
  func stop() { shutdown(descriptor, Int32(SHUT_RDWR)) }

  /// Ends the process, and returns the last line that it printed as an error. Called once, by the
  /// thread that reads.
  func end() -> String {
    stop()
    reap()
    // A child of `ssh` may hold the pipe open.
    _ = fcntl(errors, F_SETFL, O_NONBLOCK)
    var buffer = [UInt8](repeating: 0, count: Self.mostErrorBytes)
    let count = max(0, read(errors, &buffer, buffer.count))
    close(errors)
    close(descriptor)
    let lines = String(decoding: buffer[..<count], as: UTF8.self).split(whereSeparator: \.isNewline)
    return lines.last.map(String.init) ?? ""
  }

  /// An `ssh` that has just lost its connection says why before it ends.
  private func reap() {
    var status: Int32 = 0
    for _ in 0..<50 {
      if waitpid(process, &status, WNOHANG) == process { return }
      usleep(10_000)
    }
    kill(process, SIGKILL)
    while waitpid(process, &status, 0) < 0, errno == EINTR {}
  }
}
