internal import ControlProtocol
internal import Model
internal import SyncEngine

/// Recently deleted, for clients. There may be very many items: for a list their records are read
/// one by one, and sent in pages.
extension DaemonService {
  private struct Found {
    let session: ContainerSession
    let place: RemovedPlace
  }

  func removed(_ request: ItemsRequest, _ connection: ClientConnection) throws(ControlError)
    -> RemovedReport
  {
    var keys: [(session: ContainerSession, key: RemovedKey)] = []
    let sessions = try sessions(request.items)
    for session in sessions {
      keys += try Self.mapped { () throws(RestoreFailure) in try session.sync.removedKeys() }
        .map { (session, $0) }
    }
    // Those of one container are in order.
    if sessions.count > 1 { keys.sort { $0.key.removed > $1.key.removed } }
    let names = deviceNames(for: Array(Set(keys.map(\.key.device))), connection)
    var pages = RemovedPages()
    for (session, key) in keys {
      let place = try Self.mapped { () throws(RestoreFailure) in
        try session.sync.removedPlace(of: key.item)
      }
      // Otherwise it was brought back meanwhile.
      guard let place else { continue }
      try send(Found(session: session, place: place), names, &pages, connection)
    }
    return pages.last
  }

  /// Gives the restored items as the list had them.
  func restore(_ request: RestoreRequest, _ connection: ClientConnection) throws(ControlError)
    -> RemovedReport
  {
    let chosen = try named(request.identifiers) + located(request.items)
    var work: [(session: ContainerSession, items: [ItemID])] = []
    for one in chosen {
      let id = one.place.item.record.id
      if let index = work.firstIndex(where: { $0.session === one.session }) {
        work[index].items.append(id)
      } else {
        work.append((one.session, [id]))
      }
    }
    let wanted = work
    try connection.wait {
      for (session, items) in wanted { try await session.sync.restore(items) }
    }
    let names = deviceNames(
      for: Array(Set(chosen.map(\.place.item.device))), connection)
    var pages = RemovedPages()
    for one in chosen { try send(one, names, &pages, connection) }
    return pages.last
  }

  func forgetRemoved(_ request: ItemsRequest, _ connection: ClientConnection) throws(ControlError) {
    let sessions = try sessions(request.items)
    try connection.wait {
      for session in sessions { try await session.sync.forget(nil) }
    }
  }

  // MARK: Finding

  private func named(_ identifiers: [String]) throws(ControlError) -> [Found] {
    let sessions = try sessions([])
    var result: [Found] = []
    for identifier in identifiers {
      var found: Found?
      if let id = ItemID(hex: identifier) {
        for session in sessions where found == nil {
          found = try Self.mapped { () throws(RestoreFailure) in
            try session.sync.removedPlace(of: id)
          }.map { Found(session: session, place: $0) }
        }
      }
      guard let found else {
        throw ControlError(
          .notFound, "the trash has no item \"\(identifier)\"; see `ubiquityfs trash list`")
      }
      result.append(found)
    }
    return result
  }

  /// Of several that were at one place the one that was removed last.
  private func located(_ items: [ItemReference]) throws(ControlError) -> [Found] {
    var result: [Found] = []
    var known: [ObjectIdentifier: [[UInt8]: RemovedPlace]] = [:]
    for item in items {
      let session = try mounted(item.mountpoint)
      let identity = ObjectIdentifier(session)
      if known[identity] == nil {
        let paths = items.filter { $0.mountpoint == item.mountpoint }.map(\.path.bytes)
        known[identity] = try Self.places(at: Set(paths), in: session)
      }
      guard let place = known[identity]?[item.path.bytes] else {
        throw ControlError(
          .notFound, "the trash has no item \"\(item.shown)\"; see `ubiquityfs trash list`")
      }
      result.append(Found(session: session, place: place))
    }
    return result
  }

  private static func places(
    at paths: Set<[UInt8]>, in session: ContainerSession
  ) throws(ControlError) -> [[UInt8]: RemovedPlace] {
    let names = Set(paths.compactMap { $0.split(separator: 0x2F).last.map(Array.init) })
    var result: [[UInt8]: RemovedPlace] = [:]
    try mapped { () throws(RestoreFailure) in
      for key in try session.sync.removedKeys() where result.count < paths.count {
        let place = try session.sync.removedPlace(of: key.item) { record in
          record.links.first.map { names.contains($0.name.bytes) } ?? false
        }
        guard let place else { continue }
        let path = bytes(place.path)
        if paths.contains(path), result[path] == nil { result[path] = place }
      }
    }
    return result
  }

  // MARK: Telling

  /// Sends a page when there is no room for the item in it.
  private func send(
    _ found: Found, _ names: [Model.DeviceID: String], _ pages: inout RemovedPages,
    _ connection: ClientConnection
  ) throws(ControlError) {
    let item = found.place.item
    let base: [UInt8] = found.session.mountpoint.map { Array("\($0)/".utf8) } ?? []
    let listed = ListedRemoved(
      id: item.record.id.description, container: found.session.id.description,
      path: RemovedPages.shown(base + Self.bytes(found.place.path)), kind: item.record.kind.text,
      size: item.record.contents.first?.size ?? UInt64(item.record.target.count),
      removed: Instant.text(item.removed), expires: Instant.text(found.place.expires),
      device: names[item.device] ?? item.device.description)
    guard let full = pages.add(listed) else { return }
    do {
      connection.send(try Message.notification(method: Notifications.trashItems, full))
    } catch {
      throw ControlError(.failed, "cannot list the removed items: \(error)")
    }
    guard !connection.isClosed else {
      throw ControlError(.failed, "the client closed the connection before the end of the list")
    }
  }

  static func bytes(_ path: [ItemName]) -> [UInt8] {
    Array(path.map(\.bytes).joined(separator: [0x2F]))
  }

  private static func mapped<Value>(
    _ body: () throws(RestoreFailure) -> Value
  ) throws(ControlError) -> Value {
    do throws(RestoreFailure) { return try body() } catch { throw ControlError(mapping: error) }
  }
}
