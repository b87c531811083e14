internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Glibc
internal import Platform
internal import SystemPackage

struct LogCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "log", abstract: "Show what the daemon logged.",
    discussion: """
      Works while no daemon runs, too.

      With --downloads, a line for what each program or other reason had downloaded of a file, and for \
      what was denied: TIME fetched BYTES PATH, or TIME denied PATH, then the cause and who it was.
      """)

  @Flag(name: [.long, .customShort("f")], help: "Go on showing what is logged.") var follow = false
  @Flag(help: "Show what was downloaded, and who caused it.") var downloads = false
  @Option(
    name: [.long, .customShort("n")],
    help: ArgumentHelp("How many lines to start with.", valueName: "n"))
  var lines = 200
  @OptionGroup var options: GlobalOptions

  private struct Entry: Encodable {
    var time: String?
    var level: String?
    var label: String?
    var message: String
  }

  func validate() throws {
    guard lines >= 0 else { throw ValidationError("-n takes a number of lines.") }
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

  /// `TIME LEVEL LABEL: MESSAGE`; what is not of that form, as a crash's trace, is a message.
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

/// Reads the end of a log file and what comes after it, over its rotation.
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
        "\(path) cannot be read: \(error)")
    }
  }

  /// The whole lines that have come since.
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
    commandName: "doctor", abstract: "Look for what keeps ubiquityfs from working.")
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
    commandName: "fsck", abstract: "Check catalogs and content files, mounted or not.")
  @Flag(help: "Repair what can be repaired without losing anything.") var repair = false
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
