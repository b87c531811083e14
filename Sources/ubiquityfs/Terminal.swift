internal import ControlProtocol
internal import FoundationEssentials
internal import Glibc
internal import Model

enum Terminal {
  /// One JSON document on one line, with its members in a fixed order.
  static func printJSON(_ value: some Encodable) throws { line(try json(value)) }

  static func json(_ value: some Encodable) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(value), as: UTF8.self)
  }

  /// Writes a line to stdout, without control characters if that is a terminal. Programs get the
  /// raw bytes.
  static func line(_ text: String) {
    write(Array((isatty(1) == 1 ? VisibleText.of(text) : text).utf8) + [0x0A])
  }

  /// Writes text to stderr in the same way, and ignores errors.
  static func error(_ text: String) { control(isatty(2) == 1 ? VisibleText.of(text) : text) }

  /// Writes text to stderr that may move the cursor. Never pass text from files or other devices.
  fileprivate static func control(_ text: String) {
    let bytes = Array(text.utf8)
    _ = bytes.withUnsafeBytes { Glibc.write(2, $0.baseAddress, $0.count) }
  }

  /// Whether a user can answer questions.
  static var isInteractive: Bool { isatty(0) == 1 && isatty(2) == 1 }

  /// Asks on the terminal. Any answer but y or yes is a no.
  static func asks(_ question: String) -> Bool {
    error("\(question) [y/N] ")
    let answer = readLine()?.lowercased().filter { !$0.isWhitespace }
    return answer == "y" || answer == "yes"
  }

  /// Writes to stdout. Ends the command if the reader has closed the pipe.
  static func write(_ bytes: [UInt8]) {
    var done = 0
    while done < bytes.count {
      let count = bytes.withUnsafeBytes {
        Glibc.write(1, $0.baseAddress.map { $0 + done }, $0.count - done)
      }
      if count < 0 {
        if errno == EINTR { continue }
        if errno != EPIPE {
          UbiquityCommand.complain(
            "cannot write to standard output: \(String(cString: strerror(errno)))")
        }
        exit(ExitStatus.failed.rawValue)
      }
      done += count
    }
  }

  /// Formats rows in columns as wide as their widest field.
  static func table(_ rows: [[String]]) -> String {
    guard let columns = rows.map(\.count).max() else { return "" }
    let widths = (0..<columns).map { column in
      rows.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
    }
    return rows.map { row in
      row.enumerated().map { index, field in
        index == row.count - 1
          ? field : field + String(repeating: " ", count: widths[index] - field.count)
      }.joined(separator: "  ")
    }.joined(separator: "\n")
  }

  static func size(_ bytes: UInt64) -> String {
    var value = Double(bytes)
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
      if value < 1024 || unit == "TiB" {
        let tenths = Int((value * 10).rounded())
        return unit == "B" ? "\(bytes) B" : "\(tenths / 10).\(tenths % 10) \(unit)"
      }
      value /= 1024
    }
    return "\(bytes) B"
  }
}

/// A progress bar on stderr, if that is a terminal.
final class ProgressBar {
  private let label: String
  private let isShown: Bool
  private var isDrawn = false

  init(_ label: String, options: GlobalOptions) {
    self.label = label
    isShown = !options.quiet && !options.json && isatty(2) == 1
  }

  /// Takes a `progress` notification; others are ignored.
  func notified(_ name: String, _ line: [UInt8]) {
    guard isShown, name == Notifications.progress,
      let progress = try? Message.parameters(Progress.self, in: line)
    else { return }
    let share = progress.total == 0 ? 0 : min(1, Double(progress.done) / Double(progress.total))
    let width = 30
    let filled = Int(share * Double(width))
    let bar =
      String(repeating: "#", count: filled) + String(repeating: "-", count: width - filled)
    let numbers =
      progress.unit == "bytes"
      ? "\(Terminal.size(progress.done)) of \(Terminal.size(progress.total))"
      : "\(progress.done) of \(progress.total)"
    Terminal.control("\r\u{1B}[K\(label) [\(bar)] \(Int(share * 100))% \(numbers)")
    isDrawn = true
  }

  func finish() {
    if isDrawn { Terminal.control("\r\u{1B}[K") }
    isDrawn = false
  }
}
