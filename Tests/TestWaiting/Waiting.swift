/// A test waited for something until its deadline.
package struct WaitTimeout: Error, CustomStringConvertible {
  package let description: String
}

/// The end of a wait, and what the wait is for.
package struct Deadline: Sendable {
  private static let pollInterval = Duration.milliseconds(5)

  private let end: ContinuousClock.Instant

  /// The error of a wait that reaches the deadline.
  package let timeout: WaitTimeout

  /// `what` is a clause, such as "the server has a request".
  package init(
    _ what: String, within limit: Duration = .seconds(120), file: String = #fileID,
    line: Int = #line
  ) {
    end = ContinuousClock.now + limit
    timeout = WaitTimeout(
      description: "waited \(limit.components.seconds) s for: \(what) (\(file):\(line))")
  }

  package var isOver: Bool { ContinuousClock.now >= end }

  /// Throws after the deadline.
  package func check() throws {
    if isOver { throw timeout }
  }

  /// Sleeps between two looks at a condition. Throws after the deadline.
  package func pause() async throws {
    try check()
    try await Task.sleep(for: Self.pollInterval)
  }
}

/// Waits until a condition holds. Throws `WaitTimeout` after the deadline.
package func eventually(
  _ what: String, within limit: Duration = .seconds(120), file: String = #fileID,
  line: Int = #line, _ condition: () async throws -> Bool
) async throws {
  let deadline = Deadline(what, within: limit, file: file, line: line)
  while try await !condition() { try await deadline.pause() }
}
