internal import CLinux
internal import ControlProtocol
internal import Glibc
package import Logging
internal import Model
internal import Platform
internal import SystemPackage

/// Where log lines go: `daemon.log`, of which the last few megabytes are kept, and stderr unless
/// that is the same file. A line is `TIME LEVEL LABEL: MESSAGE`; for the journal, which stamps
/// lines itself, `<PRIORITY>LABEL: MESSAGE`.
package final class LogSink: Sendable {
  private struct State {
    var file: OpenFile?
    var size: UInt64
  }

  private let path: String
  private let state: Lock<State>
  private let isDetached: Bool
  private let writesToStderr: Bool
  private let isJournal: Bool
  private static let maximumSize: UInt64 = 8 << 20

  /// A detached daemon's stdout and stderr are the log file too, for what a crash says.
  package init(path: String, isDetached: Bool) {
    self.path = path
    self.isDetached = isDetached
    writesToStderr = !isDetached
    isJournal = getenv("JOURNAL_STREAM") != nil
    let file = try? OpenFile.open(path, flags: O_WRONLY | O_CREAT | O_APPEND, mode: 0o600)
    let size = (try? file?.status().st_size) ?? 0
    state = Lock(State(file: file, size: UInt64(size)))
  }

  /// Has a crash of the process leave a line of its own; to be called before it has other threads.
  package func logCrashes() { _ = linux_log_crashes(path, writesToStderr ? 1 : 0) }

  package func logger(_ label: String, level: Logger.Level) -> Logger {
    var logger = Logger(label: label) { LineLogHandler(label: $0, sink: self) }
    logger.logLevel = level
    return logger
  }

  fileprivate func write(_ level: Logger.Level, _ label: String, _ message: String) {
    let oneLine = VisibleText.line(message)
    let time = Instant.text(nanoseconds: SystemClock().nanoseconds())
    let line = Array("\(time) \(level) \(label): \(oneLine)\n".utf8)
    state.withLock { state in
      put(line, state.file?.descriptor ?? -1)
      state.size += UInt64(line.count)
      if state.size > Self.maximumSize { rotate(&state) }
    }
    if writesToStderr {
      put(isJournal ? Array("<\(level.priority)>\(label): \(oneLine)\n".utf8) : line, 2)
    }
  }

  private func put(_ line: [UInt8], _ descriptor: Int32) {
    // A log that cannot be written is no reason to stop serving.
    _ = line.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
  }

  private func rotate(_ state: inout State) {
    try? Files.rename(path, path + ".1")
    state.file = try? OpenFile.open(path, flags: O_WRONLY | O_CREAT | O_APPEND, mode: 0o600)
    state.size = 0
    if isDetached, let descriptor = state.file?.descriptor {
      dup2(descriptor, 1)
      dup2(descriptor, 2)
    }
  }
}

private struct LineLogHandler: LogHandler {
  let label: String
  let sink: LogSink
  var logLevel = Logger.Level.info
  var metadata: Logger.Metadata = [:]

  init(label: String, sink: LogSink) {
    self.label = label
    self.sink = sink
  }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    let all = metadata.merging(event.metadata ?? [:]) { $1 }
    let suffix = all.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
    sink.write(event.level, label, "\(event.message)\(suffix)")
  }
}

extension Logger.Level {
  /// Of syslog(3).
  fileprivate var priority: Int {
    switch self {
    case .trace, .debug: 7
    case .info: 6
    case .notice: 5
    case .warning: 4
    case .error: 3
    case .critical: 2
    }
  }
}
