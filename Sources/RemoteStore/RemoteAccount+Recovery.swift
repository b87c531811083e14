internal import Backend
internal import RecordFormat

/// The state of an account's `format` object, as a recovery finds it.
package enum FormatRecovery: Equatable, Sendable {
  /// The store has it.
  case present
  /// The store lacked it, and has it again.
  case restored
  /// The store has the one of another account. Nothing was changed.
  case ofAnotherAccount
}

extension RemoteAccount {
  /// Puts `format` again, if a store that went back lacks it: without it no device can sign in.
  package func restoreFormat() async throws(RemoteError) -> FormatRecovery {
    if let isOwn = try await hasOwnFormat() { return isOwn ? .present : .ofAnotherAccount }
    let newest = keys.membership.format
    let (target, bytes) = (store, newest.isEmpty ? format : newest)
    _ = try await storing { () async throws(StoreError) in
      try await target.putIfAbsent(ObjectName.format, bytes)
    }
    // Another device may have put one first.
    guard let isOwn = try await hasOwnFormat() else {
      throw .store(
        .unavailable(
          "the backend does not return \"\(ObjectName.format)\", which was just stored there"))
    }
    return isOwn ? .restored : .ofAnotherAccount
  }

  /// Nil: the store has none.
  private func hasOwnFormat() async throws(RemoteError) -> Bool? {
    guard let stored = try await Self.storedFormat(store) else { return nil }
    return try Self.read(stored).account == Self.read(format).account
  }

  /// An object of an account that the store lists, `format` aside. Nil: there is none. Files of
  /// other programs do not count.
  static func anyObject(in store: any ObjectStore) async throws(RemoteError) -> String? {
    let page = 1000
    for prefix in ObjectName.directories {
      var after: String?
      var pages = 0
      while true {
        guard pages < RemoteLimits.foreignPages else {
          throw .damaged(
            object: prefix, reason: "it holds too many files that ubiquityfs did not write")
        }
        pages += 1
        let start = after
        let found = try await storing { () async throws(StoreError) in
          try await store.list(prefix: prefix, after: start, limit: page)
        }
        if let object = found.first(where: { ObjectKey($0) != nil }) { return object }
        guard found.count == page else { break }
        after = found.last
      }
    }
    return nil
  }
}
