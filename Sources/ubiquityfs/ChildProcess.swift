internal import ControlProtocol
internal import Glibc

/// Runs another program, as a child or in place of this process.
enum ChildProcess {
  /// Runs the command until it ends. Returns its exit status as a shell does: 128 plus the number
  /// of a signal. Ignores the keyboard's signals meanwhile, as system(3) does, and passes SIGTERM
  /// on to the command.
  static func run(_ command: [String]) throws -> Int32 {
    var before = sigset_t()
    var passed = sigset_t()
    sigemptyset(&passed)
    sigaddset(&passed, SIGTERM)
    sigaddset(&passed, SIGCHLD)
    sigprocmask(SIG_BLOCK, &passed, &before)
    defer { sigprocmask(SIG_SETMASK, &before, nil) }
    let child = try spawn(command, mask: before)
    let interrupt = signal(SIGINT, SIG_IGN)
    let quit = signal(SIGQUIT, SIG_IGN)
    defer {
      signal(SIGINT, interrupt)
      signal(SIGQUIT, quit)
    }
    while true {
      var status: Int32 = 0
      if waitpid(child, &status, WNOHANG) == child {
        let ended = status & 0x7F
        return ended == 0 ? status >> 8 & 0xFF : 128 + ended
      }
      var received: Int32 = 0
      if sigwait(&passed, &received) == 0, received == SIGTERM { kill(child, SIGTERM) }
    }
  }

  private static func spawn(_ command: [String], mask: sigset_t) throws -> pid_t {
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var mask = mask
    posix_spawnattr_setsigmask(&attributes, &mask)
    var defaults = sigset_t()
    sigemptyset(&defaults)
    sigaddset(&defaults, SIGPIPE)
    posix_spawnattr_setsigdefault(&attributes, &defaults)
    posix_spawnattr_setflags(
      &attributes, Int16(Int32(POSIX_SPAWN_SETSIGMASK) | Int32(POSIX_SPAWN_SETSIGDEF)))
    let words = words(command)
    defer { for word in words { free(word) } }
    var child: pid_t = 0
    let code = posix_spawnp(&child, command[0], nil, &attributes, words, environ)
    guard code == 0 else { fail(command, code) }
    return child
  }

  /// The raw bytes of the arguments, because Swift replaces invalid UTF-8.
  private static func words(_ command: [String]) -> [UnsafeMutablePointer<CChar>?] {
    command.map { word in
      (RawArguments.path(word).bytes + [0]).withUnsafeBytes {
        $0.bindMemory(to: CChar.self).baseAddress.flatMap { strdup($0) }
      }
    } + [nil]
  }

  private static func fail(_ command: [String], _ code: Int32) -> Never {
    Terminal.error("ubiquityfs: cannot run \"\(command[0])\": \(String(cString: strerror(code)))\n")
    Glibc.exit(code == ENOENT ? 127 : 126)
  }

  /// Whether this process ignored SIGPIPE at its start. The first access makes it ignore SIGPIPE.
  static let ignoredPipe: Bool = {
    let before = signal(SIGPIPE, SIG_IGN)
    return unsafeBitCast(before, to: Int.self) == unsafeBitCast(SIG_IGN, to: Int.self)
  }()

  /// Replaces this process with the command, which keeps its process ID, terminal and signals.
  /// Exits with 127 or 126 on failure, as `env` and `nice` do.
  static func become(_ command: [String]) -> Never {
    let words = words(command)
    if !ignoredPipe { signal(SIGPIPE, SIG_DFL) }
    if let program = words[0] { execvp(program, words) }
    fail(command, errno)
  }
}
