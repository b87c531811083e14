internal import Platform

/// What went over a store's edge since the counters were made.
package struct TrafficCounters: Equatable, Sendable {
  package var bytesUploaded: UInt64 = 0
  package var bytesDownloaded: UInt64 = 0
  package var gets: UInt64 = 0
  package var puts: UInt64 = 0
  package var lists: UInt64 = 0
  package var deletes: UInt64 = 0

  package init() {}

  package var requests: UInt64 { gets + puts + lists + deletes }
}

/// Counts requests when they are made, failed ones too, and bytes: up when they are sent, down when
/// they have come. Stands right above the concrete store, so that it counts what really went out.
package final class MeteredStore: ObjectStore {
  private let store: any ObjectStore
  private let counters = Lock(TrafficCounters())

  package init(_ store: any ObjectStore) { self.store = store }

  package var description: String { store.description }

  package var traffic: TrafficCounters { counters.withLock { $0 } }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    counters.withLock { $0.gets += 1 }
    let bytes = try await store.get(key, range: range)
    counters.withLock { $0.bytesDownloaded += UInt64(bytes.count) }
    return bytes
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    countPut(bytes)
    return try await store.putIfAbsent(key, bytes)
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    countPut(bytes)
    try await store.replace(key, bytes)
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    counters.withLock { $0.lists += 1 }
    return try await store.list(prefix: prefix, after: after, limit: limit)
  }

  package func delete(_ key: String) async throws(StoreError) {
    counters.withLock { $0.deletes += 1 }
    try await store.delete(key)
  }

  package func news(prefix: String) -> AsyncStream<Void> { store.news(prefix: prefix) }

  private func countPut(_ bytes: [UInt8]) {
    counters.withLock {
      $0.puts += 1
      $0.bytesUploaded += UInt64(bytes.count)
    }
  }
}
