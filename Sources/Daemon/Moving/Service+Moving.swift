internal import Backend
internal import ControlProtocol
internal import Dispatch
internal import Logging
internal import Model
internal import MountDriver
internal import Platform
internal import RemoteStore

/// Moving the account to another backend: the device whose user asks for it, and the others that follow.
///
/// **Invariant: what a container's sync sent to one backend is never told of in another.** So nothing of a
/// running sync goes on: `account.json` names the new backend first, and says that what was sent before
/// counts no more. Then either another daemon goes on with the mounts, as after a crash, or the account is
/// closed and opened again.
struct Following {
  var task: Task<Void, Never>?
  /// A command moves the account, and uses the new store itself.
  var isHeld = false
}

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
    let given = address.path == nil ? request.environment : [:]
    let stays = address.description == session.stored.backend
    if stays {
      guard session.account.move != nil else {
        throw ControlError(.usage, "the account is at \(address) already")
      }
    }
    let stack =
      stays
      ? session.stack
      : BackendStack(
        address, environment: given, offline: offline, limits: network.limits)
    let abandons = try abandonsMove(session, to: address, given, request.force, connection)
    // This call sees to its own end.
    following.withLock { following in
      following.task?.cancel()
      following = Following(isHeld: true)
    }
    var isDone = false
    defer {
      following.withLock { $0.isHeld = false }
      if !isDone { follow() }
    }
    let done: StoreCopy.Progress = try connection.wait { () async throws in
      if !stays { try await stack.late.make() }
      let last = Lock<UInt64>(0)
      // The end of the command does not end it half done.
      let work = Task {
        try await session.account.moveStore(
          to: stack.store, url: address.description, abandonsOther: abandons
        ) { progress in
          let now = monotonicNanoseconds()
          let isDue = last.withLock { last in
            guard now - last > 100_000_000 else { return false }
            last = now
            return true
          }
          guard isDue else { return }
          connection.notify(
            Notifications.progress,
            Progress(
              done: UInt64(progress.objects), total: UInt64(progress.total), unit: "objects"))
        }
      }
      return try await work.value
    }
    logger.notice("the account is at \(address) now; \(done.copied) objects were copied there")
    if stays {
      try connection.wait { try await session.account.refreshMembers() }
      for container in session.sessions { container.sync.trigger() }
    } else {
      try use(address, given, of: session)
      // The answer goes out first.
      let isOver = DispatchSemaphore(value: 0)
      connection.onEnd { isOver.signal() }
      _ = startThread {
        _ = isOver.wait(timeout: .now() + 2)
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

  /// Whether a move to another store, which did not end, is given up for this one. If that store has all of
  /// the account, devices may use it by now.
  private func abandonsMove(
    _ session: AccountSession, to address: BackendAddress, _ environment: [String: String],
    _ isForced: Bool, _ connection: ClientConnection
  ) throws(ControlError) -> Bool {
    guard let move = session.account.move, move.store != address.description else { return false }
    // A stack of its own: one that finds nothing there takes the store to be away for a while.
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
        .busy, "the account has moved to \(move.store) already; this device uses it from now on")
    }
    guard isThere == false || isForced else {
      throw ControlError(
        .busy,
        "the account moves to \(move.store), which this device cannot reach. If that is another URL of "
          + "the same place, or if the move there is to be given up, add --force")
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

  /// Once is enough where nothing uses the mounts, or another daemon can go on with them.
  private func keepReopening(_ session: AccountSession) async {
    while !Task.isCancelled, account === session {
      await BlockingWork.run { self.reopen(session) }
      guard account === session else { return }
      try? await Task.sleep(for: .seconds(10))
    }
  }

  private func follow(_ session: AccountSession) async {
    var wait = Duration.milliseconds(200)
    while !Task.isCancelled, account === session, let move = session.account.move {
      if !offline.isOffline {
        // A daemon that was started with the new store has yet to read there that the move has ended. Or the
        // move was given up.
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

  /// Durable before it returns. From the next opening of the account on.
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

  /// Opens the account anew, with what `account.json` says. Programs that use mounts see a pause where
  /// another daemon can go on with them. Else the mounts are taken away and made again, unless programs
  /// use them: then the next start of the daemon is waited for.
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
          "the account has moved. This daemon uses the new backend as soon as nothing uses the mounts "
            + "here, or when it is started again: \(error.message)")
      }
      for (id, path, options) in mounts {
        do throws(ControlError) { try account?.session(id)?.mount(at: path, options) } catch {
          logger.error("\(id) cannot be mounted again: \(error.message)")
        }
      }
    }
  }

  /// To be called once, before there are clients.
  package func setSuccessor(_ body: @escaping @Sendable () -> Void) {
    successor.withLock { $0 = body }
  }
}
