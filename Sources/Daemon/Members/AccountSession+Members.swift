internal import Backend
internal import ControlProtocol
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore

/// The account's members, as far as this device has to keep up with them.
extension AccountSession {
  /// How often the member log is read where nothing tells of it. A segment that names a later entry
  /// has it read at once.
  private static let interval = Duration.seconds(300)

  /// Joins, and reads the member log; ends what a device that removed another one left undone.
  /// Throws `.removed` when this device is no member any more; then nothing is synced from here on.
  func keepUpWithMembers() async throws(RemoteError) {
    do throws(RemoteError) {
      try await account.refreshMembers()
      try await account.join()
      try await account.settleMembers()
    } catch {
      if case .removed = error { endMembership(error.description) }
      throw error
    }
    keepSecretFile()
  }

  /// Until this device is removed.
  func watchMembers() async {
    await withTaskGroup { group in
      let news = account.memberNews()
      group.addTask {
        for await _ in news where !self.offline.isOffline { await self.lookAtMembers() }
      }
      group.addTask {
        while !Task.isCancelled {
          do { try await Task.sleep(for: Self.interval) } catch { return }
          if !self.offline.isOffline { await self.lookAtMembers() }
        }
      }
    }
  }

  private func lookAtMembers() async {
    guard !isRemoved else { return }
    let before = account.memberEntry
    do throws(RemoteError) { try await keepUpWithMembers() } catch {
      if !error.isTransient { logger.warning("cannot read the account's members: \(error)") }
    }
    if account.memberEntry != before { for session in sessions { session.sync.trigger() } }
  }

  package var isRemoved: Bool { account.remover != nil }

  /// Stops all sync; what is local stays.
  func endMembership(_ text: String) {
    noteError(text)
    for session in sessions {
      Task { await session.sync.endMembership(text) }
    }
    guard noteRemoval() else { return }
    logger.error("\(text)")
  }

  /// The file beside the default backend, from which further state directories of this user sign
  /// in, has the account's present secret.
  func keepSecretFile() {
    let address = BackendAddress(besideState: state.path)
    guard address.description == stored.backend, let path = address.keyFile else { return }
    let file = KeyFile(path: path)
    do throws(ControlError) {
      guard let known = try file.secret() else { return }
      let present = account.secret
      if known != present { try file.replace(present) }
    } catch {
      logger.warning("\(error.message)")
    }
  }
}
