internal import Platform

/// What went over a store's edge since the counters were made.
package struct TrafficCounters: Equatable, Sendable {
  package var bytesUploaded: UInt64 = 0
  package var bytesDownloaded: UInt64 = 0
  package var gets: UInt64 = 0
  package var puts: UInt64 = 0
  package var lists: UInt64 = 0
  package var deletes: UInt64 = 0
  /// Those of the requests that were made again, since they had failed.
  package var retries: UInt64 = 0

  package init() {}

  package var requests: UInt64 { gets + puts + lists + deletes }
}

/// Counts requests when they are made, failed ones too, and bytes: up when they are sent, down when
/// they have come; in all, and of each container. Stands right above the concrete store, so that it
/// counts what really went out.
package final class MeteredStore: PassingStore {
  private struct Counters {
    var all = TrafficCounters()
    /// By `containers/X/`.
    var containers: [Substring: TrafficCounters] = [:]
  }

  package let store: any ObjectStore
  private let counters = Lock(Counters())

  package init(_ store: any ObjectStore) { self.store = store }

  package var traffic: TrafficCounters { counters.withLock { $0.all } }

  /// Of the keys that start with `prefix`, which is `containers/X/`.
  package func traffic(under prefix: String) -> TrafficCounters {
    counters.withLock { $0.containers[prefix[...]] ?? TrafficCounters() }
  }

  /// A call is about to be made again, and to be counted once more.
  package func retrying(_ call: StoreCall) { count(call) { $0.retries += 1 } }

  package func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    count(call) { counters in
      switch call.kind {
      case .get: counters.gets += 1
      case .put: counters.puts += 1
      case .list: counters.lists += 1
      case .delete: counters.deletes += 1
      }
      counters.bytesUploaded += UInt64(call.sends)
    }
    let answer = try await body(store)
    if call.kind == .get {
      let bytes = UInt64(received(answer))
      count(call) { $0.bytesDownloaded += bytes }
    }
    return answer
  }

  private func count(_ call: StoreCall, _ body: (inout TrafficCounters) -> Void) {
    let container = StoreKey.container(of: call.key)
    counters.withLock { counters in
      body(&counters.all)
      if let container { body(&counters.containers[container, default: TrafficCounters()]) }
    }
  }
}
