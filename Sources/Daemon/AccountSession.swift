package import Backend
package import ControlProtocol
package import Coordination
package import Logging
package import Model
package import Platform
package import RemoteStore
package import SyncEngine
internal import SystemPackage

/// The account that is signed in, and its containers that are open here.
///
/// It opens without the backend: what it needs of it is kept in the state directory. Lock order:
/// `turn` (held over slow work: one container opens or closes at a time), then the leaves.
package final class AccountSession: Sendable {
  package struct Connection: Sendable {
    package var isConnected = false
    package var error: String?
    /// Names of the account's devices, as far as they are known.
    package var names: [Model.DeviceID: String] = [:]
  }

  private struct Containers {
    var open: [ContainerID: ContainerSession] = [:]
    /// Why a container that is here could not be opened.
    var failures: [ContainerID: String] = [:]
  }

  package let stored: StoredAccount
  package let device: StoredDevice
  package let deviceID: Model.DeviceID
  package let account: RemoteAccount
  package let stack: BackendStack
  package let offline: OfflineSwitch
  package let quota: QuotaKeeper
  private let network: NetworkWeather
  /// Of all its containers: a claim may be of items of several.
  package let claims = ClaimTable()
  /// What the contents of all its containers may take of the local disk.
  package let space: LocalSpace
  /// Of the daemon: who listens goes on when another account is signed in.
  private let events: EventHub
  private let downloads: DownloadGate
  private let downloadLog: DownloadLog
  private let guards: (any ConnectionGuarding)?
  private let inherited: InheritedMounts?
  private let mountList: MountList?
  /// Called when the account leaves the backend, perhaps more than once.
  private let moved: @Sendable () -> Void
  let state: StateDirectory
  private let configuration: Configuration
  private let logs: @Sendable (String) -> Logger
  let logger: Logger
  private let turn = Lock(())
  private let containers = Lock(Containers())
  private let connectionState = Lock(Connection())
  private let greeter = Lock<Task<Void, Never>?>(nil)
  private let removalIsTold = Lock(false)

  package init(
    stored: StoredAccount, device: StoredDevice, account: RemoteAccount, stack: BackendStack,
    offline: OfflineSwitch, network: NetworkWeather, state: StateDirectory,
    configuration: Configuration, events: EventHub, downloads: DownloadGate,
    downloadLog: DownloadLog, guards: (any ConnectionGuarding)?,
    inherited: InheritedMounts? = nil, mountList: MountList? = nil,
    moved: @escaping @Sendable () -> Void = {},
    logs: @escaping @Sendable (String) -> Logger
  ) throws(ControlError) {
    guard let id = device.id else {
      throw ControlError(.failed, "\"\(state.device)\" is damaged; move it away and sign in again")
    }
    self.stored = stored
    self.device = device
    deviceID = id
    self.account = account
    self.stack = stack
    self.offline = offline
    self.network = network
    self.state = state
    self.configuration = configuration
    self.events = events
    self.downloads = downloads
    self.downloadLog = downloadLog
    self.guards = guards
    self.inherited = inherited
    self.mountList = mountList
    self.moved = moved
    self.logs = logs
    quota = QuotaKeeper(path: state.quota, account: Hex.encode(account.identity))
    logger = logs("account")
    let spaceLogger = logs("space")
    let meter = stack.metered
    space = LocalSpace(
      limits: configuration.space, directory: state.path,
      sentBytes: { meter.traffic.bytesUploaded }, log: { spaceLogger.debug("\($0)") })
  }

  package var connection: Connection { connectionState.withLock { $0 } }

  package var sessions: [ContainerSession] {
    containers.withLock { $0.open.values.sorted { $0.id < $1.id } }
  }

  package var failures: [ContainerID: String] { containers.withLock { $0.failures } }

  package func session(_ id: ContainerID) -> ContainerSession? {
    containers.withLock { $0.open[id] }
  }

  // MARK: Life

  /// Opens every container that is here, and tells the account's other devices of this one when the
  /// backend can be reached. A container that cannot be opened does not keep others from it.
  package func start() {
    // Programs wait for those that are mounted.
    let all = ContainerDirectory.all(in: state.containers)
    let isAwaited = { [inherited] in inherited?.has($0) ?? false }
    for directory in all.filter({ isAwaited($0.id) }) + all.filter({ !isAwaited($0.id) }) {
      do throws(ControlError) {
        _ = try open(directory.id, incarnation: nil)
      } catch {
        logger.error("\(error.message)")
      }
    }
    clearSentElsewhere()
    account.onMove { [moved] in moved() }
    if account.move != nil { moved() }
    greeter.withLock { $0 = Task { await self.greet() } }
  }

  /// Notes that from now on the containers upload to this backend alone.
  private func clearSentElsewhere() {
    guard stored.sentElsewhere == true, failures.isEmpty else { return }
    var stored = stored
    stored.sentElsewhere = nil
    do throws(ControlError) { try AccountStore(state).save(stored) } catch {
      logger.warning("\(error.message)")
    }
  }

  /// Closes all containers; their mounts are gone already.
  package func stop() {
    account.onMove(nil)
    greeter.withLock { $0?.cancel() }
    for session in sessions { space.remove(session.id) }
    turn.withLock { _ in
      let open = containers.withLock { containers in
        defer { containers.open = [:] }
        return Array(containers.open.values)
      }
      try? Blocking.run {
        await withTaskGroup { group in
          for session in open { group.addTask { await session.close() } }
        }
      }
    }
    space.stop()
  }

  /// Registers the device, again until it worked; then keeps up with the account's quota.
  private func greet() async {
    var wait = Duration.seconds(1)
    while !Task.isCancelled {
      if !stack.reachability.isReachable {
        // No traffic, and no more to tell: it is asked for as soon as it is back.
        wait = .seconds(1)
      } else if !offline.isOffline {
        do throws(RemoteError) {
          try await connect()
          return await withTaskGroup { group in
            group.addTask { await self.keepQuota() }
            group.addTask { await self.watchMembers() }
          }
        } catch {
          if case .removed = error { return }
          let text = error.description
          if connectionState.withLock({ $0.error }) != text {
            logger.warning("cannot use the backend: \(text)")
          }
          connectionState.withLock { $0.error = text }
        }
        wait = min(wait * 2, .seconds(60))
      }
      try? await Task.sleep(for: wait * Double.random(in: 0.5...1))
    }
  }

  /// Registers the device and learns of the others.
  package func connect() async throws(RemoteError) {
    try await keepUpWithMembers()
    try await register()
    _ = try await devices()
  }

  func noteError(_ text: String) {
    connectionState.withLock { state in
      state.isConnected = false
      state.error = text
    }
  }

  /// False: it was noted before.
  func noteRemoval() -> Bool {
    removalIsTold.withLock { isTold in
      defer { isTold = true }
      return !isTold
    }
  }

  func register() async throws(RemoteError) {
    let time = Timestamp(nanoseconds: SystemClock().nanoseconds())
    let usage = usage()
    try await account.register(
      DeviceRecord(id: deviceID, name: device.name, lastSeen: time, usage: usage))
    quota.told(usage)
  }

  package func devices() async throws(RemoteError) -> [DeviceRecord] {
    let devices = try await account.devices()
    connectionState.withLock { state in
      state.isConnected = true
      state.error = nil
      for device in devices { state.names[device.id] = device.name }
    }
    return devices
  }

  /// What the engine asks of the network.
  private var weather: LinkWeather {
    let (offline, network, stack) = (offline, network, stack)
    return LinkWeather(
      isOffline: { offline.isOffline }, outage: { stack.reachability.outage?.reason },
      wanted: { stack.reachability.wanted() }, isMetered: { network.isMetered },
      isHoldingDownloads: { stack.limits.down.isHolding || stack.parallel.waiting > 0 })
  }

  // MARK: Containers

  /// The container's session, opened if it is not. With an incarnation the container is made here
  /// where it is missing; throws `notFound` without one.
  package func open(_ id: ContainerID, incarnation: IncarnationID?) throws(ControlError)
    -> ContainerSession
  {
    try turn.withLock { _ throws(ControlError) in
      if let session = session(id) { return session }
      let directory = ContainerDirectory(id: id, in: state.containers)
      do throws(ControlError) {
        if !directory.exists {
          guard let incarnation else {
            throw ControlError(.notFound, "the container \"\(id)\" is not on this device")
          }
          try directory.make(incarnation)
        }
        let kept = inherited?.take(id)
        var isAdopted = false
        defer { if !isAdopted { kept?.abandon() } }
        let session = try ContainerSession(
          directory, account: account, device: deviceID, weather: weather,
          policy: configuration.contentPolicy, settings: configuration.syncSettings,
          packages: configuration.packageTypes, claims: claims, events: events,
          allotment: quota.allotment, downloads: downloads, downloadLog: downloadLog,
          guards: guards, mountList: mountList, keepsOrphans: kept != nil,
          logger: logs(id.description))
        session.use(space, in: directory)
        if stored.sentElsewhere == true {
          do throws(Errno) { try session.catalog.forgetSent() } catch {
            throw ControlError(.failed, "cannot open \"\(id)\": \(error)")
          }
        }
        // Before anything changes what programs have open.
        if let kept { isAdopted = session.adopt(kept) }
        try Blocking.run { await session.start() }
        session.join(space, isOffline: { [offline] in offline.isOffline })
        quota.opened(id)
        containers.withLock { containers in
          containers.open[id] = session
          containers.failures[id] = nil
        }
        return session
      } catch {
        containers.withLock { $0.failures[id] = error.message }
        throw error
      }
    }
  }

  /// Closes a container; it has no mount.
  package func close(_ id: ContainerID) throws(ControlError) {
    try turn.withLock { _ throws(ControlError) in
      let session = containers.withLock { $0.open.removeValue(forKey: id) }
      space.remove(id)
      if let session { try Blocking.run { await session.close() } }
      quota.closed(id)
      containers.withLock { $0.failures[id] = nil }
    }
  }

  /// Moves what this device has of a container out of the way, for another one of its name. Nothing
  /// is deleted: some of it may be nowhere else. Gives its name there; nil: nothing of it is here.
  package func setAside(_ id: ContainerID, reason: String) throws(ControlError) -> String? {
    try close(id)
    let directory = ContainerDirectory(id: id, in: state.containers)
    guard Files.exists(directory.path) else { return nil }
    let name = try SetAsideContainers(state, logger: logger).add(directory, reason: reason)
    logger.warning("set aside the local data of \"\(id)\" as \"\(name)\": \(reason)")
    return name
  }

  /// Removes what is here of a container that the user had deleted.
  package func remove(_ id: ContainerID) throws(ControlError) {
    try close(id)
    do {
      try Files.removeTree(ContainerDirectory(id: id, in: state.containers).path)
    } catch {
      throw ControlError(.failed, "cannot remove the local data of \"\(id)\": \(error)")
    }
  }
}

