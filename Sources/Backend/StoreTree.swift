/// Keys in the order of their bytes, from a store that has directories.
package enum StoreTree {
  package enum Kind: Sendable { case file, directory, link, other }

  package struct Entry: Sendable {
    package var name: String
    package var kind: Kind
    /// In bytes, where the store tells it with the list.
    package var size: UInt64?

    package init(name: String, kind: Kind, size: UInt64? = nil) {
      self.name = name
      self.kind = kind
      self.size = size
    }
  }

  /// A symbolic link where ubiquityfs can have a directory: nobody can tell what it leads to.
  package struct LinkInStore: Error { package let key: String }

  /// The keys that a list visits in one directory, in order. A directory ends in `/` and sorts as
  /// the keys in it do. `directory` ends in `/` or is empty. See `ObjectStore.list` for the others.
  package static func keys(
    _ entries: [Entry], in directory: String, prefix: String, after: String?
  ) throws(LinkInStore) -> [(key: String, entry: Entry)] {
    var found: [(key: String, entry: Entry)] = []
    for entry in entries where entry.kind != .other && !entry.name.hasPrefix(".") {
      if entry.kind == .link {
        // Anybody who may write there can have made it.
        guard StoreKey.mayHoldObjects(directory + entry.name + "/") else { continue }
        throw LinkInStore(key: directory + entry.name)
      }
      let isDirectory = entry.kind == .directory
      let key = directory + entry.name + (isDirectory ? "/" : "")
      guard key.hasPrefix(prefix) || (isDirectory && prefix.hasPrefix(key)) else { continue }
      if let after, !keyPrecedes(after, key), !(isDirectory && after.hasPrefix(key)) { continue }
      guard (try? StoreKey.checkPrefix(key)) != nil else { continue }
      found.append((key, entry))
    }
    return found.sorted { keyPrecedes($0.key, $1.key) }
  }

  /// The names that `ObjectStore.storedNames` visits in one directory, in order. `isEntered`: a
  /// directory that can hold objects. Of any other its own name is enough.
  package static func names(
    _ entries: [Entry], in directory: String, after: String?
  ) -> [(name: String, isEntered: Bool)] {
    var found: [(name: String, isEntered: Bool)] = []
    for entry in entries {
      let name = directory + entry.name + (entry.kind == .directory ? "/" : "")
      let isEntered = !directory.isEmpty && StoreKey.mayHoldObjects(name)
      if let after, !keyPrecedes(after, name), !(isEntered && after.hasPrefix(name)) { continue }
      found.append((name, isEntered))
    }
    return found.sorted { keyPrecedes($0.name, $1.name) }
  }
}
