internal import Backend

/// Names in a store that are not ubiquityfs's, where ubiquityfs keeps its objects or beside them.
/// Readers pass over them.
package struct ForeignObjects: Equatable, Sendable {
  /// How many there are, as far as was looked. A foreign directory may count as one.
  package var count = 0
  /// A few of their names.
  package var examples: [String] = []
  /// Directories that were not looked through to their end. The top one's name is empty.
  package var unfinished: [String] = []
  /// Why one of these was not, if it could not be read.
  package var failure: RemoteError?

  package var isComplete: Bool { unfinished.isEmpty }

  private static let mostExamples = 3
  private static let containers = "containers/"

  /// Every directory that has objects, those before the others that have few.
  fileprivate static let places =
    [""] + ObjectName.directories.filter { $0 != containers } + [containers]

  package init() {}

  fileprivate mutating func add(_ name: String) {
    guard Self.isForeign(name) else { return }
    count += 1
    if examples.count < Self.mostExamples { examples.append(name) }
  }

  private static func isForeign(_ name: String) -> Bool {
    guard name.hasSuffix("/") else { return !ObjectKey.isOwn(name) && !isSystem(name[...]) }
    return !StoreKey.mayHoldObjects(name) && !isSystem(name.dropLast())
  }

  /// Whether a name at the top is a disk's own, or one of ubiquityfs for objects that do not stay:
  /// an interrupted sign-in to a bucket leaves one in `probe/`.
  private static func isSystem(_ name: Substring) -> Bool {
    [StoreKey.reserved, "probe", "lost+found", ".Trash"].contains(String(name))
      || name.hasPrefix(".Trash-")
  }
}

extension RemoteAccount {
  /// Looks through all names in the store, with one list request for each 1,000 of them. It goes on
  /// after a directory that cannot be read. `progress` gets the result so far after each request,
  /// for a caller that does not wait for the end.
  package func foreignObjects(
    mostPages: Int = 200, progress: @Sendable (ForeignObjects) -> Void = { _ in }
  ) async -> ForeignObjects {
    var result = ForeignObjects()
    result.unfinished = ForeignObjects.places
    var pages = 0
    for place in ForeignObjects.places {
      progress(result)
      do throws(RemoteError) {
        var after: String?
        while pages < mostPages {
          pages += 1
          let names = try await storedNames(place, after: after)
          for name in names { result.add(name) }
          guard names.count == Self.page else {
            result.unfinished.removeAll { $0 == place }
            break
          }
          progress(result)
          // The top has a few names. Where it has so many, these are enough.
          if place.isEmpty { break }
          after = names.last
        }
      } catch {
        guard error != .cancelled else { return result }
        result.failure = result.failure ?? error
      }
    }
    progress(result)
    return result
  }

  private static var page: Int { 1000 }

  private func storedNames(_ prefix: String, after: String?) async throws(RemoteError) -> [String] {
    let store = store
    return try await storing { () async throws(StoreError) in
      try await store.storedNames(prefix: prefix, after: after, limit: Self.page)
    }
  }
}
