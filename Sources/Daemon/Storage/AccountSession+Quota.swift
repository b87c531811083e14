internal import Logging
package import Model
internal import Platform
package import RemoteStore
internal import SyncEngine

/// The account's quota on this device: how it is learnt, told and set.
///
/// What it costs: one request with each connection, one every `interval`, and nothing more while
/// there is no quota. With one, what the containers take here is told with the device's record, at
/// most once in an interval and only if it changed, and what other devices tell is read once in
/// `intervalsToRead`.
extension AccountSession {
  private static let interval = Duration.seconds(900)
  private static let intervalsToRead = 4
  /// So long others have to tell what containers take there, when a quota is new to all.
  private static let othersTell = Duration.seconds(3)
  /// A device record has 65,536 bytes at most.
  private static let mostFigures = 1_000

  /// What the containers that are open here take, the largest first.
  func usage() -> [ContainerUsage] {
    Array(
      sessions.compactMap { session in
        guard let position = try? session.catalog.position(), position.sequence > 0,
          let bytes = try? session.catalog.usage()
        else { return nil }
        return ContainerUsage(
          incarnation: session.incarnation, sequence: position.sequence, bytes: bytes)
      }.sorted { $0.bytes > $1.bytes }.prefix(Self.mostFigures))
  }

  /// Gives whether the limit is another than it was.
  @discardableResult
  package func readQuota() async throws(RemoteError) -> Bool {
    let isOther = quota.note(try await account.quota())
    if isOther { logger.info("the account's quota is \(quota.limit.map { "\($0)" } ?? "none")") }
    return isOther
  }

  /// Asks what containers take that are not open here. Gives all that the account has.
  @discardableResult
  package func readUsage() async throws(RemoteError) -> [ContainerID] {
    let time = Timestamp(nanoseconds: SystemClock().nanoseconds())
    let containers = try await account.incarnations()
    quota.note(containers, try await devices(), at: time)
    return containers.map(\.id)
  }

  package func setQuota(_ limit: UInt64?) async throws(RemoteError) {
    let time = Timestamp(nanoseconds: SystemClock().nanoseconds())
    let new = AccountQuota(limit: limit, time: time, device: deviceID)
    // Who hears of it asks at once what containers take.
    if limit != nil { try await register() }
    try await account.setQuota(new)
    quota.note(new)
    if limit != nil { try await readUsage() }
  }

  /// Runs as long as the account is signed in.
  func keepQuota() async {
    // What is set after it is asked for is heard of.
    let news = account.quotaNews()
    await refreshQuota(readsUsage: true)
    await withTaskGroup { group in
      group.addTask { await self.pollQuota() }
      group.addTask {
        for await _ in news where !self.offline.isOffline {
          await self.refreshQuota(readsUsage: false)
        }
      }
    }
  }

  private func pollQuota() async {
    var round = 0
    while !Task.isCancelled {
      do { try await Task.sleep(for: Self.interval) } catch { return }
      guard !offline.isOffline else { continue }
      round += 1
      await refreshQuota(readsUsage: round % Self.intervalsToRead == 0)
    }
  }

  private func refreshQuota(readsUsage: Bool) async {
    do throws(RemoteError) {
      let isNew = try await readQuota()
      guard quota.limit != nil else { return }
      if quota.isNews(usage()) { try await register() }
      if isNew { try? await Task.sleep(for: Self.othersTell) }
      if readsUsage || isNew { try await readUsage() }
    } catch {
      logger.debug("cannot read the account's quota: \(error)")
    }
  }
}
