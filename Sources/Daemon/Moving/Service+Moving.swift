internal import Backend
internal import ControlProtocol
internal import Dispatch
internal import Logging
internal import Model
internal import MountDriver
internal import Platform
internal import RemoteStore

/// The task that waits for an account's new store and then uses it.
struct Following {
  var task: Task<Void, Never>?
  /// A command moves the account. It starts the task itself, with the access keys that it was
  /// given.
  var isHeld = false
}

/// `account move-backend`, on the device of the user and on the devices that follow.
///
/// **Invariant: no segment in the new store names a pack that only the former store has.** So no
/// sync goes on across a switch. `account.json` first names the new store and marks unannounced
/// uploads as void. Then a successor process takes over the mounts, or this process closes the
/// account and opens it again.
extension DaemonService {
  func moveBackend(
    _ request: MoveBackendRequest, _ connection: ClientConnection
  ) throws(ControlError) -> MoveBackendAnswer {
    let session = try requireAccount()
    guard !offline.isOffline else {
      throw ControlError(.offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
    }
    let address = try BackendAddress(
      request.backend, environment: ProcessEnvironment.all.merging(request.environment) { $1 })
    let given = address.variables.selected(from: request.environment)
    let stays = address.description == session.stored.backend
    if stays {
      guard session.account.move != nil else {
        throw ControlError(.usage, "the account is already at \"\(address)\"")
      }
    }
    let stack =
      stays
      ? session.stack
      : BackendStack(
        address, environment: given, offline: offline, limits: network.limits)
    let abandons = try abandonsMove(session, to: address, given, request.force, connection)
    // The follower would use the new store with the access keys of the former one.
    following.withLock { following in
      following.task?.cancel()
      following = Following(isHeld: true)
    }
    var isDone = false
    defer {
      if !isDone {
        following.withLock { $0.isHeld = false }
        follow()
      }
    }
    let progress = connection.progressReporter(unit: "objects")
    let done: StoreCopy.Progress = try connection.wait { () async throws in
      if !stays { try await stack.late.make() }
      // A task of its own: a client that disconnects does not leave the move half done.
      let work = Task {
        try await session.account.moveStore(
          to: stack.store, url: address.description, abandonsOther: abandons
        ) { progress(UInt64($0.objects), UInt64($0.total)) }
      }
      return try await work.value
    }
    logger.notice("the account moved to \"\(address)\"; copied \(done.copied) objects there")
    if stays {
      try connection.wait { try await session.account.refreshMembers() }
      following.withLock { $0.isHeld = false }
      for container in session.sessions { container.sync.trigger() }
    } else {
      try use(address, given, of: session)
      // The client gets its answer before this process may end.
      let isOver = DispatchSemaphore(value: 0)
      connection.onEnd { isOver.signal() }
      _ = startThread {
        _ = isOver.wait(timeout: .now() + 2)
        self.following.withLock { $0.isHeld = false }
        self.startFollowing { await self.keepReopening(session) }
      }
    }
    isDone = true
    var answer = MoveBackendAnswer(
      backend: address.description, objects: UInt64(done.copied), bytes: done.bytes)
    answer.former = stays ? nil : session.stored.backend
    answer.warning = address.warning
    return answer
  }

  /// Returns whether this call gives up an unfinished move to another store. Throws `busy` if that
  /// store has the whole account, since devices may use it already.
  private func abandonsMove(
    _ session: AccountSession, to address: BackendAddress, _ environment: [String: String],
    _ isForced: Bool, _ connection: ClientConnection
  ) throws(ControlError) -> Bool {
    guard let move = session.account.move, move.store != address.description else { return false }
    // A stack of its own: after a failed look a stack treats its store as unreachable for a while.
    let isHere: Bool? = try? connection.wait { () async throws in
      let stack = BackendStack(
        address, environment: environment, offline: self.offline, limits: self.network.limits)
      return try await session.account.standing(of: stack.store) == .arrived
    }
    if isHere == true { return false }
    let isThere: Bool? = try? connection.wait { () async throws in
      try await withDeadline(.seconds(10)) {
        let stack = try self.stack(of: move, session)
        return try await session.account.standing(of: stack.store) == .arrived
      }
    }
    guard isThere != true else {
      throw ControlError(
        .busy,
        "the account has already moved to \"\(move.store)\"; this device uses that backend from "
          + "now on")
    }
    guard isThere == false || isForced else {
      throw ControlError(
        .busy,
        "the account moves to \"\(move.store)\", which this device cannot reach. Add --force if "
          + "that is another URL of the same place, or to give up the move there")
    }
    return true
  }

  // MARK: The devices that follow

  /// Waits until the account's new store has everything and can be reached, then uses it.
  func follow() {
    guard let session = account else { return }
    startFollowing { await self.follow(session) }
  }

  /// One at a time.
  private func startFollowing(_ work: @escaping @Sendable () async -> Void) {
    following.withLock { following in
      guard following.task == nil, !following.isHeld else { return }
      following.task = Task {
        await work()
        self.following.withLock { if !Task.isCancelled { $0.task = nil } }
      }
    }
  }

  /// Retries while mounts are in use that no successor can take over. Each attempt is logged.
  private func keepReopening(_ session: AccountSession) async {
    var wait = Duration.seconds(5)
    while !Task.isCancelled, account === session {
      await BlockingWork.run { self.reopen(session) }
      guard account === session else { return }
      try? await Task.sleep(for: wait)
      wait = min(wait * 2, .seconds(300))
    }
  }

  private func follow(_ session: AccountSession) async {
    var wait = Duration.milliseconds(200)
    while !Task.isCancelled, account === session, let move = session.account.move {
      if !offline.isOffline {
        // The log may say that the move has ended or was given up. An error means nothing: the
        // former store may be gone.
        try? await session.account.refreshMembers()
        guard session.account.move == move else { continue }
        do {
          let stack = try stack(of: move, session)
          if try await session.account.standing(of: stack.store) == .arrived {
            let address = try BackendAddress(move.store)
            try use(address, session.stored.environment ?? [:], of: session)
            return await keepReopening(session)
          }
          session.noteError(RemoteError.moved(to: move.store).description)
        } catch {
          let text = ControlError(mapping: error).message
          session.noteError("\(RemoteError.moved(to: move.store)): \(text)")
        }
      }
      try? await Task.sleep(for: wait * Double.random(in: 0.8...1.2))
      wait = min(wait * 2, .seconds(30))
    }
    if account === session, session.account.move == nil {
      for container in session.sessions { container.sync.trigger() }
    }
  }

  private func stack(of move: StoreMove, _ session: AccountSession) throws(ControlError)
    -> BackendStack
  {
    let environment = session.stored.environment ?? [:]
    let address = try BackendAddress(
      move.store, environment: ProcessEnvironment.all.merging(environment) { $1 })
    return BackendStack(
      address, environment: environment, offline: offline, limits: network.limits)
  }

  // MARK: Using the new store

  /// Stores durably that the account's next opening uses the new store.
  private func use(
    _ address: BackendAddress, _ environment: [String: String], of session: AccountSession
  ) throws(ControlError) {
    try turn.withLock { _ throws(ControlError) in
      guard account === session, var stored = try store.account() else {
        throw ControlError(.busy, "another account was signed in meanwhile")
      }
      stored.backend = address.description
      stored.environment = environment.isEmpty ? nil : environment
      stored.sentElsewhere = true
      try store.save(stored)
      FaultPoint.reach("move.stored")
    }
  }

  /// Opens the account with the store that `account.json` names. A successor process takes over the
  /// mounts if it can, and programs see a pause. Otherwise mounts that are not in use are unmounted
  /// and mounted again. With a mount in use nothing changes.
  private func reopen(_ session: AccountSession) {
    if session.sessions.contains(where: { $0.mountpoint != nil }) {
      successor.withLock(\.self)?()
    }
    turn.withLock { _ in
      guard account === session else { return }
      var mounts: [(id: ContainerID, path: String, options: MountOptions)] = []
      do throws(ControlError) {
        for container in session.sessions {
          guard let path = container.mountpoint, let options = container.mountOptions else {
            continue
          }
          try container.unmount()
          mounts.append((container.id, path, options))
        }
        session.stop()
        current.withLock { $0 = nil }
        start()
      } catch {
        session.noteError(
          "the account has moved. This daemon uses the new backend when no mount is in use, or "
            + "after a restart: \(error.message)")
      }
      for (id, path, options) in mounts {
        do throws(ControlError) { try account?.session(id)?.mount(at: path, options) } catch {
          logger.error("cannot mount \"\(id)\" again: \(error.message)")
        }
      }
    }
  }

  /// Call it once, before there are clients.
  package func setSuccessor(_ body: @escaping @Sendable () -> Void) {
    successor.withLock { $0 = body }
  }
}
