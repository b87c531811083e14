internal import Platform
internal import Synchronization

/// Which of a session's threads reads the device.
///
/// One thread, the *reader*, reads a request and handles it itself: waking another for it would
/// cost more than most requests do. While it handles one, nobody reads. So what is known to take
/// long is handed over first, and a reader that turns out to be busy for longer than a tick is
/// replaced by whoever watches; it finds out when it is done, and goes to wait for its turn.
///
/// The role is one word, `turn << 9 | isBusy << 8 | thread`: it changes hands by one
/// compare-and-exchange against what was seen, in which the turn, counted for each request,
/// excludes that it is another one.
final class FuseReaderRole: Sendable {
  static let mostThreads = 64

  private let word: Atomic<UInt64>
  /// Threads that wait for their turn. A leaf.
  private let idle: Lock<[Int]>
  private let turns: [Gate]
  private let isStopped = Atomic<Bool>(false)

  /// Thread 0 begins.
  init(threads: Int) {
    precondition((1...Self.mostThreads).contains(threads))
    word = Atomic(0)
    idle = Lock(Array((1..<threads).reversed()))
    turns = (0..<threads).map { Gate(open: $0 == 0) }
  }

  private static func encode(_ turn: UInt64, busy: Bool, _ thread: Int) -> UInt64 {
    turn << 9 | (busy ? 1 << 8 : 0) | UInt64(thread)
  }

  private static func isBusy(_ word: UInt64) -> Bool { word & 1 << 8 != 0 }

  /// Waits until the thread is the reader; false once all is to end.
  func wait(_ thread: Int) -> Bool {
    turns[thread].wait()
    turns[thread].close()
    return !hasStopped
  }

  /// The reader has a request and goes to handle it.
  func begin(_ thread: Int) {
    let turn = word.load(ordering: .relaxed) >> 9
    word.store(Self.encode(turn &+ 1, busy: true, thread), ordering: .releasing)
  }

  /// It is done; gives whether it is still the reader. If not, `wait` is next.
  func finish(_ thread: Int) -> Bool {
    let seen = word.load(ordering: .acquiring)
    if Self.isBusy(seen), seen & 0xFF == UInt64(thread),
      word.compareExchange(
        expected: seen, desired: Self.encode(seen >> 9, busy: false, thread),
        ordering: .acquiringAndReleasing
      ).exchanged
    {
      return true
    }
    idle.withLock { $0.append(thread) }
    return false
  }

  /// The role as it is: a busy one that stays the same from one look to the next is stuck.
  var seen: UInt64 { word.load(ordering: .acquiring) }

  /// Gives the role to a waiting thread, if it is still as it was seen and the reader is busy.
  /// Without a waiting thread it stays.
  func pass(_ seen: UInt64) {
    guard Self.isBusy(seen), let next = idle.withLock({ $0.popLast() }) else { return }
    let new = Self.encode(seen >> 9 &+ 1, busy: false, next)
    if word.compareExchange(
      expected: seen, desired: new, ordering: .acquiringAndReleasing
    ).exchanged {
      turns[next].open()
    } else {
      idle.withLock { $0.append(next) }
    }
  }

  /// All threads end: those that wait at once, those that handle a request when they are done.
  func stop() {
    isStopped.store(true, ordering: .releasing)
    for turn in turns { turn.open() }
  }

  var hasStopped: Bool { isStopped.load(ordering: .acquiring) }
}
