internal import Backend
internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model
internal import SyncEngine

extension DaemonService {
  /// Those of the containers that `items` are in, or of all.
  func sessions(_ items: [ItemReference]) throws(ControlError) -> [ContainerSession] {
    let account = try requireAccount()
    guard !items.isEmpty else { return account.sessions }
    var result: [ContainerSession] = []
    for item in items {
      let session = try mounted(item.mountpoint)
      if !result.contains(where: { $0 === session }) { result.append(session) }
    }
    return result
  }

  /// Without waiting it starts, and throws what is known to stop the containers; with it returns
  /// when they are in step with the backend.
  func sync(_ request: SyncRequest, _ connection: ClientConnection) throws(ControlError) {
    if let timeout = request.timeout, !(0...1e9).contains(timeout) {
      throw ControlError(.usage, "the timeout must be a number of seconds from 0 to 1000000000")
    }
    let account = try requireAccount()
    let sessions = try sessions(request.items)
    guard !offline.isOffline else {
      throw ControlError(
        .offline, "offline mode is on; turn it off with `ubiquityfs offline off`")
    }
    try lookForBackend(account, connection)
    if let decision = request.deletions {
      for session in sessions { try decide(decision, session, connection) }
    }
    let failures = request.items.isEmpty ? account.failures : [:]
    guard request.waits else {
      for session in sessions {
        guard network.isMetered else {
          session.sync.trigger()
          continue
        }
        let sync = session.sync
        Task { await sync.sendNow() }
      }
      try Self.checkForProblems(sessions, failures)
      return
    }
    if let failure = failures.min(by: { $0.key < $1.key }) {
      throw ControlError(.failed, failure.value)
    }
    let timeout = request.timeout.map { Duration.milliseconds(Int64($0 * 1000)) }
    let waited = sessions
    if sessions.contains(where: { $0.sync.waitingForRoom.files > 0 }) {
      // Somebody may have raised it on another device. Without an answer what is known here counts.
      _ = try? connection.wait {
        try await withDeadline(.seconds(3)) { try await account.readQuota() }
      }
    }
    let awaited = awaited(request.items)
    try connection.wait { try await Self.wait(for: waited, awaited, timeout, connection) }
  }

  /// Throws if the store of a container is not sound as far as is known, or if one did not open.
  private static func checkForProblems(
    _ sessions: [ContainerSession], _ failures: [ContainerID: String]
  ) throws(ControlError) {
    var errors: [ControlError] = []
    for session in sessions {
      let condition = session.sync.condition
      guard let problem = condition.problem(of: session.id) else { continue }
      var status = ExitStatus.failed
      if case .deleted = condition { status = .notFound }
      errors.append(ControlError(status, problem))
    }
    for failure in failures.sorted(by: { $0.key < $1.key }) {
      errors.append(ControlError(.failed, failure.value))
    }
    guard let first = errors.first else { return }
    let isOneStatus = errors.allSatisfy { $0.status == first.status }
    throw ControlError(
      isOneStatus ? first.status : .failed, errors.map(\.message).joined(separator: "\n"))
  }

  /// The items to upload first. An item without a name yet has nothing to upload.
  private func awaited(_ items: [ItemReference]) -> [(session: ContainerSession, InodeNumber)] {
    items.compactMap { try? find($0) }.map { ($0.session, $0.inode.number) }
  }

  private func decide(
    _ decision: DeletionsDecision, _ session: ContainerSession, _ connection: ClientConnection
  ) throws(ControlError) {
    let sync = session.sync
    try connection.wait {
      switch decision {
      case .confirm: try await sync.confirmDeletions()
      case .restore: try await sync.restoreDeletions()
      }
    }
  }

