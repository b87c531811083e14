import Backend
import Platform
import TestWaiting
import Testing

@Suite struct BandwidthTests {
  /// Gives what was let through, in order.
  private final class Queue: Sendable {
    let clock = VirtualClock()
    let limit: BandwidthLimit
    private let done = Lock<[String]>([])

    init(rate: UInt64) {
      let clock = clock
      limit = BandwidthLimit(
        rate: rate, now: { clock.now }, sleep: { try await clock.sleep($0) })
    }

    var passed: [String] { done.withLock { $0 } }

    func start(_ name: String, _ bytes: Int, isAwaited: Bool = false) -> Task<Void, Never> {
      Task {
        guard (try? await self.limit.take(bytes, isAwaited: isAwaited)) != nil else { return }
        self.done.withLock { $0.append(name) }
      }
    }

    /// Until the queue waits for the clock.
    func settle() async throws {
      try await eventually("the queue waits for the clock") {
        limit.isHolding && clock.sleepers == 1
      }
    }
  }

  @Test func theRateIsKeptOnTheAverage() async throws {
    let clock = VirtualClock()
    let limit = BandwidthLimit(
      rate: 1_000_000, now: { clock.now },
      sleep: { pause in
        // Nobody else needs the time.
        clock.advance(pause)
        try Task.checkCancellation()
      })
    let store = PacedStore(
      MemoryStore(), limits: BandwidthLimits(up: limit))
    let start = clock.now
    for number in 0..<20 {
      try await store.replace("containers/c/packs/\(number)", [UInt8](repeating: 1, count: 500_000))
    }
    // 10 MB, of which one second's worth was there.
    #expect(clock.now - start >= 8_900_000_000)
    #expect(clock.now - start <= 9_500_000_000)
  }

  @Test func whatIsWaitedForOvertakes() async throws {
    let queue = Queue(rate: 1000)
    await queue.start("first", 1000).value
    let large = queue.start("large", 5000)
    try await queue.settle()
    await queue.start("read", 800, isAwaited: true).value
    #expect(queue.passed == ["first", "read"])
    // 5800 bytes are missing.
    queue.clock.advance(.milliseconds(5700))
    try await queue.settle()
    #expect(queue.passed == ["first", "read"])
    queue.clock.advance(.milliseconds(200))
    await large.value
    #expect(queue.passed == ["first", "read", "large"])
  }

  @Test func whatIsLargeIsNotStarved() async throws {
    let queue = Queue(rate: 1000)
    await queue.start("first", 1000).value
    let large = queue.start("large", 500)
    try await queue.settle()
    var reads: [Task<Void, Never>] = []
    for number in 0..<12 { reads.append(queue.start("\(number)", 500, isAwaited: true)) }
    for _ in 0..<30 {
      try await eventually("the queue waits for the clock or for nothing") {
        !queue.limit.isHolding || queue.clock.sleepers == 1
      }
      queue.clock.advance(.milliseconds(500))
    }
    await large.value
    for read in reads { await read.value }
    let place = queue.passed.firstIndex(of: "large")
    // Three times its own bytes went before it, and no more.
    #expect(place == 4)
  }

  @Test func waitingEndsWithTheTask() async throws {
    let queue = Queue(rate: 1000)
    await queue.start("first", 1000).value
    let waiting = queue.start("large", 5000)
    try await queue.settle()
    waiting.cancel()
    await waiting.value
    #expect(!queue.limit.isHolding)
    #expect(queue.passed == ["first"])
  }

  @Test func aLimitThatIsTakenAwayHoldsNothing() async throws {
    let queue = Queue(rate: 1000)
    await queue.start("first", 1000).value
    let waiting = queue.start("large", 1_000_000)
    try await queue.settle()
    queue.limit.set(rate: nil)
    await waiting.value
    #expect(queue.limit.rate == nil)
    await queue.start("more", 1_000_000).value
  }

  @Test func aLimitThatIsSetHoldsFromThenOn() async throws {
    let queue = Queue(rate: 1_000_000)
    queue.limit.set(rate: 1000)
    await queue.start("first", 1000).value
    let waiting = queue.start("second", 1000)
    try await queue.settle()
    queue.clock.advance(.milliseconds(1100))
    await waiting.value
  }

  /// What a call brings is known afterwards, but for packs.
  @Test func whatComesIsPaid() async throws {
    let clock = VirtualClock()
    let limit = BandwidthLimit(
      rate: 1000, now: { clock.now }, sleep: { try await clock.sleep($0) })
    let memory = MemoryStore()
    try await memory.replace("containers/c/log/1", [UInt8](repeating: 1, count: 3000))
    try await memory.replace("containers/c/packs/1", [UInt8](repeating: 1, count: 3000))
    let store = PacedStore(memory, limits: BandwidthLimits(down: limit))
    // A bound is no measure: it goes at once.
    #expect(try await store.get("containers/c/log/1", range: 0..<16 << 20).count == 3000)
    let pack = Task { try await store.get("containers/c/packs/1", range: 0..<100) }
    try await eventually("the pack waits for the clock") {
      limit.isHolding && clock.sleepers == 1
    }
    clock.advance(.milliseconds(1200))
    #expect(try await pack.value.count == 100)
    await #expect(throws: StoreError.self) { try await store.get("containers/c/log/2") }
  }
}
