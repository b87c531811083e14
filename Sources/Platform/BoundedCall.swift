internal import Glibc

/// Calls that a mount can block whose daemon is dead or stopped.
package enum BoundedCall {
  /// Runs `body` on a thread of its own and gives up after the time; nil then. The thread is left
  /// to itself: it ends when the kernel answers, or with the process.
  package static func run<Value: Sendable>(
    milliseconds: Int, _ body: @escaping @Sendable () -> Value
  ) -> Value? {
    let result = Lock<Value?>(nil)
    let done = Gate()
    _ = startThread {
      let value = body()
      result.withLock { $0 = value }
      done.open()
    }
    guard done.wait(milliseconds: milliseconds) else { return nil }
    return result.withLock { $0 }
  }

  /// For paths of users: longer than a live file system takes on a busy machine.
  package static let patience = 30_000
}
