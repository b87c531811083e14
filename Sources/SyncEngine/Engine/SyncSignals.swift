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
  /// The log may have gone on since the last look at it began. A signal in the stream may take the
  /// place of another, and this stays.
  private let isLogBehind = Lock(true)
  private let timer = Lock<Task<Void, Never>?>(nil)

  package init() {
    (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  package func changedHere() {
    lastChange.withLock { $0 = monotonicNanoseconds() }
    continuation.yield(.changedHere)
  }

  /// Has a cycle read the log, for news or because too much time has passed.
  func look() {
    wantLook()
    continuation.yield(.look)
  }

  /// Begins a cycle for an event on this device that is not a change, such as the end of an upload.
  func goOn() { continuation.yield(.look) }

  func wantLook() { isLogBehind.withLock { $0 = true } }

  /// To be called before the log is read: the read misses later segments. Gives whether the look
  /// was wanted.
  func beginLook() -> Bool {
    isLogBehind.withLock { isBehind in
      defer { isBehind = false }
      return isBehind
    }
  }

  var wantsLook: Bool { isLogBehind.withLock { $0 } }

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

  /// How long nothing has changed here. The clock is read under the lock, as in `changedHere`: a
  /// time from before it may be earlier than a change that another thread notes meanwhile.
  package func quietSince() -> Duration {
    lastChange.withLock { .nanoseconds(Int64(monotonicNanoseconds() - $0)) }
  }
}
