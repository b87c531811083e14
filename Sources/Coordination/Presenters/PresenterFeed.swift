internal import Platform

/// What is to be told to presenters, found out by a thread of its own, in the order in which it
/// happened.
///
/// Who posts is never kept waiting. What waits is bounded: when it grows beyond, `overflow` is done
/// in its place, once.
final class PresenterFeed: Sendable {
  typealias Work = @Sendable () -> Void

  private struct State {
    var queue: [(weight: Int, work: Work)] = []
    var weight = 0
    var isRunning = false
    /// Of the containers of which too much happened.
    var overflows: [UInt32: Work] = [:]
  }

  /// A leaf.
  private let state = Lock(State())
  private let news = Gate()
  private let capacity: Int
  /// So long the thread waits for more before it ends.
  private static let patience = 10_000

  init(capacity: Int = 100_000) { self.capacity = capacity }

  /// Any thread, no lock held. `weight`: how many changes it is.
  func post(_ weight: Int, of container: UInt32, _ work: @escaping Work, overflow: @escaping Work) {
    let mustStart = state.withLock { state in
      if state.weight + weight > capacity {
        state.overflows[container] = overflow
      } else {
        state.weight += weight
        state.queue.append((weight, work))
      }
      defer { state.isRunning = true }
      return !state.isRunning
    }
    news.open()
    if mustStart { _ = startThread { self.run() } }
  }

  private func run() {
    while true {
      news.close()
      while true {
        let batch = state.withLock { state -> [Work] in
          if state.queue.isEmpty {
            defer { state.overflows = [:] }
            return Array(state.overflows.values)
          }
          defer { state.queue = [] }
          return state.queue.map { entry in
            { [self] in
              entry.work()
              self.state.withLock { $0.weight -= entry.weight }
            }
          }
        }
        guard !batch.isEmpty else { break }
        for work in batch { work() }
      }
      if !news.wait(milliseconds: Self.patience) {
        let isOver = state.withLock { state in
          guard state.queue.isEmpty, state.overflows.isEmpty else { return false }
          state.isRunning = false
          return true
        }
        if isOver { return }
      }
    }
  }
}
