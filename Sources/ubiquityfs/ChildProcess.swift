internal import ControlProtocol
internal import Glibc

/// A command that runs in this one's place in the terminal.
enum ChildProcess {
  /// Runs it to its end and gives its status as a shell does: 128 and more for a signal. The keyboard's
  /// signals are the command's alone to act on, as with system(3); SIGTERM is passed on to it.
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
    // As they were given: Swift repairs what is not UTF-8.
    var words = command.map { word in
      (RawArguments.path(word).bytes + [0]).withUnsafeBytes {
        $0.bindMemory(to: CChar.self).baseAddress.flatMap { strdup($0) }
      }
    }
    words.append(nil)
    defer { for word in words { free(word) } }
    var child: pid_t = 0
    let code = posix_spawnp(&child, command[0], nil, &attributes, words, environ)
    guard code == 0 else {
      Terminal.error("ubiquityfs: \(command[0]): \(String(cString: strerror(code)))\n")
      Glibc.exit(code == ENOENT ? 127 : 126)
    }
    return child
  }
}
