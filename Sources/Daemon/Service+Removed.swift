internal import ControlProtocol
internal import Model
internal import SyncEngine

/// Recently deleted, for clients.
extension DaemonService {
  private struct Found {
    let session: ContainerSession
    let place: RemovedPlace
  }

  private func found(in sessions: [ContainerSession]) throws(ControlError) -> [Found] {
    var result: [Found] = []
    for session in sessions {
      do throws(RestoreFailure) {
        for place in try session.sync.removedItems() {
          result.append(Found(session: session, place: place))
        }
      } catch {
        throw ControlError(mapping: error)
      }
    }
    return result.sorted { $0.place.item.removed > $1.place.item.removed }
  }

  private func report(_ found: [Found], _ connection: ClientConnection) -> RemovedReport {
    let names = deviceNames(for: found.map(\.place.item.device), connection)
    return RemovedReport(
      items: found.map { found in
        let item = found.place.item
        let base: [UInt8] = found.session.mountpoint.map { Array("\($0)/".utf8) } ?? []
        return ListedRemoved(
          id: item.record.id.description, container: found.session.id.description,
          path: PathBytes(base + Self.bytes(found.place.path)), kind: item.record.kind.text,
          size: item.record.contents.first?.size ?? UInt64(item.record.target.count),
          removed: Instant.text(item.removed), expires: Instant.text(found.place.expires),
          device: names[item.device] ?? item.device.description)
      })
  }

  static func bytes(_ path: [ItemName]) -> [UInt8] {
    Array(path.map(\.bytes).joined(separator: [0x2F]))
  }

  func removed(_ request: ItemsRequest, _ connection: ClientConnection) throws(ControlError)
    -> RemovedReport
  {
    report(try found(in: try sessions(request.items)), connection)
  }

  /// Gives what was brought back, as it was listed.
  func restore(_ request: RestoreRequest, _ connection: ClientConnection) throws(ControlError)
    -> RemovedReport
  {
    let all = try found(in: try sessions([]))
    var chosen: [Found] = []
    for identifier in request.identifiers {
      guard let one = all.first(where: { $0.place.item.record.id.description == identifier }) else {
        throw ControlError(
          .notFound, "nothing that was removed is \(identifier); see `ubiquityfs trash list`")
      }
      chosen.append(one)
    }
    for item in request.items {
      let session = try mounted(item.mountpoint)
      let one = all.first {
        $0.session === session && Self.bytes($0.place.path) == item.path.bytes
      }
      guard let one else {
        throw ControlError(
          .notFound, "\(item.shown): nothing was removed there; see `ubiquityfs trash list`")
      }
      chosen.append(one)
    }
    var wanted: [(session: ContainerSession, items: [ItemID])] = []
    for one in chosen {
      let id = one.place.item.record.id
      if let index = wanted.firstIndex(where: { $0.session === one.session }) {
        wanted[index].items.append(id)
      } else {
        wanted.append((one.session, [id]))
      }
    }
    let work = wanted
    try connection.wait {
      for (session, items) in work { try await session.sync.restore(items) }
    }
    return report(chosen, connection)
  }

  func forgetRemoved(_ request: ItemsRequest, _ connection: ClientConnection) throws(ControlError) {
    let sessions = try sessions(request.items)
    try connection.wait {
      for session in sessions { try await session.sync.forget(nil) }
    }
  }
}
