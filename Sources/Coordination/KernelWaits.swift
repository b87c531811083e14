internal import Platform

/// Waits until the kernel has heard of something, without a thread and not for ever.
///
/// The kernel may hold a lock that it needs for hearing, for a request that the caller is about to
/// answer: so a wait is given up after its limit. Until the kernel has caught up after that, no
/// other wait begins, so that a request that waits for long costs the downloads of other files one
/// limit in all. Any thread. The locks are leaves.
package final class KernelWaits: Sendable {
  /// Of the waits that were given up, those that the kernel has not answered yet.
  private let late = Lock(0)

  package init() {}

  /// Calls `send` with what the kernel's hearing is to call, once and on any thread.
  package func wait(
    limit: Duration, _ send: (_ heard: @escaping @Sendable () -> Void) -> Void
  ) async {
    guard late.withLock({ $0 == 0 }) else { return send {} }
    await withCheckedContinuation { continuation in
      let wait = Wait(continuation, late)
      let timer = Task {
        do { try await Task.sleep(for: limit) } catch { return }
        wait.giveUp()
      }
      send {
        timer.cancel()
        wait.end()
      }
    }
  }

  private final class Wait: Sendable {
    private let continuation: Lock<CheckedContinuation<Void, Never>?>
    private let late: Lock<Int>

    init(_ continuation: CheckedContinuation<Void, Never>, _ late: Lock<Int>) {
      self.continuation = Lock(continuation)
      self.late = late
    }

    func end() {
      guard let continuation = continuation.withLock({ $0.take() }) else {
        return late.withLock { $0 -= 1 }
      }
      continuation.resume()
    }

    func giveUp() {
      // Counted under the wait's lock: `end` comes after, and takes it back.
      let continuation = continuation.withLock { continuation in
        if continuation != nil { late.withLock { $0 += 1 } }
        return continuation.take()
      }
      continuation?.resume()
    }
  }
}
