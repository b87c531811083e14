internal import Glibc

/// What /proc tells of who asks for something.
///
/// None of it waits for the process that is looked at, but `environment`: that one needs the
/// process's memory map, which a thread of it may hold while it waits for whoever looks.
extension Processes {
  /// A process or thread as it is now. With the time of its start a number is no other's.
  package struct Start: Hashable, Sendable {
    package let number: Int32
    /// Since the machine's start, in the kernel's ticks.
    package let ticks: UInt64

    package init(number: Int32, ticks: UInt64) {
      self.number = number
      self.ticks = ticks
    }
  }

  /// The program of a process or thread. `execve` changes it, also where the file stays the same.
  package struct Image: Hashable, Sendable {
    package let start: Start
    /// Where the environment lies in the process's memory. Randomized by each `execve`. Both are 0
    /// where that may not be seen, and until an `execve` is complete.
    let environmentStart: UInt64
    let environmentEnd: UInt64
    /// Its path when the process started it; nil where that may not be seen.
    package let executable: [UInt8]?
  }

  /// Nil when it is gone or cannot be seen.
  package static func image(of number: Int32) -> Image? {
    guard let status = status(ofThread: number) else { return nil }
    return Image(
      start: status.start, environmentStart: status.environment.start,
      environmentEnd: status.environment.end, executable: executable(of: number))
  }

  /// Nil when it is gone or cannot be seen.
  package static func start(of number: Int32) -> Start? { status(ofThread: number)?.start }

  private struct Status {
    var parent: Int32
    var start: Start
    var isZombie: Bool
    var environment: (start: UInt64, end: UInt64)
  }

  private static func status(ofThread number: Int32) -> Status? {
    guard let line = Files.smallText("/proc/\(number)/stat", limit: 1024),
      // The name, in parentheses, may have anything in it. Source: proc_pid_stat(5).
      let end = line.lastIndex(of: ")")
    else { return nil }
    let words = line[end...].split(separator: " ")
    guard words.count > 20, let parent = Int32(words[2]), let ticks = UInt64(words[20]) else {
      return nil
    }
    let ends = words.count > 49 ? (UInt64(words[48]) ?? 0, UInt64(words[49]) ?? 0) : (0, 0)
    return Status(
      parent: parent, start: Start(number: number, ticks: ticks),
      isZombie: words[1] == "Z" || words[1] == "X", environment: ends)
  }

  /// As `lineage`, with the time of each one's start.
  package static func startedLineage(of number: Int32) -> [Start] {
    lineage(of: number).compactMap { start(of: $0) }
  }

  /// Whether there is no such process or thread. One that may only not be seen is there.
  package static func isGone(_ number: Int32) -> Bool { kill(number, 0) != 0 && errno == ESRCH }

  /// Whether a process was killed, or ends, and the kernel cannot remove it yet because a thread of
  /// it waits for something. Its descriptors are still open then, and its locks held. False when it
  /// is gone.
  package static func isEnding(_ process: Start) -> Bool {
    guard let status = status(ofThread: process.number), status.start == process else {
      return false
    }
    let others = ((try? Files.names(in: "/proc/\(process.number)/task")) ?? []).count - 1
    // A zombie without other threads holds nothing; only its parent has not asked for its status.
    if status.isZombie { return others > 0 }
    guard let text = Files.smallText("/proc/\(process.number)/status", limit: 8192) else {
      return false
    }
    return text.split(separator: "\n").contains { line in
      if line == "CoreDumping:\t1" { return true }
      guard line.hasPrefix("SigPnd:") || line.hasPrefix("ShdPnd:") else { return false }
      let pending = line.split(whereSeparator: \.isWhitespace).last.flatMap {
        UInt64($0, radix: 16)
      }
      return (pending ?? 0) & (1 << UInt64(SIGKILL - 1)) != 0
    }
  }

  /// The number of the process that a thread is of.
  package static func process(ofThread number: Int32) -> Int32 {
    lineage(of: number, limit: 1).first ?? number
  }

  /// The file that it runs, by its name where it was started; nil where that may not be seen, and
  /// of a thread of the kernel's.
  package static func executable(of number: Int32) -> [UInt8]? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
      guard let start = buffer.baseAddress else { return nil }
      let count = readlink("/proc/\(number)/exe", start, buffer.count)
      guard count > 0 else { return nil }
      let path = [UInt8](UnsafeRawBufferPointer(start: start, count: count))
      let suffix = Array(" (deleted)".utf8)
      return path.suffix(suffix.count) == suffix[...] ? path.dropLast(suffix.count) : path
    }
  }

  /// As `ps` has it: at most 15 bytes, of a script the script's name.
  package static func command(of number: Int32) -> String? {
    Files.smallText("/proc/\(number)/comm", limit: 64)
  }

  /// Its place in each hierarchy, `/user.slice/...`.
  package static func controlGroups(of number: Int32) -> [String] {
    guard let text = Files.smallText("/proc/\(number)/cgroup", limit: 1 << 14) else { return [] }
    return text.split(separator: "\n").compactMap { line in
      // `HIERARCHY:CONTROLLERS:PATH`. Source: cgroups(7).
      let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      return parts.count == 3 ? String(parts[2]) : nil
    }
  }

  private static let longestEnvironment = 8 << 20

  /// A variable as it was when the program was started.
  package enum EnvironmentValue: Hashable, Sendable {
    case text(String)
    case absent
    /// It may not be seen.
    case hidden
    /// An `execve` is under way: the new environment cannot be seen yet.
    case incomplete
  }

  /// May wait for the process: not on a thread for which it waits.
  package static func environment(of number: Int32, _ name: String) -> EnvironmentValue {
    let descriptor = open("/proc/\(number)/environ", O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return .hidden }
    defer { close(descriptor) }
    let wanted = Array("\(name)=".utf8)
    var bytes: [UInt8] = []
    while bytes.count < longestEnvironment {
      let piece = [UInt8](unsafeUninitializedCapacity: 1 << 16) { buffer, filled in
        filled = max(0, Glibc.read(descriptor, buffer.baseAddress, buffer.count))
      }
      if piece.isEmpty { break }
      bytes += piece
    }
    // The kernel sets the ends of the environment last. One that was made empty has ends, too.
    if bytes.isEmpty, status(ofThread: number)?.environment.end ?? 0 == 0 { return .incomplete }
    for entry in bytes.split(separator: 0) where entry.starts(with: wanted) {
      return .text(String(decoding: entry.dropFirst(wanted.count), as: UTF8.self))
    }
    return .absent
  }
}

extension Processes {
  /// The threads of a process that have not ended; none when it is gone.
  package static func runningThreads(of process: Int32) -> [Int32] {
    ((try? Files.names(in: "/proc/\(process)/task")) ?? []).compactMap { name in
      guard let thread = Int32(name),
        let line = Files.smallText("/proc/\(process)/task/\(name)/stat", limit: 1024),
        let end = line.lastIndex(of: ")")
      else { return nil }
      let state = line[end...].split(separator: " ").dropFirst().first
      return state == "Z" || state == "X" ? nil : thread
    }
  }
}
