internal import ControlProtocol
internal import Coordination
internal import Platform

/// Which party of the claim table each connection is, from its first claim or presenter on.
final class ConnectionParties: Sendable {
  struct Member: Sendable {
    /// Of the account that was signed in then.
    let table: ClaimTable
    let party: PartyID
    let presenters: ConnectionPresenters
  }

  private let members = Lock<[ObjectIdentifier: Member]>([:])

  func existing(_ connection: ClientConnection, in table: ClaimTable) -> Member? {
    members.withLock { members in
      members[ObjectIdentifier(connection)].flatMap { $0.table === table ? $0 : nil }
    }
  }

  /// Only on the connection's thread. What it claims and presents ends with the connection. `shown` says
  /// where a place is.
  func member(
    of connection: ClientConnection, in table: ClaimTable,
    shown: @escaping @Sendable (ClaimPath) -> PathBytes
  ) -> Member {
    if let member = existing(connection, in: table) { return member }
    let process = connection.peer?.process ?? -1
    let presenters = ConnectionPresenters(connection, shown)
    let party = table.join(
      name: Processes.name(of: process), process: process, listener: presenters)
    let member = Member(table: table, party: party, presenters: presenters)
    let key = ObjectIdentifier(connection)
    members.withLock { $0[key] = member }
    connection.onEnd { [self] in
      members.withLock { _ = $0.removeValue(forKey: key) }
      table.leave(party)
    }
    return member
  }
}

/// The presenters of one connection: what they are asked goes to it as notifications.
///
/// A client that does not read misses them; whoever waits for its answers passes it over in time.
final class ConnectionPresenters: PresenterListening {
  private struct State {
    var last: UInt64 = 0
    var questions: [UInt64: Question] = [:]
    var count = 0
  }

  private weak let connection: ClientConnection?
  private let shown: @Sendable (ClaimPath) -> PathBytes
  /// A leaf.
  private let state = Lock(State())

  init(
    _ connection: ClientConnection, _ shown: @escaping @Sendable (ClaimPath) -> PathBytes
  ) {
    self.connection = connection
    self.shown = shown
  }

  /// Counts one more presenter; false when there are too many already.
  func begin(limit: Int) -> Bool {
    state.withLock { state in
      guard state.count < limit else { return false }
      state.count += 1
      return true
    }
  }

  func end() { state.withLock { $0.count -= 1 } }

  func asked(_ question: Question) {
    let number = state.withLock { state in
      state.last += 1
      state.questions[state.last] = question
      return state.last
    }
    connection?.notify(
      Notifications.presenterRequest,
      PresenterAsked(
        question: number, presenter: question.presenter.rawValue,
        request: "\(question.request)", path: shown(question.path)))
  }

  /// The question of a number, once.
  func take(_ number: UInt64) -> Question? {
    state.withLock { $0.questions.removeValue(forKey: number) }
  }

  func reacquired(_ presenter: PresenterID) {
    connection?.notify(
      Notifications.presenterReacquire, PresenterReference(presenter: presenter.rawValue))
  }

  func passedOver(_ question: Question) {
    let number = forget(question)
    connection?.notify(
      Notifications.presenterPassedOver,
      PresenterAsked(
        question: number ?? 0, presenter: question.presenter.rawValue,
        request: "\(question.request)", path: shown(question.path)))
  }

  func withdrawn(_ question: Question) { _ = forget(question) }

  private func forget(_ question: Question) -> UInt64? {
    state.withLock { state in
      let number = state.questions.first { $0.value == question }?.key
      if let number { state.questions[number] = nil }
      return number
    }
  }
}

extension DaemonService {
  private static let maximumPresenters = 10_000
  /// Characters of what a presenter says.
  private static let maximumReason = 1000

  func present(
    _ request: PresentRequest, _ connection: ClientConnection
  ) throws(ControlError) -> PresenterReference {
    let table = try requireAccount().claims
    let (_, item) = try claimed(request.item)
    let member = parties.member(of: connection, in: table) { self.shown($0) }
    guard member.presenters.begin(limit: Self.maximumPresenters) else {
      throw ControlError(
        .busy, "one connection presents at most \(Self.maximumPresenters) items")
    }
    return PresenterReference(presenter: table.present(item.path, by: member.party).rawValue)
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
    member.presenters.end()
    table.removePresenter(id)
  }

  func answer(_ request: PresenterAnswer, _ connection: ClientConnection) throws(ControlError) {
    guard let table = account?.claims, let member = parties.existing(connection, in: table),
      let question = member.presenters.take(request.question)
    else {
      throw ControlError(
        .notFound, "question \(request.question) is answered, or is waited for no longer")
    }
    if let error = request.error {
      table.refuse(question, because: String(error.prefix(Self.maximumReason)))
    } else {
      table.answer(question)
    }
  }
}
