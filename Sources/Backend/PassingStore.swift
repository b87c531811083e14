/// A store that does the same with every call before or after it hands it on.
package protocol PassingStore: ObjectStore {
  var store: any ObjectStore { get }

  /// `received` tells how many bytes an answer has.
  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer
}

extension PassingStore {
  package var description: String { store.description }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await pass(
      StoreCall(.get, key, range: range), received: { $0.count },
      { store throws(StoreError) in try await store.get(key, range: range) })
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try await pass(
      StoreCall(.put, key, sends: bytes.count), received: { _ in 0 },
      { store throws(StoreError) in try await store.putIfAbsent(key, bytes) })
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await pass(
      StoreCall(.put, key, sends: bytes.count), received: { _ in 0 },
      { store throws(StoreError) in try await store.replace(key, bytes) })
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await pass(
      StoreCall(.list, prefix), received: { keys in keys.reduce(0) { $0 + $1.utf8.count } },
      { store throws(StoreError) in
        try await store.list(prefix: prefix, after: after, limit: limit)
      })
  }

  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try await pass(
      StoreCall(.list, prefix),
      received: { objects in objects.reduce(0) { $0 + $1.key.utf8.count } },
      { store throws(StoreError) in
        try await store.listObjects(prefix: prefix, after: after, limit: limit)
      })
  }

  package func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await pass(
      StoreCall(.list, prefix), received: { names in names.reduce(0) { $0 + $1.utf8.count } },
      { store throws(StoreError) in
        try await store.storedNames(prefix: prefix, after: after, limit: limit)
      })
  }

  package func delete(_ key: String) async throws(StoreError) {
    try await pass(
      StoreCall(.delete, key), received: { _ in 0 },
      { store throws(StoreError) in try await store.delete(key) })
  }

  package var looksForNews: Bool { store.looksForNews }

  package func news(prefix: String) -> AsyncStream<Void> { store.news(prefix: prefix) }
}
