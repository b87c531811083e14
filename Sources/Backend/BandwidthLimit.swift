internal import Platform

/// How many bytes may go one way in a second, on the average of a few seconds: a bucket that fills
/// at the rate, and that calls take their bytes out of before they are made.
///
/// Who waits longest goes first, but what somebody waits for goes before what nobody waits for, on
/// credit of up to a second; so that much can always overtake. What was overtaken by three times
/// its own bytes goes nevertheless.
///
/// Any thread. The lock is a leaf.
package final class BandwidthLimit: Sendable {
  private struct Waiter {
    let id: UInt64
    let bytes: Double
    let continuation: CheckedContinuation<Bool, Never>
  }

  private struct State {
    /// Bytes in a second; nil: no limit.
    var rate: Double?
    /// Less than none where bytes were more than expected, or went on credit.
    var tokens = 0.0
    var filled: UInt64
    var awaited: [Waiter] = []
    var others: [Waiter] = []
    /// What went before the first of the others since it is that.
    var overtaken = 0.0
    var nextID: UInt64 = 0
    var timer: Task<Void, Never>?

    var isEmpty: Bool { awaited.isEmpty && others.isEmpty }
  }

  private static let patience = 3.0

  private let now: @Sendable () -> UInt64
  private let sleep: @Sendable (Duration) async throws -> Void
  private let state: Lock<State>

  /// The clock and `sleep` are for tests.
  package init(
    rate: UInt64? = nil, now: @escaping @Sendable () -> UInt64 = { monotonicNanoseconds() },
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  ) {
    self.now = now
    self.sleep = sleep
    let rate = rate.map { Double($0) }
    state = Lock(State(rate: rate, tokens: rate ?? 0, filled: now()))
  }

  deinit { state.withLock { $0.timer?.cancel() } }

  package var rate: UInt64? { state.withLock { $0.rate.map { UInt64($0) } } }

  /// Holds for what waits already, too.
  package func set(rate: UInt64?) {
    state.withLock { state in
      fill(&state)
      state.rate = rate.map { Double($0) }
      state.tokens = min(state.tokens, state.rate ?? 0)
      if rate == nil { state.tokens = 0 }
    }
    serve()
  }

  /// Whether calls wait here: their answers are late on purpose.
  package var isHolding: Bool { state.withLock { !$0.isEmpty } }

  // MARK: Taking

  /// Returns when it is the call's turn; its bytes are taken then.
  package func take(_ bytes: Int, isAwaited: Bool) async throws(StoreError) {
    let id: UInt64? = state.withLock { state in
      // Without a limit nothing is counted.
      guard state.rate != nil else { return nil }
      state.nextID += 1
      return state.nextID
    }
    guard let id else { return }
    let isTurn = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isCancelled = state.withLock { state in
          if Task.isCancelled { return true }
          let waiter = Waiter(id: id, bytes: Double(bytes), continuation: continuation)
          if isAwaited { state.awaited.append(waiter) } else { state.others.append(waiter) }
          return false
        }
        if isCancelled { continuation.resume(returning: false) } else { serve() }
      }
    } onCancel: {
      drop(id)
    }
    guard isTurn else { throw .cancelled }
  }

  /// Bytes that came without having been taken, or less than none: some were taken and did not
  /// come.
  package func charge(_ bytes: Int) {
    guard bytes != 0 else { return }
    state.withLock { if $0.rate != nil { $0.tokens -= Double(bytes) } }
    if bytes < 0 { serve() }
  }

  private func drop(_ id: UInt64) {
    let dropped: Waiter? = state.withLock { state in
      if let place = state.awaited.firstIndex(where: { $0.id == id }) {
        return state.awaited.remove(at: place)
      }
      guard let place = state.others.firstIndex(where: { $0.id == id }) else { return nil }
      if place == 0 { state.overtaken = 0 }
      return state.others.remove(at: place)
    }
    dropped?.continuation.resume(returning: false)
    if dropped != nil { serve() }
  }

  // MARK: Serving

  private func fill(_ state: inout State) {
    let time = now()
    defer { state.filled = time }
    guard let rate = state.rate else { return }
    // As much as the first of those that wait need; without any, a second's worth.
    let room = max(
      rate, state.awaited.first?.bytes ?? 0, state.others.first?.bytes ?? 0)
    let more = rate * Double(time - min(time, state.filled)) / 1e9
    if state.tokens < room { state.tokens = min(room, state.tokens + more) }
  }

  /// Lets those go whose turn it is, and wakes itself when it is the next one's.
  private func serve() {
    let ready = state.withLock { state in
      fill(&state)
      var ready: [Waiter] = []
      var missing: Double?
      while !state.isEmpty {
        guard let rate = state.rate else {
          ready += state.awaited + state.others
          (state.awaited, state.others) = ([], [])
          break
        }
        let isLate =
          state.others.first.map { state.overtaken >= Self.patience * max($0.bytes, 1) } ?? false
        let isAwaited = !state.awaited.isEmpty && !isLate
        guard let first = isAwaited ? state.awaited.first : state.others.first else { break }
        let short = first.bytes - state.tokens - (isAwaited ? rate : 0)
        guard short <= 0 else {
          missing = short
          break
        }
        if isAwaited {
          state.awaited.removeFirst()
          if !state.others.isEmpty { state.overtaken += first.bytes }
        } else {
          state.others.removeFirst()
          state.overtaken = 0
        }
        state.tokens -= first.bytes
        ready.append(first)
      }
      state.timer?.cancel()
      state.timer = nil
      if let rate = state.rate, let missing {
        // A little more, so that rounding does not wake it too early for ever.
        let pause = Duration.seconds(missing / rate) + .milliseconds(1)
        state.timer = Task { [weak self, sleep] in
          guard (try? await sleep(pause)) != nil else { return }
          self?.serve()
        }
      }
      return ready
    }
    for waiter in ready { waiter.continuation.resume(returning: true) }
  }
}

/// The limits of both ways.
package struct BandwidthLimits: Sendable {
  package let up: BandwidthLimit
  package let down: BandwidthLimit

  package init(up: BandwidthLimit = BandwidthLimit(), down: BandwidthLimit = BandwidthLimit()) {
    self.up = up
    self.down = down
  }
}