extension Configuration {
  package var contentPolicy: ContentPolicy {
    policy.flatMap(ContentPolicy.init(rawValue:)) ?? .onDemand
  }

  package var packageTypes: PackageTypes { .standard.changed(by: packageExtensions) }

  package var syncSettings: SyncSettings {
    var settings = SyncSettings()
    if let debounce {
      settings.debounce = .milliseconds(Int64(debounce * 1000))
      settings.firstDebounce = settings.debounce
      settings.longestWait = max(settings.longestWait, settings.debounce * 4)
    }
    if let snapshotAfter {
      settings.snapshotQuiet = snapshotAfter > 0 ? .milliseconds(Int64(snapshotAfter * 1000)) : nil
    }
    if let deletionShare { settings.deletions.share = deletionShare }
    if let deletionMinimum { settings.deletions.least = deletionMinimum }
    if let keepRemovedDays { settings.keepRemovedDays = keepRemovedDays }
    settings.compaction = compactionPolicy
    settings.unsent = hydration.unsent
    return settings
  }

  private var compactionPolicy: CompactionPolicy {
    var policy = CompactionPolicy()
    let day = Double(CompactionPolicy.day)
    for (key, number) in compaction {
      switch key {
      // Never without a pause.
      case "minutes": policy.interval = .milliseconds(max(100, Int64(number * 60_000)))
      case "segments": policy.snapshotSegments = UInt64(number)
      case "megabytes": policy.snapshotWeight = UInt64(number * 1_048_576)
      case "keepSegments": policy.keepSegments = UInt64(number)
      case "packs": policy.removesPacks = number > 0
      case "keepDays": policy.keepLog = Int64(number * day)
      default: policy.grace = Int64(number * day)
      }
    }
    return policy
  }
}
