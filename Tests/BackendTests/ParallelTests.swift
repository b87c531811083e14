import Backend
import Platform
import TestWaiting
import Testing

@Suite struct ParallelTests {
  /// Rounds of transfers over a network on which each takes a second, of which no more than
  /// `capacity` get on at full speed.
  private func settled(capacity: Int, rounds: Int = 400) -> [Int] {
    var control = ParallelControl()
    var now: UInt64 = 1
    var limits: [Int] = []
    for _ in 0..<rounds {
      let count = control.limit
      for number in 1...count { control.began(inFlight: number, at: now) }
      let rate = Double(min(count, capacity))
      for _ in 0..<count {
        now += UInt64(1e9 / rate)
        control.ended(bytes: 1 << 20, at: now)
      }
      limits.append(control.limit)
    }
    return limits
  }

  @Test(arguments: [2, 6, 13, 24, 100]) func itFindsWhatIsWorthIt(_ capacity: Int) {
    let limits = settled(capacity: capacity)
    #expect(limits.allSatisfy { ParallelControl.bounds.contains($0) })
    let late = limits.suffix(200)
    let mean = Double(late.reduce(0, +)) / 200
    let best = Double(min(capacity, 32))
    #expect(mean >= best * 0.75, "\(mean)")
    #expect(mean <= max(best * 2, 5), "\(mean)")
  }

  /// Over a network on which each transfer takes a second, of which no more than 32 get on at full
  /// speed.
  @Test(
    "neither pauses between bursts of transfers nor their ends lower the limit",
    arguments: [(30, 16), (64, 32), (200, 32)])
  func pausesDoNotCount(count: Int, expected: Int) async throws {
    let now = Lock<UInt64>(1)
    let inner = HeldStore(answer: [UInt8](repeating: 0, count: 1 << 20))
    let store = ParallelStore(inner) { now.withLock { $0 } }
    var limits: [Int] = []
    for _ in 0..<40 {
      let deadline = Deadline("all transfers of a burst end")
      let ended = Lock(0)
      for number in 0..<count {
        Task {
          _ = try? await store.get("containers/c/packs/\(number)", range: 0..<10)
          ended.withLock { $0 += 1 }
        }
      }
      for done in 0..<count {
        // All that may run do, before the clock goes on.
        while ended.withLock({ $0 }) < done
          || inner.waiting.count < min(store.limits.gets, count - done)
        {
          try deadline.check()
          await Task.yield()
        }
        let inFlight = inner.waiting.count
        now.withLock { $0 += UInt64(1e9 / Double(min(inFlight, 32))) }
        inner.letOneGo()
      }
      try await eventually("all transfers have ended") { ended.withLock { $0 } == count }
      limits.append(store.limits.gets)
      // An hour in which nothing is to do.
      now.withLock { $0 += 3_600_000_000_000 }
    }
    #expect(limits.suffix(20).allSatisfy { $0 >= expected - 2 }, "\(limits)")
  }

  @Test func failuresHalveItOnceARound() {
    var control = ParallelControl()
    var now: UInt64 = 1
    func fail() {
      now += 1
      control.failed(at: now)
    }
    #expect(control.limit == 4)
    fail()
    #expect(control.limit == 2)
    for _ in 0..<100 { fail() }
    #expect(control.limit == 2)
  }

  @Test func whatIsNotLimitedDoesNotGrow() {
    var control = ParallelControl()
    for now in 1..<UInt64(200) {
      control.began(inFlight: 1, at: now * 1000)
      control.ended(bytes: 1 << 20, at: now * 1000 + 500)
    }
    #expect(control.limit == 4)
  }

  /// As many as are allowed run; the rest wait, and go when there is room.
  @Test func noMoreRunThanAreAllowed() async throws {
    let inner = HeldStore()
    let store = ParallelStore(inner)
    let names = (0..<10).map { "containers/c/packs/\($0)" }
    let tasks = names.map { name in Task { try await store.get(name, range: 0..<10) } }
    try await eventually("four transfers run") { inner.waiting.count == 4 }
    // What moves no content passes.
    _ = try await store.putIfAbsent("containers/c/log/1", [])
    let awaited = Transfers.$isAwaited.withValue(true) {
      Task { try await store.get("containers/c/packs/awaited", range: 0..<10) }
    }
    try await eventually("seven transfers wait") { store.waiting == 7 }
    #expect(inner.waiting.count == 4)
    inner.letOneGo()
    try await eventually("the awaited transfer runs") {
      inner.waiting.contains("containers/c/packs/awaited")
    }
    // Who gives up is not in the way.
    for task in tasks { task.cancel() }
    try await eventually("no transfer waits") { store.waiting == 0 }
    #expect(inner.seen == 5)
    inner.open()
    _ = try await awaited.value
    for task in tasks { _ = try? await task.value }
    _ = try await store.get(names[0], range: 0..<10)
  }

  /// Holds gets of packs until it is told.
  private final class HeldStore: ObjectStore {
    private struct State {
      var waiting: [(key: String, continuation: CheckedContinuation<Void, Never>)] = []
      var seen = 0
      var isOpen = false
    }

    private let state = Lock(State())
    private let answer: [UInt8]

    init(answer: [UInt8] = []) { self.answer = answer }

    var description: String { "held" }
    var waiting: [String] { state.withLock { $0.waiting.map(\.key) } }
    var seen: Int { state.withLock { $0.seen } }

    func letOneGo() {
      let first = state.withLock { $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }
      first?.continuation.resume()
    }

    func open() {
      let all = state.withLock { state in
        state.isOpen = true
        defer { state.waiting = [] }
        return state.waiting
      }
      for waiter in all { waiter.continuation.resume() }
    }

    func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
      await withCheckedContinuation { continuation in
        let isOpen = state.withLock { state in
          state.seen += 1
          if !state.isOpen { state.waiting.append((key, continuation)) }
          return state.isOpen
        }
        if isOpen { continuation.resume() }
      }
      return answer
    }

    func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool { true }
    func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {}
    func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
      []
    }
    func delete(_ key: String) async throws(StoreError) {}
    func news(prefix: String) -> AsyncStream<Void> { AsyncStream { $0.finish() } }
  }
}
