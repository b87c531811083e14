internal import ControlProtocol
internal import Coordination
internal import Model
internal import Platform

/// Names of devices that came after this one had asked for all names.
final class Newcomers: Sendable {
  /// An answer is waited for this long, in nanoseconds.
  private static let patience: UInt64 = 3_000_000_000

  private let asked = Lock<[Model.DeviceID: UInt64]>([:])

  /// The name; the identifier where it cannot be had; nil while it may come. Never waits.
  func name(of device: Model.DeviceID, in account: AccountSession) -> String? {
    if let name = account.connection.names[device] { return name }
    let now = monotonicNanoseconds()
    let (began, isFirst) = asked.withLock { asked in
      if let began = asked[device] { return (began, false) }
      asked[device] = now
      return (now, true)
    }
    if isFirst { Task { _ = try? await account.devices() } }
    return now - began < Self.patience ? nil : device.description
  }
}

/// Events over the control socket.
extension DaemonService {
  /// Replies at once; events follow until the connection ends. What happens after the reply is
  /// told.
  func subscribe(
    _ request: EventsRequest, _ connection: ClientConnection, _ reply: LaterReply<Subscription>
  ) throws(ControlError) {
    let scope = try request.item.map { item throws(ControlError) in try self.scope(item) }
    let shown = request.item.map(Self.absolute)
    let id = events.subscribe(to: scope ?? .everything) { event in
      switch self.report(event, shown) {
      case .report(let report): connection.notify(Notifications.event, report)
      case .nothing: true
      case .later: false
      }
    }
    connection.onEnd { self.events.unsubscribe(id) }
    reply.give(.success(Subscription(subscription: id)))
    events.start(id)
  }

  private func scope(_ item: ItemReference) throws(ControlError) -> EventScope {
    let session = try mounted(item.mountpoint)
    do {
      return EventScope(
        container: session.id,
        path: try item.path.bytes.split(separator: 0x2F).map { try ItemName(Array($0)) })
    } catch {
      throw ControlError(.notFound, "cannot access \"\(item.shown)\": no such file or directory")
    }
  }

  private static func absolute(_ item: ItemReference) -> PathBytes {
    PathBytes(item.mountpoint.bytes + (item.path.bytes.isEmpty ? [] : [0x2F] + item.path.bytes))
  }

  private enum Reported {
    case report(EventReport)
    /// Nothing shows a container that is not mounted.
    case nothing
    /// The device's name may come any moment.
    case later
  }

  private func report(_ event: ItemEvent, _ shown: PathBytes?) -> Reported {
    guard let account else { return .nothing }
    let time = Instant.text(event.time)
    if event.kind == .overflow {
      return .report(
        EventReport(
          time: time, event: event.kind.rawValue, path: shown ?? PathBytes("/"), oldPath: nil,
          origin: event.origin.rawValue, device: nil))
    }
    guard let mountpoint = account.session(event.container)?.mountpoint else { return .nothing }
    func absolute(_ names: [ItemName]) -> PathBytes {
      PathBytes(names.reduce(into: Array(mountpoint.utf8)) { $0 += [0x2F] + $1.bytes })
    }
    var device: String?
    if let id = event.device {
      device = newcomers.name(of: id, in: account)
      guard device != nil else { return .later }
    }
    return .report(
      EventReport(
        time: time, event: event.kind.rawValue, path: absolute(event.path),
        oldPath: event.oldPath.map(absolute), origin: event.origin.rawValue, device: device))
  }
}
