internal import Platform

/// How often a store is asked for news: again after `first` when something happened, then ever more
/// slowly, up to `last`. A request costs money, and an idle hour is to cost little.
package struct PollPace: Sendable {
  package var first = Duration.milliseconds(50)
  package var growth = 1.15
  package var last = Duration.seconds(25)

  package init() {}
}

/// Looks for the news of a store that tells of none: it asks for keys after the last one that was
/// seen. Keys that this device puts are no news, but where it works others may too, so they make
/// the asking quick again.
///
/// Of a prefix only keys are seen that come after all before, as those of a log do, and that the
/// last of them is gone. Stands above all else, so that what it asks is counted, and is not asked
/// in airplane mode. A store that tells by itself it leaves alone.
package final class PollingStore: ObjectStore {
  private struct Watch {
    /// The last key that was seen; nil before any was.
    var cursor: String?
    /// This device put something since the last look.
    var isBusy = false
    var listeners: [UInt64: AsyncStream<Void>.Continuation] = [:]
    /// Who looks, and what it sleeps in.
    var poll: Task<Void, Never>?
    var sleeper: Task<Void, Never>?
  }

  private struct State {
    var watches: [String: Watch] = [:]
    var next: UInt64 = 0
  }

  private let store: any ObjectStore
  private let pace: PollPace
  private let state = Lock(State())

  package init(_ store: any ObjectStore, pace: PollPace = PollPace()) {
    self.store = store
    self.pace = pace
  }

  package var description: String { store.description }

  package var looksForNews: Bool { store.looksForNews }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await store.get(key, range: range)
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    defer { noteWork(at: key) }
    return try await store.putIfAbsent(key, bytes)
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    defer { noteWork(at: key) }
    try await store.replace(key, bytes)
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    let keys = try await store.list(prefix: prefix, after: after, limit: limit)
    let last = keys.last { StoreKey.mayBeNews($0, under: prefix) } ?? after
    if let last { saw(last, under: prefix) }
    return keys
  }

  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try await store.listObjects(prefix: prefix, after: after, limit: limit)
  }

  package func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await store.storedNames(prefix: prefix, after: after, limit: limit)
  }

  package func delete(_ key: String) async throws(StoreError) { try await store.delete(key) }

  // MARK: News

  package func news(prefix: String) -> AsyncStream<Void> {
    guard looksForNews else { return store.news(prefix: prefix) }
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let id = state.withLock { state in
      state.next += 1
      state.watches[prefix, default: Watch()].listeners[state.next] = continuation
      if state.watches[prefix]?.poll == nil {
        state.watches[prefix]?.poll = Task { await self.poll(prefix) }
      }
      return state.next
    }
    // That airplane mode ended, for one.
    let told = Task { for await _ in store.news(prefix: prefix) { continuation.yield() } }
    continuation.onTermination = { [weak self] _ in
      told.cancel()
      self?.leave(prefix, id)
    }
    return stream
  }

  private func leave(_ prefix: String, _ id: UInt64) {
    state.withLock { state in
      guard var watch = state.watches[prefix] else { return }
      watch.listeners[id] = nil
      if watch.listeners.isEmpty { watch.poll?.cancel() }
      state.watches[prefix] = watch.listeners.isEmpty ? nil : watch
    }
  }

  private func saw(_ key: String, under prefix: String) {
    state.withLock { state in
      guard let watch = state.watches[prefix], StoreKey.mayBeNews(key, under: prefix) else {
        return
      }
      if watch.cursor.map({ keyPrecedes($0, key) }) ?? true { state.watches[prefix]?.cursor = key }
    }
  }

  /// The cursor stays: another device may have put a key before it.
  private func noteWork(at key: String) {
    state.withLock { state in
      for prefix in state.watches.keys where key.hasPrefix(prefix) {
        state.watches[prefix]?.isBusy = true
        state.watches[prefix]?.sleeper?.cancel()
      }
    }
  }

  private func poll(_ prefix: String) async {
    var wait = pace.first
    while !Task.isCancelled {
      await sleep(prefix, wait)
      guard !Task.isCancelled else { return }
      let (isBusy, cursor) = state.withLock { state in
        defer { state.watches[prefix]?.isBusy = false }
        return (state.watches[prefix]?.isBusy ?? false, state.watches[prefix]?.cursor)
      }
      if isBusy, wait > pace.first {
        wait = pace.first
        continue
      }
      // What could not be asked is no news: who listens notices that in other ways.
      let hasNews = (try? await hasNews(prefix, after: cursor)) ?? false
      if hasNews {
        let told = state.withLock { $0.watches[prefix].map { Array($0.listeners.values) } ?? [] }
        for continuation in told { continuation.yield() }
      }
      wait = hasNews || isBusy ? pace.first : min(wait * pace.growth, pace.last)
    }
  }

  /// From where a list has the last key that was seen, too: a store that lost it went back to an
  /// earlier state, which is news.
  private static func before(_ cursor: String?, _ prefix: String) -> String? {
    guard let cursor, cursor.utf8.count > prefix.utf8.count + 1 else { return nil }
    return String(cursor.dropLast())
  }

  private static let mostPages = 10

  /// One request, unless the first thousand keys are foreign.
  private func hasNews(_ prefix: String, after cursor: String?) async throws(StoreError) -> Bool {
    var after = Self.before(cursor, prefix)
    var isSeen = cursor == nil
    var hasNews = false
    var last: String?
    for _ in 0..<Self.mostPages {
      let page = try await list(prefix: prefix, after: after, limit: 1000)
      for key in page where StoreKey.mayBeNews(key, under: prefix) {
        last = key
        if key == cursor {
          isSeen = true
        } else if cursor.map({ keyPrecedes($0, key) }) ?? true {
          hasNews = true
        }
      }
      guard page.count == 1000, !hasNews else { break }
      after = page.last
    }
    guard !isSeen else { return hasNews }
    let newest = last
    state.withLock { $0.watches[prefix]?.cursor = newest }
    return true
  }

  /// Until then, or, if that is long, until this device puts something.
  private func sleep(_ prefix: String, _ time: Duration) async {
    let sleeper = Task<Void, Never> {
      // Devices that began together do not ask together.
      try? await Task.sleep(for: time * Double.random(in: 0.9...1.1))
    }
    if time > pace.first {
      state.withLock { state in
        if state.watches[prefix]?.isBusy ?? false { sleeper.cancel() }
        state.watches[prefix]?.sleeper = sleeper
      }
    }
    await withTaskCancellationHandler {
      await sleeper.value
    } onCancel: {
      sleeper.cancel()
    }
    state.withLock { state in
      if state.watches[prefix]?.sleeper == sleeper { state.watches[prefix]?.sleeper = nil }
    }
  }
}
