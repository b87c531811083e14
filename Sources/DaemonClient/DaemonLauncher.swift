package import ControlProtocol
internal import Glibc
internal import Platform
internal import SystemPackage

/// Starts a daemon for a state directory as a process of its own session.
///
/// Two that start one at the same time are no problem: the daemons settle it by their lock, the one
/// that loses ends, and both starters find the winner's socket. The winner may also be one that is
/// about to end and has no socket any more: then another is started until one gets the lock.
package struct DaemonLauncher: Sendable {
  /// The program to run with `daemon --state DIR`.
  package let executable: String
  /// What a daemon needs at most before it answers: it may have to recover after a crash.
  package let patience: UInt64

  /// `executable` is this program where it is nil.
  package init(executable: String? = nil, patienceSeconds: UInt64 = 60) {
    self.executable = executable ?? Self.thisProgram()
    self.patience = patienceSeconds * 1_000_000_000
  }

  /// By its path, so that `ps` and `killall` know the daemon by its name; where that path is
  /// another program's by now, or gone, by way of the process itself.
  private static func thisProgram() -> String {
    let itself = "/proc/self/exe"
    var bytes = [UInt8](repeating: 0, count: Int(PATH_MAX))
    let count = bytes.withUnsafeMutableBytes { buffer -> Int in
      guard let start = buffer.baseAddress else { return 0 }
      return readlink(itself, start.assumingMemoryBound(to: CChar.self), buffer.count)
    }
    guard count > 0, count < bytes.count,
      let path = String(validating: bytes[..<count], as: UTF8.self),
      let own = try? Files.status(itself),
      let found = try? Files.status(path), own.st_ino == found.st_ino, own.st_dev == found.st_dev
    else { return itself }
    return path
  }

  /// Between two starts while another daemon has the lock.
  private static let respawnInterval: UInt64 = 200_000_000

  /// The end of the daemon that found another one there; `ExitStatus.busy`.
  private static let lostTheRace: Int32 = ExitStatus.busy.rawValue

  /// `POSIX_SPAWN_SETSID` of posix_spawn(3), which needs `_GNU_SOURCE`.
  private static let setSession: Int32 = 0x80

  package func start(state: String) throws(ControlError) -> ControlClient {
    let owner: UInt32
    do throws(Errno) {
      try Files.makeDirectories(state)
      owner = try Files.status(state).st_uid
    } catch {
      throw ControlError(
        error == .permissionDenied || error == .readOnlyFileSystem ? .notPermitted : .failed,
        "cannot create the state directory \"\(state)\": \(error); choose another with --state")
    }
    // Checked here too, before the log is opened: nothing is to appear in it.
    guard owner == geteuid() else {
      throw ControlError(
        .notPermitted,
        "the state directory \"\(state)\" belongs to another user (uid \(owner)); choose another "
          + "with --state")
    }
    let log = state + "/daemon.log"
    var spawned = monotonicNanoseconds()
    let deadline = spawned + patience
    /// Nil while none of ours runs.
    var process: pid_t? = try spawn(state: state, log: log)
    while monotonicNanoseconds() < deadline {
      if let client = try ControlClient.connectIfRunning(state: state) { return client }
      let now = monotonicNanoseconds()
      if let child = process {
        var status: Int32 = 0
        if waitpid(child, &status, WNOHANG) == child {
          let code = status & 0x7F == 0 ? status >> 8 & 0xFF : -1
          process = nil
          if code != Self.lostTheRace {
            throw ControlError(
              code == 0 ? .failed : ExitStatus(rawValue: code) ?? .failed,
              Self.lastComplaint(in: log) ?? "the daemon ended at once; see \"\(log)\"")
          }
        }
      } else if now >= spawned + Self.respawnInterval {
        spawned = now
        process = try spawn(state: state, log: log)
      }
      usleep(20_000)
    }
    throw ControlError(.timedOut, "the daemon did not answer in time; see \"\(log)\"")
  }

  private func spawn(state: String, log: String) throws(ControlError) -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    posix_spawn_file_actions_adddup2(&actions, 1, 2)

    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    var defaults = sigset_t()
    sigemptyset(&defaults)
    for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE] { sigaddset(&defaults, signal) }
    posix_spawnattr_setsigdefault(&attributes, &defaults)
    posix_spawnattr_setflags(
      &attributes,
      Int16(Self.setSession | Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF)))

    let words = ["ubiquityfs", "daemon", "--detached", "--state", state]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
    arguments.append(nil)
    defer { for argument in arguments { free(argument) } }
    var process: pid_t = 0
    let code = posix_spawn(&process, executable, &actions, &attributes, arguments, environ)
    guard code == 0 else {
      throw ControlError(
        code == EACCES ? .notPermitted : .failed,
        "cannot start the daemon: \(Errno(rawValue: code)); see \"\(log)\"")
    }
    return process
  }

  /// What the daemon wrote last that is a command's error message.
  private static func lastComplaint(in log: String) -> String? {
    guard let file = try? OpenFile.open(log, flags: O_RDONLY),
      let size = try? file.status().st_size
    else { return nil }
    let length = min(Int(size), 1 << 14)
    guard let bytes = try? file.read(count: length, at: UInt64(Int(size) - length)) else {
      return nil
    }
    let mark = "ubiquityfs: "
    return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
      .last { $0.hasPrefix(mark) }.map { String($0.dropFirst(mark.count)) }
  }
}
