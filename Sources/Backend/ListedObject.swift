/// An object as a list has it.
package struct ListedObject: Equatable, Sendable {
  package let key: String
  /// In bytes; nil where the store's lists do not tell it.
  package let size: UInt64?

  package init(key: String, size: UInt64?) {
    self.key = key
    self.size = size
  }
}

extension ObjectStore {
  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try await list(prefix: prefix, after: after, limit: limit).map {
      ListedObject(key: $0, size: nil)
    }
  }
}
