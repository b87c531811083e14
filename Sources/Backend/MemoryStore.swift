internal import Platform

/// A store that lives as long as the process.
package final class MemoryStore: ObjectStore {
  private let objects = Lock<[String: [UInt8]]>([:])
  private let hub = NewsHub()

  package init() {}

  package var description: String { "memory" }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try StoreKey.check(key)
    guard let bytes = objects.withLock({ $0[key] }) else { throw .notFound(key) }
    guard let range else { return bytes }
    let end = min(range.upperBound, UInt64(bytes.count))
    let start = min(range.lowerBound, end)
    return Array(bytes[Int(start)..<Int(end)])
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try StoreKey.check(key)
    let stored = objects.withLock { objects in
      guard objects[key] == nil else { return false }
      objects[key] = bytes
      return true
    }
    if stored { hub.tell(key) }
    return stored
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try StoreKey.check(key)
    objects.withLock { $0[key] = bytes }
    hub.tell(key)
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try StoreKey.checkPrefix(prefix)
    let keys = objects.withLock { Array($0.keys) }
    let found = keys.filter { key in
      key.hasPrefix(prefix) && (after.map { keyPrecedes($0, key) } ?? true)
    }
    return Array(found.sorted(by: keyPrecedes).prefix(max(0, limit)))
  }

  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    let keys = try await list(prefix: prefix, after: after, limit: limit)
    return objects.withLock { objects in
      keys.map { ListedObject(key: $0, size: objects[$0].map { UInt64($0.count) }) }
    }
  }

  package func delete(_ key: String) async throws(StoreError) {
    try StoreKey.check(key)
    guard objects.withLock({ $0.removeValue(forKey: key) }) != nil else { return }
    hub.tell(key)
  }

  package func news(prefix: String) -> AsyncStream<Void> { hub.listen(prefix: prefix) }
}
