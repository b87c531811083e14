package import Catalog
package import SystemPackage

/// Tells whether the store holds what this device read there. Local content may be dropped only on
/// the strength of a look that was made a moment ago: a store can go back to an earlier state at
/// any time. The sync engine does it, as with `ContentFetching`.
package protocol StoreConfirming: Sendable {
  /// Why nothing may be evicted now; nil: the store was looked at a moment ago and is sound. EAGAIN
  /// means that `confirmStore` has to be called first.
  ///
  /// `since`: the look must have begun after this, in monotonic nanoseconds. No look from before a
  /// request decides it.
  func evictionRefusal(since: UInt64) -> Errno?

  /// Looks at the store. Returns without waiting. `completion` is called exactly once, on any
  /// thread, with no lock held: nil, or why nothing may be evicted.
  func confirmStore(since: UInt64, _ completion: @escaping @Sendable (Errno?) -> Void)
}

/// The store where no engine runs, before its start or after its end: nothing may be evicted.
package struct ClosedStore: StoreConfirming {
  package init() {}

  package func evictionRefusal(since: UInt64) -> Errno? { .networkDown }

  package func confirmStore(since: UInt64, _ completion: @escaping @Sendable (Errno?) -> Void) {
    completion(.networkDown)
  }
}

extension ContainerCoordinator {
  /// So often in a row an eviction asks for a look at the store that has become old before it was
  /// used.
  package static let confirmations = 5

  /// EAGAIN: call `confirmStore`, then evict again. EBUSY: the store is not what this device knows,
  /// so content here may be the only copy. ENETDOWN: the store cannot be asked.
  func requireConfirmedStore(since: UInt64) throws(Errno) {
    if let refusal = storeConfirmer.evictionRefusal(since: since) { throw refusal }
  }

  /// Never waits. Nil: content may be evicted for a moment from now on.
  package func confirmStore(
    since: UInt64, _ completion: @escaping @Sendable (Errno?) -> Void
  ) {
    storeConfirmer.confirmStore(since: since, completion)
  }

  /// `confirmStore` for a task.
  package func storeRefusal(since: UInt64) async -> Errno? {
    await withCheckedContinuation { done in
      confirmStore(since: since) { done.resume(returning: $0) }
    }
  }

  /// `evict`, with as many looks at the store as it needs; for a task.
  package func evictAfterLook(_ number: InodeNumber, batchSize: Int = 1000) async throws(Errno) {
    var eviction = Eviction(number, of: self, batchSize: batchSize)
    try await eviction.finish()
  }
}
