internal import ControlProtocol
internal import Coordination
internal import Model
internal import Platform

/// Which party of the claim table each connection is, from its first claim or presenter on.
final class ConnectionParties: Sendable {
  private let snapshots: Snapshots

  init(_ snapshots: Snapshots) { self.snapshots = snapshots }

  struct Member: Sendable {
    /// Of the account that was signed in then.
    let table: ClaimTable
    let party: PartyID
    let presenters: ConnectionPresenters
    let claims: ConnectionClaims
  }

  private let members = Lock<[ObjectIdentifier: Member]>([:])

  func existing(_ connection: ClientConnection, in table: ClaimTable) -> Member? {
    members.withLock { members in
      members[ObjectIdentifier(connection)].flatMap { $0.table === table ? $0 : nil }
    }
  }

  /// Only on the connection's thread. What it claims and presents ends with the connection. `shown`
  /// says where a place is.
  func member(
    of connection: ClientConnection, in table: ClaimTable,
    shown: @escaping @Sendable (ClaimPath) -> PathBytes,
    names: @escaping @Sendable (ClaimPath, [ItemName]) -> PathBytes
  ) -> Member {
    if let member = existing(connection, in: table) { return member }
    let process = connection.peer?.process ?? -1
    let presenters = ConnectionPresenters(connection, table, shown: shown, names: names)
    let party = table.join(
      name: Processes.name(of: process), process: process, listener: presenters)
    let member = Member(
      table: table, party: party, presenters: presenters, claims: ConnectionClaims())
    let key = ObjectIdentifier(connection)
    members.withLock { $0[key] = member }
    connection.setSource(presenters)
    connection.onEnd { [self] in
      members.withLock { _ = $0.removeValue(forKey: key) }
      table.leave(party)
      member.claims.end(snapshots)
    }
    return member
  }
}

extension DaemonService {
  func member(_ connection: ClientConnection, _ table: ClaimTable) -> ConnectionParties.Member {
    parties.member(of: connection, in: table) {
      self.shown($0)
    } names: {
      self.shown($1, inContainerOf: $0)
    }
  }

  private static let maximumPresenters = 10_000
  /// Characters of what a presenter says.
  private static let maximumReason = 1000

  func present(
    _ request: PresentRequest, _ connection: ClientConnection
  ) throws(ControlError) -> PresenterReference {
    let table = try requireAccount().claims
    let (_, item) = try claimed(request.item)
    let member = self.member(connection, table)
    guard member.presenters.begin(limit: Self.maximumPresenters) else {
      throw ControlError(
        .busy, "one connection can present at most \(Self.maximumPresenters) items")
    }
    let presenter = table.present(item.path, by: member.party)
    member.presenters.began(presenter, below: item.below)
    return PresenterReference(presenter: presenter.rawValue)
  }

  func removePresenter(
    _ request: PresenterReference, _ connection: ClientConnection
  ) throws(ControlError) {
    let id = PresenterID(request.presenter)
    guard let table = account?.claims, let member = parties.existing(connection, in: table),
      table.owner(of: id) == member.party
    else {
      throw ControlError(.notFound, "this connection has no presenter \(request.presenter)")
    }
    member.presenters.end(id)
    table.removePresenter(id)
  }

  func answer(_ request: PresenterAnswer, _ connection: ClientConnection) throws(ControlError) {
    guard let table = account?.claims, let member = parties.existing(connection, in: table),
      let question = member.presenters.take(request.question)
    else {
      throw ControlError(
        .notFound,
        "question \(request.question) was already answered, or no longer needs an answer")
    }
    if let error = request.error {
      table.refuse(question, because: String(error.prefix(Self.maximumReason)))
    } else {
      table.answer(question)
    }
  }
}
