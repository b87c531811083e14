/// How a command ends; the numbers are the contract's.
package enum ExitStatus: Int32, Codable, Sendable, CaseIterable {
  case done = 0
  case failed = 1
  case usage = 2
  case notFound = 3
  case offline = 4
  case busy = 5
  case notPermitted = 6
  case timedOut = 7
}

/// What went wrong, in words that say what to do about it, and the exit status that a command
/// ends with because of it. Errors cross the control socket as this.
package struct ControlError: Error, Equatable, Sendable, CustomStringConvertible {
  package let status: ExitStatus
  package let message: String

  package init(_ status: ExitStatus, _ message: String) {
    self.status = status
    self.message = message
  }

  package var description: String { message }
}

/// The version of this program and of what it says on the control socket.
package enum Product {
  package static let name = "ubiquityfs"
  package static let version = "0.1.0"
  /// Goes up when a client and a daemon of different builds would not understand each other.
  package static let protocolVersion = 1
}
