internal import ControlProtocol
internal import Coordination
internal import Model
internal import Platform

/// The presenters of one connection: what they are asked and told goes to it as notifications, and
/// with them, in the same order, the answers to its claims.
///
/// Whoever asks or tells leaves it here; the connection's thread makes messages of it as the client
/// reads.
final class ConnectionPresenters: PresenterListening, LineSource {
  private struct State {
    var last: UInt64 = 0
    var questions: [UInt64: Question] = [:]
    var numbers: [Question: UInt64] = [:]
    /// From the package that is presented to the item that was named.
    var below: [PresenterID: [ItemName]] = [:]
    var count = 0
    var mail = PresenterMail()
  }

  private weak let connection: ClientConnection?
  private let table: ClaimTable
  private let shown: @Sendable (ClaimPath) -> PathBytes
  private let names: @Sendable (ClaimPath, [ItemName]) -> PathBytes
  /// A leaf.
  private let state = Lock(State())

  /// `shown` says where a place is, `names` what these names are in the container of a place.
  init(
    _ connection: ClientConnection, _ table: ClaimTable,
    shown: @escaping @Sendable (ClaimPath) -> PathBytes,
    names: @escaping @Sendable (ClaimPath, [ItemName]) -> PathBytes
  ) {
    self.connection = connection
    self.table = table
    self.shown = shown
    self.names = names
  }

  /// Counts one more presenter; false when there are too many already.
  func begin(limit: Int) -> Bool {
    state.withLock { state in
      guard state.count < limit else { return false }
      state.count += 1
      return true
    }
  }

  func began(_ presenter: PresenterID, below: [ItemName]) {
    guard !below.isEmpty else { return }
    state.withLock { $0.below[presenter] = below }
  }

  func end(_ presenter: PresenterID) {
    state.withLock { state in
      state.count -= 1
      state.below[presenter] = nil
      state.mail.forget(presenter)
    }
  }

  // MARK: In

  private func change(_ body: (inout State) -> Void) {
    state.withLock(body)
    connection?.wakeUp()
  }

  func append(_ line: [UInt8]) { change { $0.mail.add(line) } }

  func asked(_ question: Question) {
    change { state in
      state.last += 1
      state.questions[state.last] = question
      state.numbers[question] = state.last
      state.mail.ask(state.last, question)
    }
  }

  /// The question of a number, once.
  func take(_ number: UInt64) -> Question? {
    state.withLock { state in
      let question = state.questions.removeValue(forKey: number)
      if let question { state.numbers[question] = nil }
      state.mail.close(number)
      return question
    }
  }

  func reacquired(_ presenter: PresenterID) { change { $0.mail.reacquire(presenter) } }

  func passedOver(_ question: Question) {
    change { state in
      let number = Self.forget(question, &state)
      state.mail.passOver(number ?? 0, question)
    }
  }

  func withdrawn(_ question: Question) {
    state.withLock { state in
      if let number = Self.forget(question, &state) { state.mail.close(number) }
    }
  }

  func told(_ news: [PresenterNews]) {
    change { state in for news in news { state.mail.add(news) } }
  }

  private static func forget(_ question: Question, _ state: inout State) -> UInt64? {
    let number = state.numbers.removeValue(forKey: question)
    if let number { state.questions[number] = nil }
    return number
  }

  // MARK: Out

  func nextLine() -> [UInt8]? {
    while let message = state.withLock({ $0.mail.next() }) {
      if let line = line(message) { return line }
    }
    return nil
  }

  private func line(_ message: PresenterMail.Message) -> [UInt8]? {
    switch message {
    case .line(let line): return line
    case .asked(let number, let question):
      return notification(Notifications.presenterRequest, asked(number, question))
    case .passedOver(let number, let question):
      return notification(Notifications.presenterPassedOver, asked(number, question))
    case .reacquire(let presenter):
      return notification(
        Notifications.presenterReacquire, PresenterReference(presenter: presenter.rawValue))
    case .news(let news): return told(news).flatMap { event(news.presenter, $0) }
    case .everything(let presenter):
      guard let path = path(of: presenter) else { return nil }
      let events: [PresenterTold.Event] = [
        .didMove, .didChange, .didChangeAttributes, .subitemDidChange,
      ]
      return events.reduce(into: []) { lines, kind in
        lines +=
          event(
            presenter,
            PresenterTold(presenter: presenter.rawValue, event: kind, path: path)) ?? []
      }
    }
  }

  private func notification(_ method: String, _ parameters: some Encodable) -> [UInt8]? {
    try? Message.notification(method: method, parameters)
  }

  private func event(_ presenter: PresenterID, _ told: PresenterTold) -> [UInt8]? {
    notification(Notifications.presenterEvent, told)
  }

  private func asked(_ number: UInt64, _ question: Question) -> PresenterAsked {
    PresenterAsked(
      question: number, presenter: question.presenter.rawValue, request: "\(question.request)",
      path: shown(question.path))
  }

  /// Nil when it presents nothing any more, or that is not mounted.
  private func path(of presenter: PresenterID) -> PathBytes? {
    guard let place = table.path(of: presenter) else { return nil }
    var path = shown(place)
    guard !path.bytes.isEmpty else { return nil }
    for name in state.withLock({ $0.below[presenter] }) ?? [] { path.bytes += [0x2F] + name.bytes }
    return path
  }

  private func told(_ news: PresenterNews) -> PresenterTold? {
    guard let own = table.path(of: news.presenter) else { return nil }
    let event: PresenterTold.Event
    var old: PathBytes?
    var version: VersionID?
    switch news.subject {
    case .item(let kind):
      guard let path = path(of: news.presenter) else { return nil }
      switch kind {
      case .moved: event = .didMove
      case .changed: event = .didChange
      case .changedAttributes: event = .didChangeAttributes
      case .gainedVersion(let id): (event, version) = (.didGainVersion, id)
      case .lostVersion(let id): (event, version) = (.didLoseVersion, id)
      case .resolvedVersion(let id): (event, version) = (.didResolveVersion, id)
      }
      return PresenterTold(
        presenter: news.presenter.rawValue, event: event, path: path,
        version: version?.description)
    case .subitem(let kind, let place):
      switch kind {
      case .appeared: event = .subitemDidAppear
      case .changed: event = .subitemDidChange
      case .moved(let from): (event, old) = (.subitemDidMove, names(own, from))
      case .gainedVersion(let id): (event, version) = (.subitemDidGainVersion, id)
      case .lostVersion(let id): (event, version) = (.subitemDidLoseVersion, id)
      case .resolvedVersion(let id): (event, version) = (.subitemDidResolveVersion, id)
      }
      let path = shown(ClaimPath(own.places.prefix(1) + [place]))
      // Its directory has gone meanwhile, of which is told too.
      guard !path.bytes.isEmpty else { return nil }
      return PresenterTold(
        presenter: news.presenter.rawValue, event: event, path: path, oldPath: old,
        version: version?.description)
    }
  }
}
