internal import ControlProtocol
internal import Coordination
internal import FoundationEssentials
internal import Model
internal import SyncEngine

/// Conflict versions of items.
extension DaemonService {
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
        .failed, "\"\(item.shown)\" is not a document; only files and packages have versions")
    }
    let versions: [FileVersion]
    do throws(VersionFailure) {
      versions = try item.session.sync.versions(of: item.inode.number)
    } catch {
      throw ControlError(mapping: error)
    }
    if request.isShown == true {
      shownVersions.note(versions, of: item.inode.item, in: item.session.id)
    }
    let names = deviceNames(for: versions.map(\.device), connection)
    return VersionsReport(
      versions: versions.map {
        ListedVersion(
          id: $0.id.description, isCurrent: $0.isCurrent, isConflict: $0.isConflict,
          isResolved: $0.isResolved, device: names[$0.device] ?? $0.device.description,
          deviceIdentifier: $0.device.description, modified: Instant.text($0.modified),
          size: $0.size, hasLocalContents: $0.hasLocalContents)
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
      .notFound, "there is no version \"\(text)\"; see `ubiquityfs versions list`")
  }

  /// A message's line has at most 1 MiB, and base64 takes a third more.
  private static let pieceSize = 384 << 10

  private func versions(_ texts: [String]) throws(ControlError) -> [VersionID] {
    try texts.map { text throws(ControlError) in try version(text) }
  }

  func readVersion(_ request: VersionRequest, _ connection: ClientConnection) throws(ControlError) {
    let item = try find(request.item)
    let id = try version(request.version)
    let number = item.inode.number
    let sync = item.session.sync
    let cause = DownloadCause(.command, by: requester(connection))
    try connection.wait {
      try await sync.read(id, of: number, cause: cause) { bytes in
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
    var shown = shownVersions.last(of: item.inode.item, in: item.session.id)
    if let current = request.current {
      // It is named because it was looked at: the list that was shown before says no more.
      shown = ShownVersions(current: try version(current))
    } else if shown == nil {
      shown = try versionsNow(of: item, keeping: keep)
    }
    let known = shown
    try connection.wait { try await sync.resolve(number, keep: keep, shown: known) }
    shownVersions.forget(item.inode.item, in: item.session.id)
  }

  /// The versions that there are now, for a caller to whom no list was shown since the start.
  /// Throws if the current one would be replaced: perhaps nobody has seen it.
  private func versionsNow(of item: FoundItem, keeping keep: [VersionID]) throws(ControlError)
    -> ShownVersions
  {
    let versions: [FileVersion]
    do throws(VersionFailure) {
      versions = try item.session.sync.versions(of: item.inode.number)
    } catch {
      throw ControlError(mapping: error)
    }
    let current = versions.first(where: \.isCurrent)?.id
    if let current, !keep.contains(current) {
      throw ControlError(
        .busy,
        "the request does not keep the current version \(current), and the versions were not "
          + "listed since the daemon started; run `ubiquityfs versions list \(item.shown)` first, "
          + "or add `--current \(current)` if that version may be dropped")
    }
    return ShownVersions(current: current, all: Set(versions.map(\.id)))
  }

  func removeVersions(_ request: RemoveVersionsRequest, _ connection: ClientConnection)
    throws(ControlError)
  {
    guard !request.versions.isEmpty else {
      throw ControlError(.usage, "name a version; see `ubiquityfs versions list`")
    }
    let item = try find(request.item)
    let gone = try versions(request.versions)
    let number = item.inode.number
    let sync = item.session.sync
    try connection.wait { try await sync.remove(gone, of: number) }
  }

  func markVersions(_ request: MarkVersionsRequest, _ connection: ClientConnection)
    throws(ControlError)
  {
    let item = try find(request.item)
    let marked = try versions(request.versions)
    let isResolved = request.resolved
    let number = item.inode.number
    let sync = item.session.sync
    try connection.wait { try await sync.mark(marked, isResolved: isResolved, of: number) }
  }
}
