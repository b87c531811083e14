/// A bounded cache: of the two halves, the older one goes when the younger is full. What is used
/// moves to the younger. Constant time, and nothing to keep in order.
struct GenerationCache<Key: Hashable, Value> {
  private var young: [Key: Value] = [:]
  private var old: [Key: Value] = [:]
  private let half: Int

  init(limit: Int) { half = max(1, limit / 2) }

  mutating func value(_ key: Key) -> Value? {
    if let value = young[key] { return value }
    guard let value = old[key] else { return nil }
    insert(key, value)
    return value
  }

  mutating func insert(_ key: Key, _ value: Value) {
    if young.count >= half {
      old = young
      young = [:]
      young.reserveCapacity(half)
    }
    young[key] = value
  }

  mutating func remove(_ key: Key) {
    young[key] = nil
    old[key] = nil
  }

  mutating func removeAll() {
    young = [:]
    old = [:]
  }
}
