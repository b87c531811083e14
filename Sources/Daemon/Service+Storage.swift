internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model
internal import SyncEngine
internal import SystemPackage

/// What the account may take, what takes it, and deleting of that.
extension DaemonService {
  func addStorageMethods(_ table: inout MethodTable) {
    table.add(Methods.Quota.self) { request, connection throws(ControlError) in
      try self.quota(request, connection)
    }
    table.add(Methods.ListStorage.self) { _, connection throws(ControlError) in
      try self.listStorage(connection)
    }
    table.add(Methods.ShowStorage.self) { request, connection throws(ControlError) in
      try self.showStorage(request, connection)
    }
    table.add(Methods.DeleteStorage.self) { request, connection throws(ControlError) in
      try self.deleteStorage(request, connection)
    }
  }

  // MARK: The quota

  private func quota(_ request: QuotaRequest, _ connection: ClientConnection) throws(ControlError)
    -> QuotaReport
  {
    let account = try requireAccount()
    if request.isSet {
      guard !offline.isOffline else {
        throw ControlError(
          .offline,
          "offline mode is on; turn it off with `ubiquityfs offline off` to set the quota")
      }
      try connection.wait { try await account.setQuota(request.limit) }
      logger.info("the account's quota was set: \(request.limit.map { "\($0)" } ?? "none")")
    }
    return report(account, isCurrent: ask(account, connection) != nil)
  }

  private func report(_ account: AccountSession, isCurrent: Bool) -> QuotaReport {
    let figures = account.quota.allotment.figures
    return QuotaReport(
      quota: figures.limit, used: figures.used, left: figures.left,
      asOf: account.quota.asOf.map(Instant.text), isCurrent: isCurrent)
  }

  /// Asks the backend what there is. Without an answer what is known here is told: nil then.
  private func ask(_ account: AccountSession, _ connection: ClientConnection) -> [ContainerID]? {
    guard !offline.isOffline else { return nil }
    do throws(ControlError) {
      return try connection.wait {
        try await withDeadline(.seconds(5)) {
          try await account.readQuota()
          return try await account.readUsage()
        }
      }
    } catch {
      logger.warning("reporting the last known usage of the account: \(error.message)")
      return nil
    }
  }

  // MARK: Listing

  private func listStorage(_ connection: ClientConnection) throws(ControlError) -> StorageReport {
    let account = try requireAccount()
    let known = account.quota.figures
    let answer = ask(account, connection)
    let failures = account.failures
    var ids = Set(answer ?? known.keys.compactMap { try? ContainerID($0) })
    ids.formUnion(account.sessions.map(\.id))
    ids.formUnion(failures.keys)
    let figures = account.quota.figures
    var containers: [ListedStorage] = []
    for id in ids.sorted() {
      guard let session = account.session(id) else {
        containers.append(
          ListedStorage(
            id: id.description, totalBytes: figures[id.description], mountpoint: nil,
            error: failures[id]))
        continue
      }
      let listing = try listing(session)
      var listed = ListedStorage(
        id: id.description, totalBytes: listing.totalBytes, mountpoint: session.mountpoint)
      listed.documents = listing.documents.count
      listed.documentBytes = listing.documentBytes
      listed.otherBytes = listing.otherBytes
      listed.conflictBytes = listing.conflictBytes
      listed.removedBytes = listing.removedBytes
      listed.waitingBytes = session.sync.waitingForRoom.bytes
      containers.append(listed)
    }
    return StorageReport(
      quota: report(account, isCurrent: answer != nil), containers: containers)
  }

  private func listing(_ session: ContainerSession) throws(ControlError) -> StorageListing {
    do throws(Errno) { return try StorageListing(session) } catch {
      throw ControlError(.failed, "cannot read \"\(session.id)\": \(error)")
    }
  }

