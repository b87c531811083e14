internal import CLinux
package import Glibc

/// Starts a thread that runs `body` and is then gone.
package func startThread(_ body: @escaping @Sendable () -> Void) -> pthread_t {
  final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }
  var thread = pthread_t()
  let pointer = Unmanaged.passRetained(Body(body)).toOpaque()
  let code = pthread_create(
    &thread, nil,
    { pointer in
      guard let pointer else { return nil }
      Unmanaged<Body>.fromOpaque(pointer).takeRetainedValue().run()
      return nil
    }, pointer)
  precondition(code == 0, "cannot start a thread: error \(code)")
  pthread_detach(thread)
  return thread
}

/// The kernel's number of the calling thread. `gettid(2)`.
package func currentThreadNumber() -> Int32 { linux_thread_number() }

/// Threads wait at it while it is closed.
package final class Gate: @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
  private var isOpen: Bool

  package init(open: Bool = false) {
    isOpen = open
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
    condition.initialize(to: pthread_cond_t())
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(condition, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(condition)
    pthread_mutex_destroy(mutex)
    condition.deallocate()
    mutex.deallocate()
  }

  package func open() { set(true) }
  package func close() { set(false) }

  private func set(_ open: Bool) {
    pthread_mutex_lock(mutex)
    isOpen = open
    pthread_cond_broadcast(condition)
    pthread_mutex_unlock(mutex)
  }

  package func wait() {
    pthread_mutex_lock(mutex)
    while !isOpen { pthread_cond_wait(condition, mutex) }
    pthread_mutex_unlock(mutex)
  }

  /// Gives whether it was open within the time.
  package func wait(milliseconds: Int) -> Bool {
    var deadline = timespec()
    clock_gettime(CLOCK_MONOTONIC, &deadline)
    let nanoseconds = deadline.tv_nsec + (milliseconds % 1000) * 1_000_000
    deadline.tv_sec += milliseconds / 1000 + nanoseconds / 1_000_000_000
    deadline.tv_nsec = nanoseconds % 1_000_000_000
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    while !isOpen {
      if pthread_cond_timedwait(condition, mutex, &deadline) == ETIMEDOUT { return isOpen }
    }
    return true
  }
}

/// Runs what it is given, in order, on a thread of its own that starts with the first. `add` never
/// waits.
package final class WorkQueue: Sendable {
  private struct State {
    var work: [@Sendable () -> Void] = []
    var isRunning = false
    var isStopped = false
  }

  private let state = Lock(State())
  private let hasWork = Gate()

  package init() {}

  /// Gives false, and drops the work, once the queue is stopped.
  @discardableResult
  package func add(_ work: @escaping @Sendable () -> Void) -> Bool {
    let (isAccepted, mustStart) = state.withLock { state in
      guard !state.isStopped else { return (false, false) }
      state.work.append(work)
      let mustStart = !state.isRunning
      state.isRunning = true
      hasWork.open()
      return (true, mustStart)
    }
    if mustStart { _ = startThread { self.run() } }
    return isAccepted
  }

  /// What is queued is dropped; what runs goes on to its end.
  package func stop() {
    state.withLock { state in
      state.isStopped = true
      state.work = []
      hasWork.open()
    }
  }

  private func run() {
    while true {
      hasWork.wait()
      let batch: [@Sendable () -> Void]? = state.withLock { state in
        if state.isStopped { return nil }
        hasWork.close()
        defer { state.work = [] }
        return state.work
      }
      guard let batch else { return }
      for work in batch { work() }
    }
  }
}
