package import Model
package import SystemPackage

/// The answer to a program that reads a content which its device announced and did not upload.
package struct UnsentContent: Sendable, Hashable {
  /// How long it waits.
  package var wait: Duration
  /// ETIMEDOUT or EIO.
  package var error: Errno
  /// So long after the last look the wait begins anew. In whole seconds; longer in tests, where
  /// other load may pass for a program that went away.
  package var memory: Duration

  package init(
    wait: Duration = .seconds(60), error: Errno = .timedOut, memory: Duration = .seconds(30)
  ) {
    self.wait = wait
    self.error = error
    self.memory = memory
  }
}

/// One such content that programs wait for. Monotonic nanoseconds.
struct UnsentWait {
  let version: VersionID
  let since: UInt64
  /// When somebody last waited for it.
  var last: UInt64
  var isTold = false

  /// After so long it is said.
  static let moment: UInt64 = 1_000_000_000

  init(version: VersionID, since: UInt64) {
    self.version = version
    self.since = since
    last = since
  }
}
