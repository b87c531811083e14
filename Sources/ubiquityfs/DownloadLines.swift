internal import ControlProtocol
internal import DaemonClient
internal import FoundationEssentials
internal import Glibc
internal import Platform

/// The output of `log --downloads`.
struct DownloadLines {
  let options: GlobalOptions
  let lines: Int

  func show(follow: Bool) throws {
    let state = try options.stateDirectory()
    // Makes a running daemon write the lines that it still has in memory.
    _ = try ControlClient.connectIfRunning(state: state)?.call(
      Methods.WriteDownloads.self, Nothing())
    let path = state + "/" + DownloadReport.fileName
    var tail = LogTail(path: path)
    // The file does not exist before the first download.
    var found = try tail.start(lines: lines, mayBeMissing: true)
    if found.count < lines {
      var before = LogTail(path: path + ".1")
      found = try before.start(lines: lines - found.count, mayBeMissing: true) + found
    }
    for line in found { try show(line) }
    while follow {
      let more = tail.more()
      for line in more { try show(line) }
      if more.isEmpty { usleep(200_000) }
    }
  }

  /// Skips lines that do not parse, such as one that a crash cut short.
  private func show(_ line: [UInt8]) throws {
    guard let report = try? BoundedJSON.decode(DownloadReport.self, from: line) else {
      return
    }
    if options.json { return Terminal.write(line + [0x0A]) }
    Terminal.line(Self.text(report))
  }

  static func text(_ report: DownloadReport) -> String {
    var words = [report.time, report.result.rawValue]
    if report.result == .fetched { words.append("\(report.bytes) bytes") }
    words.append(report.path.bytes.isEmpty ? "(deleted)" : Self.printable(report.path))
    words.append("(\(report.cause))")
    if let process = report.process {
      words.append("by \(report.command ?? "?") (process \(process)")
      if let executable = report.executable {
        words[words.count - 1] += ", \(Self.printable(executable))"
      }
      words[words.count - 1] += ")"
    }
    if let rule = report.rule { words.append("[\(rule)]") }
    return words.joined(separator: " ")
  }

  /// Replaces control characters, so that a name stays on one line.
  private static func printable(_ path: PathBytes) -> String {
    String(
      String.UnicodeScalarView(
        path.description.unicodeScalars.map {
          $0.value < 0x20 || (0x7F..<0xA0).contains($0.value) ? "?" : $0
        }))
  }
}
