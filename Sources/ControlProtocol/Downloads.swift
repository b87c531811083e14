/// A command is about to be run by the process that asks, which is limited from here on until it
/// ends, with all that it starts.
package struct RunRequest: Codable, Sendable {
  /// `deny` or `rangeOnly`.
  package var access: String
  /// Of `deny`: what reads get, EPERM or EAGAIN.
  package var error: String?
  /// When the process was started, as proc_pid_stat(5) has it: a number that was given anew is
  /// another's.
  package var started: UInt64

  package init(access: String, error: String?, started: UInt64) {
    self.access = access
    self.error = error
    self.started = started
  }
}

/// A line of `log --downloads`: what one program, or one other reason, caused of one item.
package struct DownloadReport: Codable, Equatable, Sendable {
  package enum Result: String, Codable, Sendable {
    case fetched
    case denied
  }

  package static let fileName = "downloads.log"

  /// When it began.
  package var time: String
  package var result: Result
  package var cause: String
  package var path: PathBytes
  package var container: String
  /// Of content, as it is in the file.
  package var bytes: UInt64
  /// How many pieces came, or how many reads were denied.
  package var count: UInt64
  package var process: Int32?
  package var command: String?
  package var executable: PathBytes?
  /// What denied or limited it.
  package var rule: String?

  package init(
    time: String, result: Result, cause: String, path: PathBytes, container: String,
    bytes: UInt64, count: UInt64, process: Int32?, command: String?, executable: PathBytes?,
    rule: String?
  ) {
    self.time = time
    self.result = result
    self.cause = cause
    self.path = path
    self.container = container
    self.bytes = bytes
    self.count = count
    self.process = process
    self.command = command
    self.executable = executable
    self.rule = rule
  }
}

extension Methods {
  package enum RegisterRun: ControlMethod {
    package typealias Parameters = RunRequest
    package typealias Answer = Nothing
    package static let name = "downloads.limit"
  }

  /// What was downloaded so far is in the log when it answers.
  package enum WriteDownloads: ControlMethod {
    package typealias Parameters = Nothing
    package typealias Answer = Nothing
    package static let name = "downloads.write"
  }
}
