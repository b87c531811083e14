import Platform

/// A clock that goes on only when it is told to.
final class VirtualClock: WallClock {
  private struct State {
    var now: UInt64 = 1_000_000_000
    var next = 0
    var sleepers: [Int: (end: UInt64, continuation: CheckedContinuation<Void, any Error>)] = [:]
    var cancelled: Set<Int> = []
  }

  private let state = Lock(State())

  var now: UInt64 { state.withLock { $0.now } }
  var sleepers: Int { state.withLock { $0.sleepers.count } }

  func nanoseconds() -> Int64 { Int64(now) }

  func sleep(_ duration: Duration) async throws {
    let id = state.withLock { state in
      state.next += 1
      return state.next
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isOver = state.withLock { state in
          if state.cancelled.remove(id) != nil { return true }
          let end = state.now + UInt64(max(0, duration / .nanoseconds(1)))
          state.sleepers[id] = (end, continuation)
          return false
        }
        if isOver { continuation.resume(throwing: CancellationError()) }
      }
    } onCancel: {
      let sleeper = state.withLock { state in
        let sleeper = state.sleepers.removeValue(forKey: id)
        if sleeper == nil { state.cancelled.insert(id) }
        return sleeper
      }
      sleeper?.continuation.resume(throwing: CancellationError())
    }
  }

  func advance(_ duration: Duration) {
    let woken = state.withLock { state in
      state.now += UInt64(duration / .nanoseconds(1))
      let over = state.sleepers.filter { $0.value.end <= state.now }
      for id in over.keys { state.sleepers[id] = nil }
      return over.values.sorted { $0.end < $1.end }.map(\.continuation)
    }
    for continuation in woken { continuation.resume() }
  }
}
