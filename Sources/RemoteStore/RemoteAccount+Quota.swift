internal import Backend
package import Model
internal import RecordFormat

/// What the account may take, in one small object that every device reads and any device replaces.
extension RemoteAccount {
  /// Nil: nobody ever set one. One request.
  package func quota() async throws(RemoteError) -> AccountQuota? {
    let object = ObjectName.quota
    guard let stored = try await Self.small(object, in: store) else { return nil }
    let plain = try open(stored, .quota, Self.associated("quota", []), object)
    do throws(RecordError) {
      return try AccountQuota(decoding: plain)
    } catch {
      throw .damaged(object: object, reason: error.description)
    }
  }

  /// Of two devices that set it at the same time, the one whose call is done last.
  package func setQuota(_ quota: AccountQuota) async throws(RemoteError) {
    let sealed = keys.record.seal(quota.encoded(), Self.associated("quota", []))
    let store = store
    try await storing { () async throws(StoreError) in
      try await store.replace(ObjectName.quota, ObjectHeader.quota.bytes + sealed)
    }
  }

  /// Hints that the quota may have been set; none where they would have to be looked for, which costs more
  /// than to hear of it a quarter of an hour later.
  package func quotaNews() -> AsyncStream<Void> {
    store.looksForNews ? AsyncStream { $0.finish() } : store.news(prefix: ObjectName.account)
  }
}
