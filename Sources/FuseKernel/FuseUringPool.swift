internal import Glibc
internal import Platform

/// A few threads for what may block, made when they are needed.
final class FuseUringPool: @unchecked Sendable {
  private struct State {
    var work: [@Sendable () -> Void] = []
    var threads = 0
    /// Threads that wait and that nothing was added for.
    var idle = 0
    var isStopped = false
  }

  private let limit: Int
  private let state = Lock(State())
  private let items = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
  private let isEmpty = Gate(open: true)

  init(limit: Int) {
    self.limit = limit
    sem_init(items, 0, 0)
  }

  deinit {
    sem_destroy(items)
    items.deallocate()
  }

  /// Dropped once it is stopped.
  func add(_ work: @escaping @Sendable () -> Void) {
    let mustStart = state.withLock { state in
      guard !state.isStopped else { return false }
      state.work.append(work)
      sem_post(items)
      if state.idle > 0 {
        state.idle -= 1
        return false
      }
      guard state.threads < limit else { return false }
      state.threads += 1
      isEmpty.close()
      return true
    }
    if mustStart { _ = startThread { self.run() } }
  }

  private func run() {
    while true {
      while sem_wait(items) != 0 {}
      let work: (@Sendable () -> Void)? = state.withLock { state in
        if state.isStopped {
          state.threads -= 1
          if state.threads == 0 { isEmpty.open() }
          return nil
        }
        return state.work.removeFirst()
      }
      guard let work else { return }
      work()
      // What is queued has a post of its own, which this thread takes next.
      state.withLock { if $0.work.isEmpty { $0.idle += 1 } }
    }
  }

  /// Returns when nothing runs; what is queued is dropped.
  func stop() {
    state.withLock { state in
      state.isStopped = true
      state.work = []
      for _ in 0..<state.threads { sem_post(items) }
    }
    isEmpty.wait()
  }
}
