internal import Glibc
internal import Platform

/// Opens for writing that were closed while something could still write to the file: a shared
/// mapping outlives the descriptor that it was made from, and of one that the kernel serves itself
/// nobody hears when it goes. For all else such an open goes on to be one: nothing is uploaded,
/// evicted or replaced meanwhile.
///
/// A thread of its own, which is there only while there is something to look at, tries to end them
/// again and again, less often the longer it takes. The lock is a leaf.
final class LingeringWriters: Sendable {
  private struct State {
    var files: [OpenFileHandle] = []
    var isRunning = false
    var isStopped = false
  }

  private static let shortestDelay = 1
  private static let longestDelay = 500

  private let state = Lock(State())
  private let news = Gate()
  private let isIdle = Gate(open: true)

  /// `tryToEnd` gives whether the open came to its end. It is called on the thread, with no lock
  /// held. Gives false, and takes nothing, after `stop`.
  func add(
    _ file: OpenFileHandle, tryToEnd: @escaping @Sendable (OpenFileHandle) -> Bool
  ) -> Bool {
    let (isAccepted, mustStart) = state.withLock { state in
      guard !state.isStopped else { return (false, false) }
      state.files.append(file)
      news.open()
      let mustStart = !state.isRunning
      state.isRunning = true
      if mustStart { isIdle.close() }
      return (true, mustStart)
    }
    if mustStart { _ = startThread { self.run(tryToEnd) } }
    return isAccepted
  }

  private func run(_ tryToEnd: (OpenFileHandle) -> Bool) {
    var delay = Self.shortestDelay
    while true {
      if news.wait(milliseconds: delay) {
        news.close()
        // What was closed a moment ago mostly ends in the next one.
        delay = Self.shortestDelay
        usleep(UInt32(delay) * 1000)
      } else {
        delay = min(delay * 2, Self.longestDelay)
      }
      let files = state.withLock { state -> [OpenFileHandle] in
        guard !state.isStopped else { return [] }
        defer { state.files = [] }
        return state.files
      }
      let left = files.filter { !tryToEnd($0) }
      let isDone = state.withLock { state in
        state.files += left
        guard state.files.isEmpty || state.isStopped else { return false }
        state.isRunning = false
        isIdle.open()
        return true
      }
      if isDone { return }
    }
  }

  /// Nothing is tried any more; gives what did not end.
  func stop() -> [OpenFileHandle] {
    state.withLock {
      $0.isStopped = true
      news.open()
    }
    isIdle.wait()
    return state.withLock { state in
      defer {
        state.files = []
        state.isStopped = false
      }
      return state.files
    }
  }
}
