internal import ControlProtocol
internal import Foundation

/// From the connection's thread to the results and the notifications, which are on the query's
/// queue.
extension NSMetadataQuery {
  /// What to ask the daemon for, and of which start it is; nil when it was stopped. May block:
  /// places are looked up.
  func request() throws(ControlError) -> (QueryRequest, run: UInt64)? {
    let (phase, predicate, scopes, items, run) = state.withLock {
      ($0.phase, $0.predicate, $0.scopes, $0.items, $0.run)
    }
    guard phase != .stopped, let predicate else { return nil }
    let limits = try QueryLimits(searchScopes: scopes.value, searchItems: items?.value)
    return (
      QueryRequest(
        predicate: predicate.predicateFormat, scopes: limits.scopes, within: limits.within,
        watch: true), run
    )
  }

  /// The daemon has begun. False if that is not wanted any more.
  func begins(run: UInt64) -> Bool {
    state.withLock { state in
      guard state.phase != .stopped, state.run == run else { return false }
      if state.phase == .live, state.former == nil {
        // Another daemon: what it has is compared with what was.
        state.former = state.results
      } else if state.phase == .gathering, state.former == nil, !state.results.isEmpty {
        state.former = state.results
      }
      state.forgetPending()
      return true
    }
  }

  func received(
    added: [QueryResult] = [], changed: [QueryResult] = [], removed: [QueryRemoval] = []
  ) {
    state.withLock { state in
      guard state.phase != .stopped else { return }
      state.pending.added += added
      state.pending.changed += changed
      state.pending.removed += removed
    }
    flushSoon()
  }

  func receivedEnd(error: String?) {
    state.withLock { state in
      state.pendingEnd = true
      state.error = error.map { ControlError(.failed, $0) }
    }
    flush()
  }

  /// There is nothing to find, and `error` says why.
  func failed(_ error: ControlError) {
    state.withLock { state in
      state.error = error
      if state.phase == .gathering { state.pendingEnd = true }
    }
    flush()
  }

  // MARK: Notifications

  /// Now, or when the interval is over.
  func flushSoon() {
    let delay = state.withLock { state -> TimeInterval? in
      guard !state.isFlushScheduled, state.hasPending, state.disabled == 0 else { return nil }
      state.isFlushScheduled = true
      return state.lastFlush + state.interval - ProcessInfo.processInfo.systemUptime
    }
    guard let delay else { return }
    guard delay > 0 else { return flush() }
    DispatchQueue.global().asyncAfter(deadline: .now() + delay) { [weak self] in self?.flush() }
  }

  private func flush() {
    perform { query in
      let (update, continuations) = query.state.withLock { state in
        state.isFlushScheduled = false
        let update = state.apply()
        if update != nil { state.lastFlush = ProcessInfo.processInfo.systemUptime }
        return (update, Array(state.continuations.values))
      }
      guard let update else { return }
      for continuation in continuations { continuation.yield(update) }
      let changes: [AnyHashable: Any] = [
        NSMetadataQueryUpdateAddedItemsKey: update.added,
        NSMetadataQueryUpdateChangedItemsKey: update.changed,
        NSMetadataQueryUpdateRemovedItemsKey: update.removed,
      ]
      switch update.phase {
      case .gathering: query.post(.NSMetadataQueryGatheringProgress)
      case .gathered: query.post(.NSMetadataQueryDidFinishGathering)
      case .update: query.post(.NSMetadataQueryDidUpdate, changes)
      }
    }
  }

  func perform(_ body: @escaping @Sendable (NSMetadataQuery) -> Void) {
    let queue = state.withLock { $0.queue } ?? OperationQueue.main
    queue.addOperation { [weak self] in
      if let self { body(self) }
    }
  }

  func post(_ name: Notification.Name, _ userInfo: [AnyHashable: Any]? = nil) {
    NotificationCenter.default.post(name: name, object: self, userInfo: userInfo)
  }
}
