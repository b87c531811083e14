internal import Backend
package import Model

/// What of a store is not ubiquityfs's, and lies where ubiquityfs keeps its objects. Readers pass
/// over it.
package struct ForeignObjects: Equatable, Sendable {
  /// How many there are, as far as was looked.
  package var count = 0
  /// A few of their keys.
  package var examples: [String] = []
  /// False: there are more objects than are looked at.
  package var isComplete = true

  private static let mostExamples = 3

  package init() {}

  fileprivate mutating func add(_ key: String) {
    count += 1
    if examples.count < Self.mostExamples { examples.append(key) }
  }
}

extension RemoteAccount {
  /// Looks through the names of all objects. One list request for each 1,000 of them.
  package func foreignObjects(mostPages: Int = 200) async throws(RemoteError) -> ForeignObjects {
    let page = 1000
    var result = ForeignObjects()
    var pages = 0
    for prefix in ObjectName.directories {
      var after: String?
      while true {
        guard pages < mostPages else {
          result.isComplete = false
          return result
        }
        pages += 1
        let (store, start) = (store, after)
        let found = try await storing { () async throws(StoreError) in
          try await store.list(prefix: prefix, after: start, limit: page)
        }
        for key in found where !ObjectKey.isOwn(key) { result.add(key) }
        guard found.count == page else { break }
        after = found.last
      }
    }
    return result
  }
}
