internal import Platform

/// Wakes the engine. `changedHere` is called on request threads: it takes one short lock.
package final class SyncSignals: Sendable {
  package enum Signal: Sendable {
    case changedHere
    case look
  }

  package let stream: AsyncStream<Signal>
  private let continuation: AsyncStream<Signal>.Continuation
  private let lastChange = Lock<UInt64>(0)
  private let timer = Lock<Task<Void, Never>?>(nil)

  package init() {
    (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  package func changedHere() {
    lastChange.withLock { $0 = monotonicNanoseconds() }
    continuation.yield(.changedHere)
  }

  func look() { continuation.yield(.look) }

  /// One timer: a later call takes the place of an earlier one.
  func lookLater(after delay: Duration) {
    let next = Task {
      do { try await Task.sleep(for: delay) } catch { return }
      self.look()
    }
    timer.withLock { timer in
      timer?.cancel()
      timer = next
    }
  }

  package func finish() {
    timer.withLock { $0?.cancel() }
    continuation.finish()
  }

  /// How long nothing has changed here. The clock is read under the lock, as in `changedHere`: a time
  /// from before it may be earlier than a change that another thread notes meanwhile.
  package func quietSince() -> Duration {
    lastChange.withLock { .nanoseconds(Int64(monotonicNanoseconds() - $0)) }
  }
}
