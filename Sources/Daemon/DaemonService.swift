internal import Backend
internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Glibc
package import Logging
internal import Model
package import Platform
internal import RemoteStore
internal import SyncEngine
internal import SystemPackage

/// What the control socket's methods do. Each runs on its connection's thread and may block it.
///
/// Lock order: `turn` (one sign-in, sign-out, mount, unmount or deletion at a time; held over slow
/// work), then the locks of sessions.
package final class DaemonService: Sendable {
  let state: StateDirectory
  let store: AccountStore
  let configuration: Configuration
  let offline: OfflineSwitch
  let network: NetworkWeather
  let logs: @Sendable (String) -> Logger
  let logger: Logger
  let turn = Lock(())
  let snapshots: Snapshots
  let parties: ConnectionParties
  let events = EventHub()
  let newcomers = Newcomers()
  let identityListeners = IdentityListeners()
  let queries = QueryRegistry()
  let pairings = PairingTable()
  /// The task that waits for the store to which the account moves. A leaf.
  let following = Lock(Following())
  /// Has another daemon of this program go on with the mounts. Returns where that cannot be.
  let successor = Lock<(@Sendable () -> Void)?>(nil)
  let shownVersions = ShownVersionLists()
  /// Of the daemon: what was registered with it holds for every account.
  let downloads: DownloadGate
  let downloadLog: DownloadLog
  private let guards: (any ConnectionGuarding)?
  private let inherited: InheritedMounts?
  /// Nil where mounts are not restored.
  let mountList: MountList?
  let current = Lock<AccountSession?>(nil)
  /// Why the account that is stored could not be opened.
  let accountError = Lock<String?>(nil)

  package init(
    state: StateDirectory, configuration: Configuration,
    guards: (any ConnectionGuarding)? = nil, inherited: InheritedMounts? = nil,
    restoresMounts: Bool = false, logs: @escaping @Sendable (String) -> Logger
  ) {
    self.state = state
    self.inherited = inherited
    mountList = restoresMounts ? MountList(path: state.mountList) : nil
    self.guards = guards
    store = AccountStore(state)
    snapshots = Snapshots(state)
    parties = ConnectionParties(snapshots)
    self.configuration = configuration
    self.logs = logs
    logger = logs("daemon")
    offline = OfflineSwitch(isOffline: state.isOffline)
    downloads = DownloadGate(rules: configuration.hydration.allRules)
    downloadLog = DownloadLog(path: state.downloadLog)
    network = NetworkWeather(state, configuration.network)
  }

  // MARK: Life

  /// Opens the account that is signed in. An account that cannot be opened is said so in `status`.
  package func start() {
    snapshots.sweep()
    startNetwork()
    do throws(ControlError) {
      guard let stored = try store.account() else {
        accountError.withLock { $0 = nil }
        // Of an account that was signed out when the daemon ended.
        try state.setIdentity(nil)
        return
      }
      guard var device = try store.device() else {
        throw ControlError(.failed, "\"\(state.device)\" is missing; sign out and sign in again")
      }
      // Of a release whose devices signed nothing.
      if device.makeKeys() { try store.save(device) }
      let address = try BackendAddress(stored.backend)
      let stack = BackendStack(
        address, environment: stored.environment ?? [:], offline: offline, limits: network.limits,
        changed: tellReachability)
      let account: RemoteAccount
      let secret = try store.secret()
      do throws(RemoteError) {
        guard let format = Hex.decode(Array(stored.format.utf8)) else {
          throw .badSecret("\"\(state.account)\" is damaged")
        }
        account = try RemoteAccount(
          store: stack.store, secret: secret, format: format,
          device: device.identity, memory: StateMemory(state: state, logger: logger))
      } catch {
        throw ControlError(.failed, "cannot open the account in \"\(state.account)\": \(error)")
      }
      try begin(stored, device, account, stack)
    } catch {
      logger.error("\(error.message)")
      accountError.withLock { $0 = error.message }
    }
  }

  private func begin(
    _ stored: StoredAccount, _ device: StoredDevice, _ account: RemoteAccount,
    _ stack: BackendStack
  ) throws(ControlError) {
    let session = try AccountSession(
      stored: stored, device: device, account: account, stack: stack, offline: offline,
      network: network, state: state, configuration: configuration, events: events,
      downloads: downloads, downloadLog: downloadLog, guards: guards, inherited: inherited,
      mountList: mountList, moved: { [weak self] in self?.follow() }, logs: logs)
    try state.setIdentity(Hex.encode(account.identity))
    current.withLock { $0 = session }
    accountError.withLock { $0 = nil }
    session.start()
    restoreMounts(session)
    tellIdentity()
  }

  /// What was mounted when an earlier daemon died, and does not go on, is mounted again.
  private func restoreMounts(_ session: AccountSession) {
    for entry in mountList?.entries ?? [] {
      guard let container = session.session(entry.container), container.mountpoint == nil else {
        continue
      }
      do throws(ControlError) {
        try MountpointCheck.run(entry.mountpoint, makesDirectory: false)
        try container.restore(at: entry.mountpoint, entry.options)
        logger.notice("\"\(entry.container)\" is mounted at \"\(entry.mountpoint)\" again")
      } catch {
        logger.error("cannot mount \"\(entry.container)\" again: \(error.message)")
        mountList?.remove(entry.container)
      }
    }
  }

  /// Unmounts everything, whatever uses it, and closes what is open. Nothing written is lost.
  package func stop() {
    network.stop()
    following.withLock { $0.task?.cancel() }
    turn.withLock { _ in
      guard let session = current.withLock({ $0 }) else { return }
      let deadline = monotonicNanoseconds() + Self.writerPatience
      for container in session.sessions { container.unmountAnyway(waitingUntil: deadline) }
      session.stop()
    }
    downloadLog.write()
  }

  /// Leaves the mounts as they are for another daemon. This one is to end at once: what its engines
  /// do meanwhile is as if it had been killed there.
  func quiesce() {
    for container in account?.sessions ?? [] { container.quiesce() }
    downloadLog.write()
  }

  /// How long the end of the daemon waits for programs that have files open for writing, in
  /// nanoseconds. systemd ends a service after 90 seconds.
  private static var writerPatience: UInt64 { 5_000_000_000 }

  /// The account; one that could not be opened is tried again, for what was wrong may be put right.
  /// Not under `turn`.
  func requireAccount() throws(ControlError) -> AccountSession {
    if let session = account { return session }
    turn.withLock { _ in
      if account == nil, accountError.withLock({ $0 != nil }) { start() }
    }
    if let session = account { return session }
    if let error = accountError.withLock({ $0 }) { throw ControlError(.failed, error) }
    throw ControlError(.failed, "no account is signed in; run `ubiquityfs account sign-in` first")
  }

  var account: AccountSession? { current.withLock { $0 } }

  func containerID(_ text: String) throws(ControlError) -> ContainerID {
    do throws(ContainerID.Invalid) { return try ContainerID(text) } catch {
      throw ControlError(
        .usage,
        "\"\(text)\" is not a valid container name: \(error.reason); use one like "
          + "\"iCloud.com.example.notes\"")
    }
  }

  // MARK: The account

  func makeSignIn() -> SignIn {
    SignIn(state: state, store: store, offline: offline, logger: logger) { address, environment in
      BackendStack(
        address, environment: environment, offline: self.offline, limits: self.network.limits,
        changed: self.tellReachability)
    }
  }

  /// `device` and `grant`: of a pairing.
  func signIn(
    _ request: SignInRequest, _ connection: ClientConnection, device: StoredDevice? = nil,
    grant: PairingGrant? = nil
  ) throws(ControlError) -> SignInAnswer {
    try turn.withLock { _ throws(ControlError) in
      let signIn = makeSignIn()
      if let stored = try store.account() {
        let address = try signIn.address(request)
        guard request.backend == nil || address.description == stored.backend else {
          throw ControlError(
            .busy,
            "this device is already signed in to \"\(stored.backend)\"; run `ubiquityfs account "
              + "sign-out` first")
        }
        try renew(stored, request)
        let device = try store.device()
        return SignInAnswer(
          backend: stored.backend, device: device?.name ?? "",
          deviceIdentifier: device?.identifier ?? "", isNewAccount: false, wasSignedIn: true)
      }
      var request = request
      if let grant { request.secret = grant.secret }
      let done = try signIn.run(request, connection, device: device, grant: grant)
      try unpark(done.stored, done.account)
      try begin(done.stored, done.device, done.account, done.stack)
      // Before anything is sent from here.
      if let session = account {
        _ = try? connection.wait {
          try await withDeadline(.seconds(5)) { try await session.readQuota() }
        }
      }
      logger.info("signed in to \"\(done.stored.backend)\" as \"\(done.device.name)\"")
      var answer = SignInAnswer(
        backend: done.stored.backend, device: done.device.name,
        deviceIdentifier: done.device.identifier, isNewAccount: done.isNew, wasSignedIn: false)
      let address = try signIn.address(request)
      answer.warning = address.warning
      answer.secretFile = address.keyFile.flatMap { Files.exists($0) ? $0 : nil }
      if let warning = answer.warning { logger.warning("\(warning)") }
      return answer
    }
  }

  /// Takes the variables, such as access keys, that a further sign-in to the same backend gives.
  private func renew(_ stored: StoredAccount, _ request: SignInRequest) throws(ControlError) {
    guard request.backend != nil else { return }
    let variables = try BackendAddress(stored.backend).variables
    var stored = stored
    guard stored.take(request.environment ?? [:], variables) else { return }
    try store.save(stored)
    account?.stack.late.use(stored.environment ?? [:])
    for session in account?.sessions ?? [] { session.sync.trigger() }
  }

  /// Brings back what was kept of the account when it was signed out. Its name comes from the
  /// account's key: no store can have this device upload another account's files.
  private func unpark(_ stored: StoredAccount, _ account: RemoteAccount) throws(ControlError) {
    var parked = state.parkedContainers(account: account.identity)
    if !Files.exists(parked), let format = account.firstFormat {
      var former = stored
      former.format = Hex.encode(format)
      parked = state.containersParked(asFormerly: former.formerIdentifier)
    }
    guard Files.exists(parked) else { return }
    do throws(Errno) { try Files.rename(parked, state.containers) } catch {
      try store.forgetAccount()
      throw ControlError(.failed, "cannot restore \"\(parked)\": \(error)")
    }
  }

  func signOut(_ request: SignOutRequest, _ connection: ClientConnection) throws(ControlError) {
    try turn.withLock { _ throws(ControlError) in
      guard let stored = try store.account() else {
        throw ControlError(.failed, "no account is signed in")
      }
      let session = account
      if let session {
        try checkSignOut(session, force: request.force)
        session.stop()
      }
      do throws(Errno) {
        if Files.exists(state.containers) {
          // An account that cannot be opened has no identity.
          let parked =
            session.map { state.parkedContainers(account: $0.account.identity) }
            ?? state.containersParked(asFormerly: stored.formerIdentifier)
          try Files.rename(state.containers, parked)
        }
      } catch {
        if let session { session.start() }
        throw ControlError(.failed, "cannot move \"\(state.containers)\" aside: \(error)")
      }
      try store.forgetAccount()
      try? Files.remove(state.quota)
      try? state.setIdentity(nil)
      current.withLock { $0 = nil }
      accountError.withLock { $0 = nil }
      tellIdentity()
      logger.info("signed out of \"\(stored.backend)\"")
    }
  }

  private func checkSignOut(_ session: AccountSession, force: Bool) throws(ControlError) {
    let mounted = session.sessions.filter { $0.mountpoint != nil }
    if !force {
      if let first = mounted.first {
        throw ControlError(
          .busy,
          "\"\(first.id)\" is mounted at \"\(first.mountpoint ?? "")\"; unmount it first, or add "
            + "--force")
      }
      for container in session.sessions where container.pendingUploads > 0 {
        throw ControlError(
          .busy,
          "\(container.pendingUploads) items of \"\(container.id)\" are not uploaded yet; run "
            + "`ubiquityfs sync --wait` first, or add --force to keep them for the next sign-in")
      }
    }
    for container in mounted { try container.unmount() }
    // What the backend has need not be kept here; what only this device has stays.
    for coordinator in session.sessions.map(\.coordinator) {
      var eviction = Eviction(.root, of: coordinator)
      try? eviction.finish { () throws(Errno) in
        coordinator.waitForConfirmedStore(milliseconds: 5000) ? nil : .networkDown
      }
    }
  }

  func accountReport() -> AccountReport {
    guard let session = try? requireAccount() else {
      let stored = try? store.account()
      let error = accountError.withLock { $0 }
      return AccountReport(
        signedIn: stored != nil || error != nil, backend: stored?.backend, error: error)
    }
    let connection = session.connection
    return AccountReport(
      signedIn: true, backend: session.stored.backend, device: session.device.name,
      deviceIdentifier: session.device.identifier, connected: connection.isConnected,
      error: connection.error, removed: session.isRemoved ? true : nil)
  }

  func devices(_ connection: ClientConnection) throws(ControlError) -> DevicesReport {
    let session = try requireAccount()
    let devices = try connection.wait { try await session.devices() }
    return DevicesReport(
      devices: devices.map {
        ListedDevice(
          id: $0.id.description, name: $0.name, lastSeen: Instant.text($0.lastSeen),
          isThisDevice: $0.id == session.deviceID)
      })
  }

  func secret() throws(ControlError) -> SecretAnswer {
    guard try store.account() != nil else {
      throw ControlError(.failed, "no account is signed in; run `ubiquityfs account sign-in` first")
    }
    guard let session = account else { return SecretAnswer(secret: try store.secret().text) }
    return SecretAnswer(secret: session.account.secret.text)
  }

  // MARK: Airplane mode

  func setOffline(_ value: Bool) throws(ControlError) {
    try state.setOffline(value)
    offline.set(offline: value)
    logger.info("offline mode is \(value ? "on" : "off")")
    guard !value else { return }
    account?.stack.reachability.hint()
    for session in account?.sessions ?? [] { session.sync.trigger() }
  }
}
