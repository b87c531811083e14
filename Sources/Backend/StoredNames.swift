extension ObjectStore {
  /// For a store that can hold nothing but objects.
  package func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    guard prefix.isEmpty else {
      return try await list(prefix: prefix, after: after, limit: limit)
    }
    var result: [String] = []
    var last: String?
    while result.count < limit,
      let key = try await list(prefix: prefix, after: last, limit: 1).first
    {
      let name = key.firstIndex(of: "/").map { String(key[...$0]) } ?? key
      result.append(name)
      // A directory goes on after all keys in it: no key has a byte behind `z`.
      last = name.hasSuffix("/") ? name + "~" : name
    }
    return result
  }
}