  private static func wait(
    for sessions: [ContainerSession], _ awaited: [(session: ContainerSession, InodeNumber)],
    _ timeout: Duration?, _ connection: ClientConnection
  ) async throws {
    let first = sessions.reduce(0) { $0 + $1.pendingUploads }
    let reporter = Task {
      var total = first
      while !Task.isCancelled {
        let left = sessions.reduce(0) { $0 + $1.pendingUploads }
        total = max(total, left)
        connection.notify(
          Notifications.progress,
          Progress(done: UInt64(total - left), total: UInt64(total), unit: "items"))
        try? await Task.sleep(for: .milliseconds(200))
      }
    }
    defer { reporter.cancel() }
    let work: @Sendable () async throws -> Void = {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for session in sessions {
          let numbers = awaited.filter { $0.session === session }.map(\.1)
          group.addTask { try await session.sync.sync(timeout: timeout, awaiting: numbers) }
        }
        try await group.waitForAll()
      }
    }
    guard let timeout else { return try await work() }
    // A cycle that hangs in the backend must not make the command late.
    try await abandoning(
      after: timeout, work,
      text: {
        ContainerSync.lateText(sessions.flatMap { $0.sync.filesWaitingForClose() })
      })
  }

  /// Throws `timedOut` when `work` takes longer, without waiting for it to notice.
  static func abandoning(
    after limit: Duration, _ work: @escaping @Sendable () async throws -> Void,
    text: @escaping @Sendable () -> String = { ContainerSync.lateText([]) }
  ) async throws {
    let (stream, continuation) = AsyncStream.makeStream(of: Result<Void, any Error>.self)
    let task = Task {
      do {
        try await work()
        continuation.yield(.success(()))
      } catch {
        continuation.yield(.failure(error))
      }
    }
    let timer = Task {
      try await Task.sleep(for: limit + .milliseconds(250))
      continuation.yield(
        .failure(
          ControlError(
            .timedOut, "timed out: \(text())")))
    }
    defer {
      timer.cancel()
      task.cancel()
    }
    for await result in stream { return try result.get() }
    throw CancellationError()
  }

  // MARK: Status

  /// Nil for what was removed meanwhile.
  private static func report(_ transfer: Transfer, _ session: ContainerSession) -> TransferReport? {
    guard let path = try? session.catalog.path(of: transfer.number) else { return nil }
    return TransferReport(
      path: PathBytes(bytes(path)),
      direction: transfer.isUpload ? "upload" : "download", bytesDone: transfer.done,
      bytesTotal: transfer.total)
  }

  private static func report(_ file: OpenFileWait, _ session: ContainerSession) -> OpenFileReport? {
    guard let path = try? session.catalog.path(of: file.number) else { return nil }
    return OpenFileReport(
      path: PathBytes(bytes(path)),
      programs: file.programs.map { .init(pid: $0.process, name: $0.name) }, reason: file.reason)
  }

  func status(_ connection: ClientConnection) throws(ControlError) -> StatusReport {
    let session = account
    let sessions = session?.sessions ?? []
    let space = session?.space.report()
    var containers: [ContainerReport] = []
    for container in sessions {
      let sync = container.sync
      let status = try connection.wait { await sync.status() }
      let counts = container.counts
      containers.append(
        ContainerReport(
          id: container.id.description, items: counts?.items ?? 0,
          localBytes: counts?.localBytes ?? 0, totalBytes: counts?.totalBytes ?? 0,
          pendingUploads: status.pendingUploads, pendingDownloads: status.pendingDownloads,
          conflicts: status.conflicts,
          errors: status.errors
            + [space.flatMap { LocalSpace.complaint($0, of: container.id) }].compactMap(\.self),
          store: sync.condition.isNormal ? nil : sync.condition.name,
          transfers: status.transfers.prefix(100).compactMap { Self.report($0, container) },
          openFiles: status.openFiles.compactMap { Self.report($0, container) },
          traffic: session.map {
            TrafficReport($0.stack.metered.traffic(under: "containers/\(container.incarnation)/"))
          }))
    }
    for (id, failure) in session?.failures ?? [:] {
      containers.append(
        ContainerReport(
          id: id.description, items: 0, localBytes: 0, totalBytes: 0, pendingUploads: 0,
          pendingDownloads: 0, conflicts: 0, errors: [failure]))
    }
    return StatusReport(
      daemon: daemonReport, account: accountReport(), offline: offline.isOffline,
      mounts: sessions.compactMap { container in
        container.mountpoint.map { report(container, $0) }
      },
      containers: containers.sorted { $0.id < $1.id },
      traffic: TrafficReport(session?.stack.metered.traffic ?? TrafficCounters()),
      space: space.map(SpaceReport.init), network: networkReport(session))
  }
}
