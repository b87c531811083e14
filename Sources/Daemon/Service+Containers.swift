internal import Backend
internal import Catalog
internal import ControlProtocol
internal import Glibc
internal import Logging
internal import Model
internal import MountDriver
internal import Platform
internal import RemoteStore
internal import SyncEngine

extension DaemonService {
  func createContainer(_ request: ContainerRequest, _ connection: ClientConnection)
    throws(ControlError) -> CreatedContainer
  {
    let id = try containerID(request.id)
    let session = try requireAccount()
    let isThere = try connection.wait { try await session.account.container(id) != nil }
    // One that is there may be half made, by a device that was stopped: then it is completed.
    _ = try create(id, session, connection)
    return CreatedContainer(created: !isThere)
  }

  /// Under `turn`: throws when the account was signed out while `turn` was waited for. What is done
  /// with it then would end up in the directories of the account that is signed in now.
  func checkIsCurrent(_ session: AccountSession) throws(ControlError) {
    guard account === session else {
      throw ControlError(.failed, "the account was signed out meanwhile; nothing was done")
    }
  }

  private func create(
    _ id: ContainerID, _ session: AccountSession, _ connection: ClientConnection
  ) throws(ControlError) -> RemoteContainer {
    try connection.wait {
      try await session.account.createContainer(
        id, device: session.deviceID,
        time: Timestamp(nanoseconds: SystemClock().nanoseconds()))
    }
  }

  func listContainers(_ connection: ClientConnection) throws(ControlError) -> ContainersReport {
    let session = try requireAccount()
    // One that was deleted elsewhere is the account's no more, and `mount --all` is not to make it
    // anew.
    var ids = Set(
      session.sessions.filter { $0.mountpoint != nil || !$0.sync.isDeleted }.map(\.id))
    let failures = session.failures
    ids.formUnion(failures.keys)
    if !offline.isOffline {
      do throws(ControlError) {
        try lookForBackend(session, connection)
        ids.formUnion(try connection.wait { try await session.account.containers() })
      } catch {
        // What is here can be told without the backend.
        guard !ids.isEmpty else { throw error }
        logger.warning("only the containers on this device are listed: \(error.message)")
      }
    } else if ids.isEmpty {
      throw ControlError(
        .offline,
        "no container is on this device, and offline mode is on; turn it off with "
          + "`ubiquityfs offline off`")
    }
    return ContainersReport(
      containers: ids.sorted().map { id in
        let open = session.session(id)
        let counts = open?.counts
        return ListedContainer(
          id: id.description, items: counts?.items, totalBytes: counts?.totalBytes,
          mountpoint: open?.mountpoint, error: open == nil ? failures[id] : nil)
      })
  }

  func deleteContainer(_ request: ContainerRequest, _ connection: ClientConnection)
    throws(ControlError)
  {
    let id = try containerID(request.id)
    let session = try requireAccount()
    try turn.withLock { _ throws(ControlError) in
      try checkIsCurrent(session)
      session.session(id)?.noticeUnmounting()
      if let mountpoint = session.session(id)?.mountpoint {
        throw ControlError(.busy, "\"\(id)\" is mounted at \"\(mountpoint)\"; unmount it first")
      }
      let names = try connection.wait { try await session.account.containers() }
      let directory = ContainerDirectory(id: id, in: state.containers)
      let known = directory.exists ? try? directory.incarnation() : nil
      guard names.contains(id) || directory.exists else {
        throw ControlError(.notFound, "the account has no container \"\(id)\"")
      }
      // Nothing of it is to be sent while it is being deleted.
      try session.close(id)
      let deletion = ContainerDeletion(
        device: session.deviceID, time: Timestamp(nanoseconds: SystemClock().nanoseconds()))
      try connection.wait {
        try await session.account.deleteContainer(id, known: known, by: deletion)
      }
      try session.remove(id)
      logger.info("deleted \"\(id)\"")
      // What it took is free again, and other devices tell of it for a while yet.
      if session.quota.limit != nil {
        _ = try? connection.wait {
          try await withDeadline(.seconds(3)) { try await session.readUsage() }
        }
      }
    }
  }

  // MARK: Mounts

  func mount(_ request: MountRequest, _ connection: ClientConnection) throws(ControlError)
    -> MountReport
  {
    let id = try containerID(request.container)
    let options: MountOptions
    do throws(MountOptions.Invalid) { options = try MountOptions(parsing: request.options) } catch {
      throw ControlError(.usage, "\(error)")
    }
    let account = try requireAccount()
    guard let mountpoint = String(validating: request.mountpoint.bytes, as: UTF8.self),
      Files.absolutePath(mountpoint) == mountpoint, !mountpoint.utf8.contains(0)
    else { throw ControlError(.usage, "a mount point must be an absolute path in UTF-8") }
    let (session, notice) = try turn.withLock { _ throws(ControlError) in
      try checkIsCurrent(account)
      account.session(id)?.noticeUnmounting()
      if let session = account.session(id), session.takesRestored(at: mountpoint, options) {
        return (session, String?.none)
      }
      if let there = account.session(id)?.mountpoint {
        throw ControlError(.busy, "\"\(id)\" is already mounted at \"\(there)\"")
      }
      try MountpointCheck.run(mountpoint, makesDirectory: request.makesDirectory)
      let (session, notice) = try openForMount(id, account, connection)
      let isPolicyGiven = request.options.contains { $0.hasPrefix("policy=") }
      let policy =
        isPolicyGiven
        ? ContentPolicy(rawValue: options.policy.rawValue) ?? .onDemand
        : configuration.contentPolicy
      try session.mount(at: mountpoint, options)
      // What it brings is told of by paths, so there have to be some.
      try connection.wait { await session.sync.setPolicy(policy) }
      return (session, notice)
    }
    firstSync(session)
    var answer = report(session, mountpoint)
    answer.notice = notice
    return answer
  }

