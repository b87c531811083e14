import Platform
import Synchronization
import Testing

@testable import FuseKernel

struct ReaderRoleTests {
  @Test func readerStaysUntilItIsReplaced() {
    let role = FuseReaderRole(threads: 2)
    #expect(role.wait(0))
    for _ in 0..<3 {
      role.begin(0)
      #expect(role.finish(0))
    }
  }

  @Test func busyReaderIsReplacedAndWaitsForItsTurn() {
    let role = FuseReaderRole(threads: 2)
    #expect(role.wait(0))
    role.begin(0)
    role.pass(role.seen)
    #expect(role.wait(1))
    #expect(!role.finish(0))
    // Back the other way: the first is idle now.
    role.begin(1)
    role.pass(role.seen)
    #expect(role.wait(0))
    #expect(!role.finish(1))
  }

  @Test func whatHasChangedIsNotReplaced() {
    let role = FuseReaderRole(threads: 2)
    #expect(role.wait(0))
    // It waits for requests: that may take long.
    role.pass(role.seen)
    role.begin(0)
    let seen = role.seen
    #expect(role.finish(0))
    role.begin(0)
    role.pass(seen)
    #expect(role.finish(0))
  }

  @Test func withoutAWaitingThreadItStays() {
    let role = FuseReaderRole(threads: 1)
    #expect(role.wait(0))
    role.begin(0)
    role.pass(role.seen)
    #expect(role.finish(0))
  }

  @Test func stoppingWakesAll() {
    let role = FuseReaderRole(threads: 3)
    #expect(role.wait(0))
    let woken = Gate()
    _ = startThread {
      if !role.wait(2) { woken.open() }
    }
    role.stop()
    #expect(!role.wait(1))
    #expect(woken.wait(milliseconds: 10_000))
  }

  /// Exactly one thread is the reader at any time, however often the role changes hands.
  @Test func onlyOneReads() {
    let role = FuseReaderRole(threads: 4)
    let readers = Atomic<Int>(0)
    let reads = Atomic<Int>(0)
    let most = Atomic<Int>(0)
    let left = Lock(4)
    let ended = Gate()
    for thread in 0..<4 {
      _ = startThread {
        while role.wait(thread) {
          repeat {
            let now = readers.add(1, ordering: .sequentiallyConsistent).newValue
            if now > 1 { most.store(now, ordering: .relaxed) }
            let count = reads.add(1, ordering: .relaxed).newValue
            readers.subtract(1, ordering: .sequentiallyConsistent)
            role.begin(thread)
            if count > 20_000 {
              role.stop()
            } else if count % 3 == 0 {
              role.pass(role.seen)
            }
          } while role.finish(thread) && !role.hasStopped
        }
        let isLast = left.withLock {
          $0 -= 1
          return $0 == 0
        }
        if isLast { ended.open() }
      }
    }
    while !ended.wait(milliseconds: 0) { role.pass(role.seen) }
    #expect(most.load(ordering: .relaxed) == 0)
  }
}
