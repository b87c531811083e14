import Backend
import Testing

/// News of a store that tells of none.
@Suite struct PollingTests {
  /// As a bucket does.
  private struct SilentStore: PassingStore {
    let store: any ObjectStore

    func pass<Answer: Sendable>(
      _ call: StoreCall, received: @Sendable (Answer) -> Int,
      _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
    ) async throws(StoreError) -> Answer { try await body(store) }

    var looksForNews: Bool { true }
    func news(prefix: String) -> AsyncStream<Void> { AsyncStream { $0.finish() } }
  }

  @Test("a foreign file behind a log does not hide the segments that come", .timeLimit(.minutes(1)))
  func foreignFile() async throws {
    let memory = MemoryStore()
    let log = "containers/0/log/"
    func segment(_ number: Int) -> String { log + "0000000000000000000\(number)" }
    _ = try await memory.putIfAbsent(segment(1), [])
    for index in 0..<1200 { _ = try await memory.putIfAbsent(segment(1) + ".x\(index)", []) }
    _ = try await memory.putIfAbsent(log + "z.tmp", [])
    let metered = MeteredStore(SilentStore(store: memory))
    var pace = PollPace()
    pace.first = .milliseconds(5)
    pace.last = .milliseconds(20)
    let polling = PollingStore(metered, pace: pace)
    var news = polling.news(prefix: log).makeAsyncIterator()
    _ = try await polling.list(prefix: log, after: nil, limit: 10_000)
    _ = try await memory.putIfAbsent(segment(2), [])
    #expect(await news.next() != nil)
    // Foreign files alone are no news: the pauses between looks grow.
    _ = try await polling.list(prefix: log, after: nil, limit: 10_000)
    let before = metered.traffic.lists
    // Nothing tells that a look does not happen.
    try await Task.sleep(for: .milliseconds(300))
    #expect(metered.traffic.lists - before < 60)
  }
}
