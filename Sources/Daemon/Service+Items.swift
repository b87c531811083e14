internal import Backend
internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import FoundationEssentials
internal import Model
internal import Platform
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
      throw ControlError(Self.itemStatus(error), "\(reference.shown): \(error)")
    } catch {
      throw ControlError(.notFound, "\(reference.shown): no item has such a name")
    }
  }

  private func find(_ references: [ItemReference]) throws(ControlError) -> [FoundItem] {
    try references.map { reference throws(ControlError) in try find(reference) }
  }

  private static func itemStatus(_ error: Errno) -> ExitStatus {
    error == .invalidArgument ? .failed : ControlError.status(of: error)
  }

  private func doing<Value>(
    _ item: FoundItem, _ what: String, _ body: () throws(Errno) -> Value
  ) throws(ControlError) -> Value {
    do throws(Errno) { return try body() } catch {
      throw ControlError(Self.itemStatus(error), "\(item.shown) \(what)")
    }
  }

  // MARK: Status

  func itemStatus(_ request: ItemsRequest) throws(ControlError) -> ItemsReport {
    ItemsReport(
      items: try find(request.items).map { item throws(ControlError) in
        let status = try doing(item, "cannot be looked at") { () throws(Errno) in
          try item.session.coordinator.status(of: item.inode.number)
        }
        return Self.report(item, status)
      })
  }

  private static func report(_ item: FoundItem, _ status: ItemStatus) -> ItemReport {
    ItemReport(
      path: item.shown, kind: item.inode.kind.text, size: item.inode.size,
      downloadingStatus: status.downloadingStatus.rawValue, isDownloading: status.isDownloading,
      isUploading: status.isUploading, isUploaded: status.isUploaded,
      hasUnresolvedConflicts: status.hasUnresolvedConflicts,
      isExcludedFromSync: status.isExcludedFromSync, isPinned: status.isPinned,
      isPackage: status.isPackage, nameCollision: status.nameCollision,
      percentDownloaded: status.percentDownloaded,
      percentUploaded: status.percentUploaded, downloadingError: status.downloadingError,
      uploadingError: status.uploadingError,
      version: status.version.isEmpty ? nil : status.version,
      itemIdentifier: status.itemIdentifier, container: status.container)
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
        try item.session.coordinator.evict(item.inode.number, by: asked)
      } catch {
        let reason =
          switch error {
          case .resourceBusy: "is open, claimed, pinned or not uploaded yet, so it is not evicted"
          case .notPermitted: "is never uploaded (.nosync), so it is not evicted"
          case .invalidArgument: "has no content that could be evicted"
          default: "cannot be evicted: \(error)"
          }
        failure = failure ?? ControlError(Self.itemStatus(error), "\(item.shown) \(reason)")
      }
    }
    Self.waitForKernel(found.map(\.session))
    if let failure { throw failure }
  }

  /// Who presents the item lets go of it first. Nil where nobody does. Whoever has a claim on it is not
  /// waited for: then it is in use.
  private func askBeforeEviction(
    _ item: FoundItem, _ connection: ClientConnection
  ) throws(ControlError) -> ClaimantID? {
    let coordinator = item.session.coordinator
    guard let path = (try? coordinator.claimed(item.inode.number))?.path,
      coordinator.claims.isPresented(path)
    else { return nil }
    let access = ClaimAccess(path, .writing(.forEvicting))
    guard !coordinator.claims.isTaken(access) else {
      throw ControlError(.busy, "\(item.shown) is claimed by another program, so it is not evicted")
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
                  _ in ControlError(.busy, "\(item.shown) is in use, so it is not evicted")
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
  private static func waitForKernel(_ sessions: [ContainerSession]) {
    var seen: [ContainerSession] = []
    for session in sessions where !seen.contains(where: { $0 === session }) {
      seen.append(session)
      session.coordinator.waitForKernel()
    }
  }

  func pin(_ request: PinRequest) throws(ControlError) {
    for item in try find(request.items) {
      try doing(item, "cannot be \(request.pinned ? "pinned" : "unpinned")") {
        () throws(Errno) in
        try item.session.coordinator.setPinned(item.inode.number, request.pinned)
      }
    }
  }

  // MARK: Downloading

  func download(_ request: DownloadRequest, _ connection: ClientConnection) throws(ControlError) {
    let found = try find(request.items)
    var wanted: [Download] = []
    for item in found {
      try doing(item, "cannot be looked at") { () throws(Errno) in
        func want(_ inode: Catalog.Inode) {
          guard inode.kind == .file, inode.content == .remote else { return }
          wanted.append(Download(session: item.session, inode: inode))
        }
        want(item.inode)
        guard item.inode.kind == .directory else { return }
        try item.session.coordinator.forEachBelow(item.inode.number, want)
      }
    }
    guard !wanted.isEmpty else { return }
    guard !offline.isOffline else {
      throw ControlError(
        .offline,
        "the content of \(wanted.count == 1 ? "a file" : "\(wanted.count) files") is not on this "
          + "device, and offline mode is on: turn it off with "
          + "`ubiquityfs offline off`")
    }
    guard request.waits else {
      for item in found {
        try doing(item, "cannot be downloaded") { () throws(Errno) in
          try item.session.coordinator.startDownload(item.inode.number)
        }
      }
      return
    }
    let downloads = wanted
    defer { Self.waitForKernel(found.map(\.session)) }
    try connection.wait { try await Self.run(downloads, connection) }
  }

  private struct Download: Sendable {
    let session: ContainerSession
    let inode: Catalog.Inode

    /// Bytes of it that are here.
    var present: UInt64 {
      guard let status = try? session.coordinator.status(of: inode.number) else { return 0 }
      return inode.size * UInt64(min(100, max(0, status.percentDownloaded))) / 100
    }

    func run() async throws {
      try await DaemonService.fetch(inode.number, size: inode.size, in: session)
    }
  }

  /// Brings the whole content of a file. Ends with the task.
  static func fetch(_ number: InodeNumber, size: UInt64, in session: ContainerSession) async throws
  {
    guard let fetcher = session.coordinator.fetcher else { throw FetchFailure.offline }
    let ticket = Lock<(any FetchTicket)?>(nil)
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation {
        (continuation: CheckedContinuation<Void, any Error>) in
        let made = fetcher.fetch(number, range: 0..<size) { result in
          continuation.resume(with: result.mapError { $0 })
        }
        ticket.withLock { $0 = made }
      }
    } onCancel: {
      ticket.withLock { $0 }?.cancel()
    }
  }

  private struct DownloadProgress {
    var done: UInt64 = 0
    var running: [Int: Download] = [:]
  }

  private static let parallelDownloads = 6

  /// Fetches all of them, a few at a time, and tells the client how far it is. The first failure is
  /// thrown when the others are through.
  private static func run(_ downloads: [Download], _ connection: ClientConnection) async throws {
    let total = downloads.reduce(0) { $0 + $1.inode.size }
    let progress = Lock(DownloadProgress())
    let reporter = Task {
      while !Task.isCancelled {
        let now = progress.withLock { $0 }
        let partial = now.running.values.reduce(UInt64(0)) { $0 + $1.present }
        connection.notify(
          Notifications.progress, Progress(done: now.done + partial, total: total, unit: "bytes"))
        try? await Task.sleep(for: .milliseconds(200))
      }
    }
    defer { reporter.cancel() }
    var failure: (any Error)?
    try await withThrowingTaskGroup(of: (any Error)?.self) { group in
      var next = 0
      func add() {
        guard next < downloads.count else { return }
        let index = next
        let download = downloads[index]
        next += 1
        group.addTask {
          progress.withLock { $0.running[index] = download }
          defer {
            progress.withLock {
              $0.running[index] = nil
              $0.done += download.inode.size
            }
          }
          do {
            try await download.run()
            return nil
          } catch {
            let path = Self.path(download)
            let mapped = ControlError(mapping: error)
            return ControlError(mapped.status, "\(path): \(mapped.message)")
          }
        }
      }
      for _ in 0..<parallelDownloads { add() }
      while let ended = try await group.next() {
        if let error = ended { failure = failure ?? error }
        add()
      }
    }
    if let failure { throw failure }
  }

  private static func path(_ download: Download) -> String {
    let names = (try? download.session.catalog.path(of: download.inode.number)) ?? nil
    return names?.map(\.description).joined(separator: "/") ?? "a file that was removed meanwhile"
  }

  // MARK: Versions

  func versions(_ request: ItemRequest, _ connection: ClientConnection) throws(ControlError)
    -> VersionsReport
  {
    let item = try find(request.item)
    let isDocument: Bool
    do {
      isDocument =
        try item.inode.kind == .file || item.session.coordinator.isPackage(item.inode)
        || item.session.catalog.remote(item.inode.item)?.conflicts.isEmpty == false
    } catch {
      throw ControlError(mapping: error)
    }
    guard isDocument else {
      throw ControlError(
        .failed, "\(item.shown) is no document; only files and packages have versions")
    }
    let versions: [FileVersion]
    do throws(VersionFailure) {
      versions = try item.session.sync.versions(of: item.inode.number)
    } catch {
      throw ControlError(mapping: error)
    }
    let names = deviceNames(for: versions.map(\.device), connection)
    return VersionsReport(
      versions: versions.map {
        ListedVersion(
          id: $0.id.description, isCurrent: $0.isCurrent, isConflict: $0.isConflict,
          isResolved: $0.isResolved, device: names[$0.device] ?? $0.device.description,
          modified: Instant.text($0.modified), size: $0.size,
          hasLocalContents: $0.hasLocalContents)
      })
  }

  /// What is known is enough where it names all; else the backend is asked, for a moment.
  func deviceNames(for devices: [Model.DeviceID], _ connection: ClientConnection)
    -> [Model.DeviceID: String]
  {
    guard let account else { return [:] }
    let known = account.connection.names
    guard !offline.isOffline, devices.contains(where: { known[$0] == nil }) else {
      return known
    }
    _ = try? connection.wait {
      try await withDeadline(.seconds(3)) { try await account.devices() }
    }
    return account.connection.names
  }

  private func version(_ text: String) throws(ControlError) -> VersionID {
    if let id = VersionID(hex: text) { return id }
    throw ControlError(
      .notFound, "there is no version \(text); see `ubiquityfs versions list`")
  }

  /// A message's line has at most 1 MiB, and base64 takes a third more.
  private static let pieceSize = 384 << 10

  func readVersion(_ request: VersionRequest, _ connection: ClientConnection) throws(ControlError) {
    let item = try find(request.item)
    let id = try version(request.version)
    let number = item.inode.number
    let sync = item.session.sync
    try connection.wait {
      try await sync.read(id, of: number) { bytes in
        var rest = bytes[...]
        while !rest.isEmpty {
          let piece = rest.prefix(Self.pieceSize)
          rest = rest.dropFirst(piece.count)
          try await connection.post(
            Notifications.data, DataPiece(base64: Data(piece).base64EncodedString()))
        }
      }
    }
  }

  func resolve(_ request: ResolveRequest, _ connection: ClientConnection) throws(ControlError) {
    let item = try find(request.item)
    let keep = try request.keep.map { text throws(ControlError) in try version(text) }
    let number = item.inode.number
    let sync = item.session.sync
    try connection.wait { try await sync.resolve(number, keep: keep) }
  }

  func removeVersions(_ request: RemoveVersionsRequest, _ connection: ClientConnection)
    throws(ControlError)
  {
    guard !request.versions.isEmpty else {
      throw ControlError(.usage, "no version is named; see `ubiquityfs versions list`")
    }
    let item = try find(request.item)
    let gone = try request.versions.map { text throws(ControlError) in try version(text) }
    let number = item.inode.number
    let sync = item.session.sync
    try connection.wait { try await sync.remove(gone, of: number) }
  }

  func markVersions(_ request: MarkVersionsRequest, _ connection: ClientConnection)
    throws(ControlError)
  {
    let item = try find(request.item)
    let marked = try request.versions.map { text throws(ControlError) in try version(text) }
    let isResolved = request.resolved
    let number = item.inode.number
    let sync = item.session.sync
    try connection.wait { try await sync.mark(marked, isResolved: isResolved, of: number) }
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
