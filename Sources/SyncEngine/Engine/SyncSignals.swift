internal import Platform

/// Wakes the engine. `changedHere` is called on request threads: it takes one short lock.
final class SyncSignals: Sendable {
  enum Signal: Sendable {
    case changedHere
    case look
  }

  let stream: AsyncStream<Signal>
  private let continuation: AsyncStream<Signal>.Continuation
  private let lastChange = Lock<UInt64>(0)
  private let timer = Lock<Task<Void, Never>?>(nil)

  init() {
    (stream, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  func changedHere() {
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

  func finish() {
    timer.withLock { $0?.cancel() }
    continuation.finish()
  }

  /// How long nothing has changed here.
  func quietSince() -> Duration {
    .nanoseconds(Int64(monotonicNanoseconds() - lastChange.withLock { $0 }))
  }
}
