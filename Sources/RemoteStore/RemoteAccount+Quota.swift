internal import Backend
package import Model
internal import RecordFormat

/// What the account may take, in one small object that every device reads and any device replaces.
extension RemoteAccount {
  /// Nil: nobody ever set one. One request.
  package func quota() async throws(RemoteError) -> AccountQuota? {
    guard let plain = try await records.read(.quota) else { return nil }
    do throws(RecordError) {
      return try AccountQuota(decoding: plain)
    } catch {
      throw .damaged(object: ObjectName.quota, reason: error.description)
    }
  }

  /// Of two devices that set it at the same time, the one whose call is done last.
  package func setQuota(_ quota: AccountQuota) async throws(RemoteError) {
    try await records.replace(quota.checked(), .quota)
  }

  /// Hints that the quota may have been set; none where they would have to be looked for, which
  /// costs more than to hear of it a quarter of an hour later.
  package func quotaNews() -> AsyncStream<Void> {
    store.looksForNews ? AsyncStream { $0.finish() } : store.news(prefix: ObjectName.account)
  }
}
