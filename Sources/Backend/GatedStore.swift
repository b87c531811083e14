internal import Platform

/// Airplane mode. While it is on, every call fails at once with `.offline`, those that are under
/// way included, and no news are told or asked for; when it goes off, all listeners are told to
/// look.
package final class OfflineSwitch: Sendable {
  private struct State {
    var isOffline: Bool
    var next = 0
    var running: [Int: @Sendable () -> Void] = [:]
  }

  private let state: Lock<State>
  /// Told when it was switched, either way.
  fileprivate let hub = NewsHub()

  package init(isOffline: Bool = false) { state = Lock(State(isOffline: isOffline)) }

  package var isOffline: Bool { state.withLock { $0.isOffline } }

  package func set(offline: Bool) {
    let stopped = state.withLock { state in
      state.isOffline = offline
      guard offline else { return [@Sendable () -> Void]() }
      defer { state.running = [:] }
      return Array(state.running.values)
    }
    for stop in stopped { stop() }
    hub.tell()
  }

  /// Nil when offline; else a token for `end`. `stop` is called at most once, outside the lock.
  fileprivate func begin(_ stop: @escaping @Sendable () -> Void) -> Int? {
    state.withLock { state in
      guard !state.isOffline else { return nil }
      state.next += 1
      state.running[state.next] = stop
      return state.next
    }
  }

  fileprivate func end(_ token: Int) {
    state.withLock { _ = $0.running.removeValue(forKey: token) }
  }
}

/// Lets calls through only while its switch allows it.
package final class GatedStore: ObjectStore {
  private let store: any ObjectStore
  package let offline: OfflineSwitch

  package init(_ store: any ObjectStore, offline: OfflineSwitch) {
    self.store = store
    self.offline = offline
  }

  package var description: String { store.description }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await pass { store throws(StoreError) in try await store.get(key, range: range) }
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await pass { store throws(StoreError) in try await store.putIfAbsent(key, bytes) }
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await pass { store throws(StoreError) in try await store.replace(key, bytes) }
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await pass { store throws(StoreError) in
      try await store.list(prefix: prefix, after: after, limit: limit)
    }
  }

  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try await pass { store throws(StoreError) in
      try await store.listObjects(prefix: prefix, after: after, limit: limit)
    }
  }

  package func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await pass { store throws(StoreError) in
      try await store.storedNames(prefix: prefix, after: after, limit: limit)
    }
  }

  package func delete(_ key: String) async throws(StoreError) {
    try await pass { store throws(StoreError) in try await store.delete(key) }
  }

  package var looksForNews: Bool { store.looksForNews }

  /// What listens to the store may ask it things all the time, so it ends while the switch is on.
  package func news(prefix: String) -> AsyncStream<Void> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let (store, offline) = (store, offline)
    let switched = offline.hub.listen()
    let first = offline.isOffline ? nil : store.news(prefix: prefix)
    @Sendable func hand(_ news: AsyncStream<Void>) -> Task<Void, Never> {
      Task { for await _ in news where !offline.isOffline { continuation.yield() } }
    }
    let task = Task {
      var listening = first.map(hand)
      for await _ in switched {
        if offline.isOffline {
          listening?.cancel()
          listening = nil
        } else {
          if listening == nil { listening = hand(store.news(prefix: prefix)) }
          continuation.yield()
        }
      }
      listening?.cancel()
    }
    continuation.onTermination = { _ in task.cancel() }
    return stream
  }

  /// Waits for the call in a task of its own, so that the switch can end the waiting at once even
  /// where the call itself takes its time to notice.
  private func pass<Answer: Sendable>(
    _ call: @escaping @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    guard !offline.isOffline else { throw .offline }
    let store = store
    let once = Once<Result<Answer, StoreError>>()
    let task = Task {
      let result: Result<Answer, StoreError>
      do throws(StoreError) {
        result = .success(try await call(store))
      } catch {
        result = .failure(error)
      }
      once.give(result)
    }
    let token = offline.begin {
      once.give(.failure(.offline))
      task.cancel()
    }
    guard let token else {
      task.cancel()
      throw .offline
    }
    let result = await withTaskCancellationHandler {
      await once.value()
    } onCancel: {
      // A call that hangs in the kernel notices nothing; who waits has its time limits.
      once.give(.failure(.cancelled))
      task.cancel()
    }
    offline.end(token)
    return try result.get()
  }
}

/// One value for one waiter, whichever comes first; later values are dropped.
private final class Once<Value: Sendable>: Sendable {
  private enum State {
    case empty
    case waiting(CheckedContinuation<Value, Never>)
    case given(Value)
    case taken
  }

  private let state = Lock(State.empty)

  func give(_ value: Value) {
    let waiter: CheckedContinuation<Value, Never>? = state.withLock { state in
      switch state {
      case .empty:
        state = .given(value)
        return nil
      case .waiting(let continuation):
        state = .taken
        return continuation
      case .given, .taken: return nil
      }
    }
    waiter?.resume(returning: value)
  }

  func value() async -> Value {
    await withCheckedContinuation { continuation in
      let value: Value? = state.withLock { state in
        if case .given(let value) = state {
          state = .taken
          return value
        }
        state = .waiting(continuation)
        return nil
      }
      if let value { continuation.resume(returning: value) }
    }
  }
}
