internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model
internal import SyncEngine
internal import SystemPackage

/// An item of a mount that a client named.
struct FoundItem: Sendable {
  let session: ContainerSession
  let inode: Catalog.Inode
  let shown: PathBytes
}

extension DaemonService {
  func find(_ reference: ItemReference) throws(ControlError) -> FoundItem {
    let session = try mounted(reference.mountpoint)
    var number = InodeNumber.root
    do {
      for component in reference.path.bytes.split(separator: 0x2F) {
        guard let next = try session.catalog.lookup(try ItemName(Array(component)), in: number)
        else { throw Errno.noSuchFileOrDirectory }
        number = next.number
      }
      return FoundItem(
        session: session, inode: try session.catalog.inode(number), shown: reference.shown)
    } catch let error as Errno {
      throw ControlError(
        Self.itemStatus(error), "cannot access \"\(reference.shown)\": \(error)")
    } catch {
      throw ControlError(
        .notFound, "cannot access \"\(reference.shown)\": no such file or directory")
    }
  }

  func find(_ references: [ItemReference]) throws(ControlError) -> [FoundItem] {
    try references.map { reference throws(ControlError) in try find(reference) }
  }

  static func itemStatus(_ error: Errno) -> ExitStatus {
    error == .invalidArgument ? .failed : ControlError.status(of: error)
  }

  func doing<Value>(
    _ item: FoundItem, _ what: String, _ body: () throws(Errno) -> Value
  ) throws(ControlError) -> Value {
    do throws(Errno) { return try body() } catch {
      throw ControlError(Self.itemStatus(error), "\"\(item.shown)\" \(what)")
    }
  }

  // MARK: Status

  func itemStatus(_ request: ItemsRequest) throws(ControlError) -> ItemsReport {
    ItemsReport(
      items: try find(request.items).map { item throws(ControlError) in
        let status = try doing(item, "cannot be read") { () throws(Errno) in
          try item.session.coordinator.status(of: item.inode.number)
        }
        return ItemReport(
          path: item.shown, kind: item.inode.kind.text, size: item.inode.size, status: status)
      })
  }

  // MARK: Evicting, pinning

  /// Evicts as many as can be; the first that cannot is the error.
  func evict(_ request: ItemsRequest, _ connection: ClientConnection) throws(ControlError) {
    let found = try find(request.items)
    var failure: ControlError?
    for item in found {
      let asked = try askBeforeEviction(item, connection)
      defer { if let asked { item.session.coordinator.claims.leave(asked.party) } }
      do throws(Errno) {
        try evict(item, by: asked, connection)
      } catch {
        let reason =
          switch error {
          case .resourceBusy where item.session.sync.condition != .normal:
            "was not evicted: it may be the only copy, since the backend differs from the state "
              + "that this device knows; see `ubiquityfs status`"
          case .networkDown:
            "was not evicted: the backend did not confirm that it still has the content"
          case .resourceBusy:
            "was not evicted: it is open, claimed, pinned or not uploaded yet"
          case .notPermitted: "was not evicted: it is never uploaded (.nosync)"
          case .invalidArgument: "was not evicted: it has no content to evict"
          default: "was not evicted: \(error)"
          }
        failure = failure ?? ControlError(Self.itemStatus(error), "\"\(item.shown)\" \(reason)")
      }
    }
    Self.waitForKernel(found.map(\.session))
    if let failure { throw failure }
  }

  /// Asks the store before each part whether it still holds the segment that this device read last.
  private func evict(
    _ item: FoundItem, by claimant: ClaimantID?, _ connection: ClientConnection
  ) throws(Errno) {
    let coordinator = item.session.coordinator
    var eviction = Eviction(item.inode.number, of: coordinator, by: claimant)
    let since = eviction.since
    try eviction.finish { () throws(Errno) in
      do throws(ControlError) {
        return try connection.wait { await coordinator.storeRefusal(since: since) }
      } catch {
        throw .interrupted
      }
    }
  }

  /// Who presents the item lets go of it first. Nil where nobody does. Whoever has a claim on it is
  /// not waited for: then it is in use.
  private func askBeforeEviction(
    _ item: FoundItem, _ connection: ClientConnection
  ) throws(ControlError) -> ClaimantID? {
    let coordinator = item.session.coordinator
    guard let path = (try? coordinator.claimed(item.inode.number))?.path,
      coordinator.claims.isPresented(path)
    else { return nil }
    let access = ClaimAccess(path, .writing(.forEvicting))
    guard !coordinator.claims.isTaken(access) else {
      throw ControlError(
        .busy, "\"\(item.shown)\" was not evicted: another program has a claim on it")
    }
    let claims = coordinator.claims
    let claimant = ClaimantID(claims.join(name: "an eviction"))
    do throws(ControlError) {
      try connection.wait {
        try await withTaskCancellationHandler {
          try await withCheckedThrowingContinuation {
            (continuation: CheckedContinuation<Void, any Error>) in
            claims.claim([access], by: claimant) { _, result in
              continuation.resume(
                with: result.map { _ in }.mapError {
                  _ in ControlError(.busy, "\"\(item.shown)\" was not evicted: it is in use")
                })
            }
          }
        } onCancel: {
          claims.leave(claimant.party)
        }
      }
    } catch {
      coordinator.claims.leave(claimant.party)
      throw error
    }
    return claimant
  }

  /// Returns when programs see through the mounts what was done, as far as that does not take long.
  static func waitForKernel(_ sessions: [ContainerSession]) {
    var seen: [ContainerSession] = []
    for session in sessions where !seen.contains(where: { $0 === session }) {
      seen.append(session)
      session.coordinator.waitForKernel()
    }
  }

  func pin(_ request: PinRequest, _ connection: ClientConnection) throws(ControlError) {
    let requester = requester(connection)
    for item in try find(request.items) {
      try doing(item, "cannot be \(request.pinned ? "pinned" : "unpinned")") {
        () throws(Errno) in
        try item.session.coordinator.setPinned(
          item.inode.number, request.pinned, by: requester)
      }
    }
  }
}

extension ItemKind {
  /// As `status --json` calls it.
  var text: String {
    switch self {
    case .file: "file"
    case .directory: "directory"
    case .symbolicLink: "symbolicLink"
    case .fifo: "fifo"
    case .socket: "socket"
    case .characterDevice: "characterDevice"
    case .blockDevice: "blockDevice"
    }
  }
}