  /// Opens the container from what is here; makes it in the account, or fetches it from there,
  /// where nothing is here. The text is what the user is to be told.
  private func openForMount(
    _ id: ContainerID, _ account: AccountSession, _ connection: ClientConnection
  ) throws(ControlError) -> (ContainerSession, String?) {
    var notice: String?
    let directory = ContainerDirectory(id: id, in: state.containers)
    if directory.exists {
      let incarnation = try directory.incarnation()
      // Was it deleted? An answer that does not come is no reason to wait.
      if !offline.isOffline {
        let found = try? connection.wait {
          try await withDeadline(.seconds(3)) {
            try await account.account.container(id, incarnation: incarnation).presence()
          }
        }
        switch found {
        case .deleted(let deletion)?:
          notice = try setAsideDeleted(id, account, deletion)
        case .missing(let object)?:
          // An absent object proves nothing. The engine says so in `status`.
          notice =
            "the backend does not have \"\(object)\", the name of \"\(id)\", and no record says "
            + "that it was deleted; the mount shows the state that this device has"
        case .there?, nil: break
        }
      }
    }
    if directory.exists { return (try account.open(id, incarnation: nil), notice) }
    guard !offline.isOffline else {
      throw ControlError(
        .offline,
        "the container \"\(id)\" is not on this device, and offline mode is on; turn it off with "
          + "`ubiquityfs offline off`")
    }
    try lookForBackend(account, connection)
    let made = try create(id, account, connection)
    return (try account.open(id, incarnation: made.incarnation), notice)
  }

  private func setAsideDeleted(
    _ id: ContainerID, _ account: AccountSession, _ deletion: ContainerDeletion
  ) throws(ControlError) -> String? {
    let device = account.connection.names[deletion.device] ?? deletion.device.description
    let reason = "it was deleted on \"\(device)\" at \(Instant.text(deletion.time))"
    return try account.setAside(id, reason: reason).map { name in
      "\"\(id)\" was created again: \(reason). The local data of the former container was set "
        + "aside; see `ubiquityfs container set-aside list`"
    }
  }

  /// A container that was never read shows what the account has when `mount` returns, if that comes
  /// soon.
  private func firstSync(_ session: ContainerSession) {
    guard !offline.isOffline, session.isUnread else { return }
    do throws(ControlError) {
      // The first cycle of a large container takes longer; the mount answers meanwhile.
      try Blocking.run {
        try await Self.abandoning(after: .seconds(5)) { try await session.sync.sync() }
      }
    } catch {
      logger.info("the first sync of \"\(session.id)\" has not finished: \(error.message)")
    }
  }

  func report(_ session: ContainerSession, _ mountpoint: String) -> MountReport {
    MountReport(
      container: session.id.description, mountpoint: mountpoint,
      io: IOReport(session.ioMode ?? .daemon(reason: "it is not mounted")))
  }

  /// The session that is mounted there.
  func mounted(_ mountpoint: PathBytes) throws(ControlError) -> ContainerSession {
    let path = mountpoint.description
    if let found = account?.sessions.first(where: { $0.mountpoint == path }) { return found }
    throw ControlError(.notFound, "\"\(path)\" is not a mount of the daemon of \"\(state.path)\"")
  }

  func unmount(_ request: MountpointRequest) throws(ControlError) {
    try turn.withLock { _ throws(ControlError) in
      let session = try mounted(request.mountpoint)
      session.noticeUnmounting()
      guard session.mountpoint != nil else {
        throw ControlError(.notFound, "nothing is mounted at \"\(request.mountpoint)\"")
      }
      try session.unmount()
    }
  }

  /// Waits until all the mounts are gone, or the client is; then takes down those that are left.
  func hold(_ request: HoldRequest, _ connection: ClientConnection) throws(ControlError) {
    let held = try request.mountpoints.map { mountpoint throws(ControlError) in
      (try? mounted(mountpoint), mountpoint.description)
    }
    while held.contains(where: { $0.0?.mountpoint == $0.1 }) {
      guard connection.isClosed else {
        usleep(100_000)
        continue
      }
      for (session, mountpoint) in held where session?.mountpoint == mountpoint {
        do throws(ControlError) { try session?.unmount() } catch {
          logger.warning("\(error.message)")
        }
      }
      return
    }
  }
}

extension IOReport {
  init(_ mode: IOMode) {
    self.init(mode: mode.isKernel ? .passthrough : .daemon, reason: mode.reason)
  }
}

/// Runs `work`, and cancels and abandons the wait for it after a while.
func withDeadline<Value: Sendable>(
  _ limit: Duration, _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
  try await withThrowingTaskGroup(of: Value.self) { group in
    group.addTask { try await work() }
    group.addTask {
      try await Task.sleep(for: limit)
      throw ControlError(.timedOut, "the backend did not answer within \(limit)")
    }
    defer { group.cancelAll() }
    guard let first = try await group.next() else { throw CancellationError() }
    return first
  }
}
