internal import Glibc

/// What a workload made the kernel ask and the daemon call; the same in every run, or nearly.
struct Counts: Codable {
  /// FUSE requests by operation. Forgets are not among them: the kernel's tracepoint leaves them
  /// out.
  var requests: [String: Int]
  /// The daemon's system calls by name; `other` for those that are not told apart.
  var calls: [String: Int]

  var allRequests: Int { requests.values.reduce(0, +) }
  var allCalls: Int { calls.values.reduce(0, +) }
}

/// Counts with the kernel's tracepoints, by `perf stat`, which is started stopped and switched on
/// and off around a workload. Needs perf, tracefs and the right to use them; `whyNot` says what is
/// missing.
struct Counters {
  let stage: Stage
  let whyNot: String?
  private let callNames: [String]

  init(stage: Stage) {
    self.stage = stage
    let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map { $0 + "/events/" }
    let events = roots.first { access($0 + "fuse/fuse_request_send", F_OK) == 0 }
    callNames = Self.names.filter { access("\(events ?? "")syscalls/sys_enter_\($0)", F_OK) == 0 }
    if events == nil {
      whyNot = "the kernel's tracepoint fuse:fuse_request_send cannot be reached (tracefs, as root)"
    } else if (try? Program.run(["perf", "stat", "-o", "/dev/null", "true"])) == nil {
      whyNot = "perf cannot be run"
    } else {
      whyNot = nil
    }
  }

  func count(_ body: () throws -> Void) throws -> Counts {
    var status = stat()
    guard stat(stage.mount.directory, &status) == 0 else {
      throw Failure.system("stat", stage.mount.directory)
    }
    // The kernel numbers connections by the device of the mount, which has major number 0.
    let connection = UInt64(status.st_dev) & 0xFF | (UInt64(status.st_dev) >> 12 & 0xFFF00)
    let operations = Self.operations.sorted { $0.key < $1.key }
    let requests = try PerfStat(
      directory: stage.root, name: "requests", scope: ["-a"],
      events: operations.map {
        [
          "fuse:fuse_request_send", "--filter",
          "connection == \(connection) && opcode == \($0.key)",
        ]
      })
    defer { requests.end() }
    let calls = try PerfStat(
      directory: stage.root, name: "calls", scope: ["-p", "\(stage.daemon)"],
      events: [["raw_syscalls:sys_enter"]] + callNames.map { ["syscalls:sys_enter_\($0)"] })
    defer { calls.end() }
    try requests.command("enable")
    try calls.command("enable")
    try body()
    try calls.command("disable")
    try requests.command("disable")
    let seen = try requests.counts()
    var called = Dictionary(
      zip(["other"] + callNames, try calls.counts()), uniquingKeysWith: { $1 })
    called["other", default: 0] -= callNames.reduce(0) { $0 + (called[$1] ?? 0) }
    return Counts(
      requests: Dictionary(uniqueKeysWithValues: zip(operations.map(\.value), seen))
        .filter { $0.value > 0 },
      calls: called.filter { $0.value > 0 })
  }

  /// From linux/fuse.h.
  private static let operations: [Int: String] = [
    1: "lookup", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir",
    10: "unlink", 11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read", 16: "write",
    17: "statfs", 18: "release", 20: "fsync", 21: "setxattr", 22: "getxattr", 23: "listxattr",
    24: "removexattr", 25: "flush", 27: "opendir", 28: "readdir", 29: "releasedir", 30: "fsyncdir",
    31: "getlk", 32: "setlk", 33: "setlkw", 34: "access", 35: "create", 36: "interrupt",
    39: "ioctl", 43: "fallocate", 44: "readdirplus", 45: "rename2", 46: "lseek",
    47: "copy_file_range", 50: "syncfs", 51: "tmpfile", 52: "statx",
  ]

  /// As the tracepoints have them.
  private static let names = [
    "read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
    "pwritev2", "openat", "close", "newfstat", "newfstatat", "statx", "lseek", "ioctl", "fcntl",
    "fsync", "fdatasync", "ftruncate", "fallocate", "unlink", "unlinkat", "renameat2", "linkat",
    "mkdirat", "splice", "vmsplice", "tee", "futex", "mmap", "munmap", "madvise", "mprotect",
    "poll", "ppoll", "epoll_wait", "io_uring_enter", "copy_file_range", "sync_file_range", "statfs",
    "fstatfs", "getdents64", "access", "clock_nanosleep",
  ]
}

/// One `perf stat`, counting nothing until it is told to.
private final class PerfStat {
  private let output: String
  private let words: [String]
  private var process: pid_t = 0
  private var control: Int32 = -1
  private var answers: Int32 = -1
  private let fifos: [String]

  init(directory: String, name: String, scope: [String], events: [[String]]) throws {
    output = "\(directory)/\(name).csv"
    fifos = ["\(directory)/\(name).control", "\(directory)/\(name).answers"]
    words =
      ["perf", "stat", "-x,", "-o", output, "-D", "-1"]
      + ["--control", "fifo:\(fifos[0]),\(fifos[1])"] + scope + events.flatMap { ["-e"] + $0 }
    for fifo in fifos where mkfifo(fifo, 0o600) != 0 { throw Failure.system("mkfifo", fifo) }
    // Opened for both directions: neither side then waits for the other to open.
    control = open(fifos[0], O_RDWR | O_CLOEXEC)
    answers = open(fifos[1], O_RDWR | O_CLOEXEC | O_NONBLOCK)
    process = try Program.start(
      words, input: "/dev/null", output: .nowhere, environment: [:], isQuiet: true)
  }

  /// Returns when it has been carried out.
  func command(_ text: String) throws {
    guard write(control, text + "\n", text.utf8.count + 1) > 0 else {
      throw Failure.system("write")
    }
    var answer = [UInt8](repeating: 0, count: 64)
    var waited = pollfd(fd: answers, events: Int16(POLLIN), revents: 0)
    guard poll(&waited, 1, 20_000) == 1, read(answers, &answer, answer.count) > 0 else {
      throw Failure("`\(words.joined(separator: " "))` does not answer")
    }
  }

  /// Of each event, in their order.
  func counts() throws -> [Int] {
    end()
    return try String(decoding: Bytes.read(output), as: UTF8.self).split(separator: "\n")
      .filter { !$0.hasPrefix("#") }
      .map { Int($0.prefix { $0 != "," }) ?? 0 }
  }

  func end() {
    guard process > 0 else { return }
    kill(process, SIGINT)
    var status: Int32 = 0
    while waitpid(process, &status, 0) < 0 && errno == EINTR {}
    process = 0
    close(control)
    close(answers)
    for fifo in fifos { unlink(fifo) }
  }
}
