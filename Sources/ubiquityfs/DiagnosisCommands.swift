internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Glibc
internal import Platform
internal import SystemPackage

struct LogCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "log", abstract: "Show the daemon's log.",
    discussion: """
      The daemon need not run.

      With --downloads, shows completed and denied downloads, one line per file and cause:
        TIME fetched N bytes PATH (CAUSE) by PROGRAM (process PID, EXECUTABLE)
        TIME denied PATH (CAUSE) by PROGRAM (process PID, EXECUTABLE) [RULE]
      Downloads that no program caused end after the cause.
      """)

  @Flag(name: [.long, .customShort("f")], help: "Keep running and show new lines.")
  var follow = false
  @Flag(help: "Show downloads and the programs that caused them.") var downloads = false
  @Option(
    name: [.long, .customShort("n")],
    help: ArgumentHelp("The number of lines to start with.", valueName: "n"))
  var lines = 200
  @OptionGroup var options: GlobalOptions

  private struct Entry: Encodable {
    var time: String?
    var level: String?
    var label: String?
    var message: String
  }

  func validate() throws {
    guard lines >= 0 else { throw ValidationError("-n takes a number of lines") }
  }

  func run() throws {
    if downloads { return try DownloadLines(options: options, lines: lines).show(follow: follow) }
    let path = try options.stateDirectory() + "/daemon.log"
    var tail = LogTail(path: path)
    for line in try tail.start(lines: lines, mayBeMissing: follow) { try show(line) }
    while follow {
      let more = tail.more()
      for line in more { try show(line) }
      if more.isEmpty { usleep(200_000) }
    }
  }

  private func show(_ line: [UInt8]) throws {
    guard options.json else { return Terminal.write(line + [0x0A]) }
    try Terminal.printJSON(Self.entry(String(decoding: line, as: UTF8.self)))
  }

  /// Parses `TIME LEVEL LABEL: MESSAGE`. Any other line, as of a crash trace, is a message.
  private static func entry(_ line: String) -> Entry {
    let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
    guard words.count == 4, words[0].hasSuffix("Z"), words[2].hasSuffix(":") else {
      return Entry(message: line)
    }
    return Entry(
      time: String(words[0]), level: String(words[1]), label: String(words[2].dropLast()),
      message: String(words[3]))
  }
}

/// Reads the end of a log file and the lines that follow, also after its rotation.
struct LogTail {
  private let path: String
  private var file: OpenFile?
  private var position: UInt64 = 0
  private var rest: [UInt8] = []

  init(path: String) { self.path = path }

  mutating func start(lines: Int, mayBeMissing: Bool) throws -> [[UInt8]] {
    do throws(Errno) {
      let file = try OpenFile.open(path, flags: O_RDONLY)
      let size = UInt64(try file.status().st_size)
      let from = size > 4 << 20 ? size - 4 << 20 : 0
      self.file = file
      position = from
      let found = more()
      return found.suffix(lines)
    } catch {
      if error == .noSuchFileOrDirectory, mayBeMissing { return [] }
      throw ControlError(
        error == .noSuchFileOrDirectory ? .notFound : ControlError.status(of: error),
        "cannot read \"\(path)\": \(error)")
    }
  }

  /// The complete lines since the last call.
  mutating func more() -> [[UInt8]] {
    if file == nil { file = try? OpenFile.open(path, flags: O_RDONLY) }
    guard let file else { return [] }
    var bytes: [UInt8] = []
    while let piece = try? file.read(count: 1 << 16, at: position), !piece.isEmpty {
      bytes += piece
      position += UInt64(piece.count)
    }
    if bytes.isEmpty, isRotated(file) {
      self.file = nil
      position = 0
      return []
    }
    rest += bytes
    var lines = rest.split(separator: 0x0A, omittingEmptySubsequences: false).map(Array.init)
    rest = lines.popLast() ?? []
    return lines
  }

  private func isRotated(_ file: OpenFile) -> Bool {
    guard let mine = try? file.status(), let named = try? Files.status(path) else { return false }
    return mine.st_ino != named.st_ino || mine.st_dev != named.st_dev
  }
}

struct DoctorCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor", abstract: "Find problems that keep ubiquityfs from working.")
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let report = try options.connect().call(Methods.Diagnose.self, Nothing())
    if options.json {
      try Terminal.printJSON(report)
    } else {
      Terminal.line(
        Terminal.table(
          report.findings.map { [$0.verdict.rawValue, $0.check, $0.message] }))
    }
    if report.findings.contains(where: { $0.verdict == .failed }) {
      throw ExitCode(ExitStatus.failed.rawValue)
    }
  }
}

struct FsckCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "fsck", abstract: "Check catalogs and content files of all containers.")
  @Flag(help: "Make the repairs that lose no data.") var repair = false
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let report = try options.connect().call(
      Methods.Check.self, CheckRequest(repair: repair))
    if options.json {
      try Terminal.printJSON(report)
    } else {
      for problem in report.problems {
        Terminal.line(
          "\(problem.container): \(problem.description)\(problem.isRepaired ? " (repaired)" : "")")
      }
      options.say(
        "Containers checked: \(report.containers.count). Problems: \(report.problems.count).")
    }
    if report.problems.contains(where: { !$0.isRepaired }) {
      throw ExitCode(ExitStatus.failed.rawValue)
    }
  }
}
