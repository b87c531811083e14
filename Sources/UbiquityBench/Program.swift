internal import Glibc

/// Programs in processes of their own. They see one language and nobody's git configuration.
enum Program {
  /// Where a child's standard output goes.
  enum Output {
    case nowhere
    case descriptor(Int32)
  }

  /// Fails unless it ends with 0.
  static func run(
    _ words: [String], input: String = "/dev/null", environment: [String: String] = [:]
  ) throws {
    let process = try start(words, input: input, output: .nowhere, environment: environment)
    try wait(process, words)
  }

  /// What it writes.
  static func output(_ words: [String], environment: [String: String] = [:]) throws -> [UInt8] {
    var result: [UInt8] = []
    try read(words, environment: environment) { result = try Bytes.read($0) }
    return result
  }

  /// Reads what it writes and drops it, as a program at the other end of a pipe would.
  static func drain(_ words: [String], with buffer: Buffer) throws {
    try read(words, environment: [:]) { output in
      while true {
        let count = Glibc.read(output, buffer.start, buffer.bytes.count)
        if count < 0 && errno == EINTR { continue }
        guard count >= 0 else { throw Failure.system("read") }
        if count == 0 { return }
      }
    }
  }

  private static func read(
    _ words: [String], environment: [String: String], _ body: (Int32) throws -> Void
  ) throws {
    var ends: [Int32] = [0, 0]
    guard pipe(&ends) == 0 else { throw Failure.system("pipe") }
    for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
    defer { close(ends[0]) }
    let process: pid_t
    do {
      defer { close(ends[1]) }
      process = try start(
        words, input: "/dev/null", output: .descriptor(ends[1]), environment: environment)
    }
    try body(ends[0])
    try wait(process, words)
  }

  static func start(
    _ words: [String], input: String, output: Output,
    environment: [String: String], isQuiet: Bool = false
  ) throws -> pid_t {
    var actions = posix_spawn_file_actions_t()
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    posix_spawn_file_actions_addopen(&actions, 0, input, O_RDONLY, 0)
    switch output {
    case .nowhere: posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
    case .descriptor(let descriptor): posix_spawn_file_actions_adddup2(&actions, descriptor, 1)
    }
    if isQuiet { posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0) }
    // Signals are blocked here, for `Cleanup`; a child is to end by them.
    var attributes = posix_spawnattr_t()
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    sigemptyset(&none)
    posix_spawnattr_setsigmask(&attributes, &none)
    posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    var variables: [UnsafeMutablePointer<CChar>?] = inherited(environment) + [nil]
    defer { for text in arguments + variables { free(text) } }
    var process: pid_t = 0
    let code = posix_spawnp(&process, words[0], &actions, &attributes, &arguments, &variables)
    guard code == 0 else {
      throw Failure("\(words[0]) cannot be run: \(String(cString: strerror(code)))")
    }
    return process
  }

  static func git(_ words: String..., at directory: String) throws {
    try run(["git", "-C", directory] + words)
  }

  static func wait(_ process: pid_t, _ words: [String]) throws {
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 {
      guard errno == EINTR else { throw Failure.system("waitpid") }
    }
    guard status == 0 else {
      let reason = status & 0x7F == 0 ? "status \(status >> 8 & 0xFF)" : "signal \(status & 0x7F)"
      throw Failure("`\(words.joined(separator: " "))` ended with \(reason)")
    }
  }

  private static let fixed = [
    "LC_ALL": "C", "TZ": "UTC", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "1", "GIT_TERMINAL_PROMPT": "0",
  ]

  private static func inherited(_ more: [String: String]) -> [UnsafeMutablePointer<CChar>?] {
    let set = fixed.merging(more) { $1 }
    var result = set.map { strdup("\($0.key)=\($0.value)") }
    var entry = environ
    while let text = entry.pointee {
      let name = String(cString: text).prefix { $0 != "=" }
      if set[String(name)] == nil { result.append(strdup(text)) }
      entry += 1
    }
    return result
  }
}
