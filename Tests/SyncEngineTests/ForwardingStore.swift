import Backend

/// A store that does what another one does, but for the calls that it has itself.
protocol ForwardingStore: ObjectStore {
  var store: any ObjectStore { get }
}

extension ForwardingStore {
  var description: String { store.description }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await store.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await store.putIfAbsent(key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await store.replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await store.list(prefix: prefix, after: after, limit: limit)
  }

  func delete(_ key: String) async throws(StoreError) { try await store.delete(key) }

  func news(prefix: String) -> AsyncStream<Void> { store.news(prefix: prefix) }
}
