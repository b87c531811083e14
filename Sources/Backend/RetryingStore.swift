/// Does a call again that failed with `.unavailable`, after a wait that doubles, less a random part
/// of it so that devices do not come back all at once. Other errors are the caller's.
package final class RetryingStore: ObjectStore {
  package struct Policy: Sendable {
    /// Calls in all, the first one included.
    package var attempts = 4
    package var firstDelay = Duration.milliseconds(100)
    package var longestDelay = Duration.seconds(5)

    package init() {}
  }

  private let store: any ObjectStore
  private let policy: Policy
  private let sleep: @Sendable (Duration) async throws -> Void

  /// `sleep` is for tests; it throws when the task is cancelled.
  package init(
    _ store: any ObjectStore, policy: Policy = Policy(),
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  ) {
    self.store = store
    self.policy = policy
    self.sleep = sleep
  }

  package var description: String { store.description }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await again { store throws(StoreError) in try await store.get(key, range: range) }
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await again { store throws(StoreError) in try await store.putIfAbsent(key, bytes) }
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await again { store throws(StoreError) in try await store.replace(key, bytes) }
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await again { store throws(StoreError) in
      try await store.list(prefix: prefix, after: after, limit: limit)
    }
  }

  package func delete(_ key: String) async throws(StoreError) {
    try await again { store throws(StoreError) in try await store.delete(key) }
  }

  package func news(prefix: String) -> AsyncStream<Void> { store.news(prefix: prefix) }

  private func again<Answer>(
    _ call: (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    var delay = policy.firstDelay
    var left = policy.attempts
    while true {
      let failure: StoreError
      do throws(StoreError) {
        return try await call(store)
      } catch {
        failure = error
      }
      left -= 1
      guard case .unavailable = failure, left > 0 else { throw failure }
      do {
        try await sleep(delay * Double.random(in: 0.5...1))
      } catch {
        throw .cancelled
      }
      delay = min(delay * 2, policy.longestDelay)
    }
  }
}
