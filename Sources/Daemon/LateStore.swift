package import Backend
internal import Platform

/// A store that is opened when it is first used, and again until that works: a device starts while
/// its backend is away.
package final class LateStore: ObjectStore {
  private struct State {
    var opened: (any ObjectStore)?
    /// What was set at the sign-in; goes before what the daemon was started with.
    var environment: [String: String]
  }

  private let address: BackendAddress
  private let state: Lock<State>

  package init(_ address: BackendAddress, environment: [String: String] = [:]) {
    self.address = address
    state = Lock(State(environment: environment))
  }

  package var description: String { address.description }

  /// Makes the store if there is none, and checks that it keeps the promises of a store.
  package func make() async throws(StoreError) {
    let store = try await address.location.make(environment(state.withLock { $0.environment }))
    state.withLock { $0.opened = store }
  }

  private func environment(_ given: [String: String]) -> [String: String] {
    ProcessEnvironment.all.merging(given) { _, given in given }
  }

  /// From now on with these access keys.
  package func use(_ environment: [String: String]) {
    state.withLock {
      $0.environment = environment
      $0.opened = nil
    }
  }

  private func store() throws(StoreError) -> any ObjectStore {
    let (opened, given) = state.withLock { ($0.opened, $0.environment) }
    if let opened { return opened }
    let store = try address.location.open(environment(given))
    return state.withLock { state in
      // Of two that open it at once both use one: it has connections.
      if let first = state.opened { return first }
      state.opened = store
      return store
    }
  }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await store().get(key, range: range)
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await store().putIfAbsent(key, bytes)
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await store().replace(key, bytes)
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await store().list(prefix: prefix, after: after, limit: limit)
  }

  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try await store().listObjects(prefix: prefix, after: after, limit: limit)
  }

  package func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await store().storedNames(prefix: prefix, after: after, limit: limit)
  }

  package func delete(_ key: String) async throws(StoreError) { try await store().delete(key) }

  /// Of a store that cannot be opened there are no news; who listens asks again.
  package func news(prefix: String) -> AsyncStream<Void> {
    guard let store = try? store() else { return AsyncStream { $0.finish() } }
    return store.news(prefix: prefix)
  }

  /// Known before it can be opened: who listens decides once.
  package var looksForNews: Bool { address.location.looksForNews }
}