  private func showStorage(_ request: ContainerRequest, _ connection: ClientConnection)
    throws(ControlError) -> ContainerStorage
  {
    let session = try storageSession(request.id, connection)
    return ContainerStorage(session, try listing(session))
  }

  /// A container of the account that is not on this device yet is brought here, its names and no
  /// content: what is in it cannot be told, nor deleted, without.
  func storageSession(_ name: String, _ connection: ClientConnection) throws(ControlError)
    -> ContainerSession
  {
    let id = try containerID(name)
    let account = try requireAccount()
    if let session = account.session(id) { return session }
    if let failure = account.failures[id] { throw ControlError(.failed, failure) }
    guard !offline.isOffline else {
      throw ControlError(
        .offline,
        "the container \"\(id)\" is not on this device, and offline mode is on; turn it off with "
          + "`ubiquityfs offline off`")
    }
    guard let found = try connection.wait({ try await account.account.container(id) }) else {
      throw ControlError(
        .notFound,
        "the account has no container \"\(id)\"; list its containers with `ubiquityfs storage`")
    }
    let session = try turn.withLock { _ throws(ControlError) in
      try checkIsCurrent(account)
      return try account.open(id, incarnation: found.incarnation)
    }
    try connection.wait { try await session.sync.sync(timeout: .seconds(120), needsRoom: false) }
    return session
  }

  // MARK: Deleting

  private func deleteStorage(_ request: StorageDeletionRequest, _ connection: ClientConnection)
    throws(ControlError) -> StorageDeletionReport
  {
    let session = try storageSession(request.container, connection)
    var deletion = StorageDeletion(session)
    for document in request.documents {
      let isHere =
        document.item.flatMap { try? mounted($0.mountpoint) }.map { $0 === session } ?? false
      let path = isHere ? document.item?.path ?? document.path : document.path
      try deletion.add(document: path.bytes, shown: document.path.description)
    }
    if request.allDocuments { try deletion.addDocuments() }
    if request.otherData { try deletion.addOtherData() }
    var held: String?
    if !request.isTrial, !deletion.targets.isEmpty { held = try run(&deletion, connection) }
    return StorageDeletionReport(
      container: session.id.description, documents: deletion.documents, items: deletion.items,
      bytes: deletion.bytes, kept: deletion.kept, isDone: !request.isTrial, held: held)
  }

  /// Returns why the deletion does not leave this device yet; nil when nothing holds it.
  private func run(_ deletion: inout StorageDeletion, _ connection: ClientConnection)
    throws(ControlError) -> String?
  {
    let session = deletion.session
    let claims = session.coordinator.claims
    let claimant = ClaimantID(claims.join(name: "the deletion of storage"))
    defer { claims.leave(claimant.party) }
    let accesses = try deletion.accesses()
    let busy = ControlError(
      .busy,
      "another program uses some of the items, so nothing was deleted; try again later")
    do throws(ControlError) {
      try connection.wait {
        try await withDeadline(.seconds(30)) {
          try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation {
              (continuation: CheckedContinuation<Void, any Error>) in
              claims.claim(accesses, by: claimant) { _, result in
                continuation.resume(with: result.map { _ in }.mapError { _ in busy })
              }
            }
          } onCancel: {
            claims.leave(claimant.party)
          }
        }
      }
    } catch {
      throw error.status == .timedOut ? busy : error
    }
    // The user was asked already: the guard against mass deletions need not ask again. It still
    // does if anything else was removed that it has not judged yet.
    let isOnlyOne = ((try? session.catalog.hasRemovals()) ?? true) == false
    try deletion.run()
    let held = try connection.wait { () -> String? in
      guard isOnlyOne else { return try await session.sync.heldDeletions() }
      try await session.sync.confirmDeletions()
      return nil
    }
    Self.waitForKernel([session])
    logger.notice(
      "deleted \(deletion.items) items of \"\(session.id)\" with \(deletion.bytes) bytes on request"
    )
    return held
  }
}
