internal import ControlProtocol
internal import DaemonClient
internal import Foundation
internal import Platform

/// The presenters of this program: which objects the daemon's questions and events are for.
///
/// What comes from the daemon is handled on the connection's thread, which leaves everything to the
/// presenters' queues. Lock: a leaf, before that of an entry.
final class PresenterRegistry: Sendable {
  static let shared = PresenterRegistry()

  /// A notification of a presenter.
  private enum Notice: Sendable {
    case asked(PresenterAsked)
    case told(PresenterTold)
    case reacquire
  }

  private struct State {
    var entries: [ObjectIdentifier: PresenterEntry] = [:]
    var numbers: [UInt64: PresenterEntry] = [:]
    var isListening = false
    /// How many are being made known. The daemon may ask one before it has said which it is.
    var underWay = 0
    var early: [UInt64: [Notice]] = [:]
    var isRetrying = false
  }

  private let state = Lock(State())

  var presenters: [any NSFilePresenter] { entries.compactMap(\.presenter) }

  /// In the order in which they were added.
  private var entries: [PresenterEntry] {
    state.withLock { Array($0.entries.values) }.sorted { $0.order < $1.order }
  }

  /// What the daemon knows the presenter as.
  func number(of presenter: any NSFilePresenter, on connection: DaemonConnection) -> UInt64? {
    entry(of: ObjectIdentifier(presenter))?.number(on: connection)
  }

  private func entry(of key: ObjectIdentifier) -> PresenterEntry? {
    state.withLock { $0.entries[key] }
  }

  // MARK: Adding and removing

  func add(_ presenter: any NSFilePresenter) {
    let entry = PresenterEntry(presenter)
    let (former, isNew, mustListen) = state.withLock { state in
      // One that went away without having been removed may have had the same address.
      let former = state.entries[entry.key]
      guard former?.presenter == nil else { return (nil as PresenterEntry?, false, false) }
      state.entries[entry.key] = entry
      defer { state.isListening = true }
      return (former, true, !state.isListening)
    }
    guard isNew else { return }
    if let former { forget(former) }
    if mustListen { listen() }
    guard entry.locate() != nil else { return }
    if let connection = try? Service.shared.connection() {
      register(entry, on: connection)
      if entry.isKnown(on: connection) { return }
    }
    retry()
  }

  func remove(_ presenter: any NSFilePresenter) {
    if let entry = entry(of: ObjectIdentifier(presenter)) { remove(entry) }
  }

  func remove(_ entry: PresenterEntry) {
    state.withLock { state in
      if state.entries[entry.key] === entry { state.entries[entry.key] = nil }
    }
    forget(entry)
  }

  private func forget(_ entry: PresenterEntry) {
    guard let (connection, number) = entry.remove() else { return }
    state.withLock { _ = $0.numbers.removeValue(forKey: number) }
    connection.call(Methods.RemovePresenter.self, PresenterReference(presenter: number)) { _ in }
  }

  /// Blocks until the daemon has answered.
  private func register(_ entry: PresenterEntry, on connection: DaemonConnection) {
    guard let item = entry.locate(), entry.begin(on: connection) else { return }
    state.withLock { $0.underWay += 1 }
    let gate = Gate()
    connection.call(Methods.AddPresenter.self, PresentRequest(item: item)) { [self] answer in
      switch answer {
      case .success(let made): became(made.presenter, entry, on: connection)
      case .failure:
        entry.failed(on: connection)
        became(nil, entry, on: connection)
      }
      gate.open()
    }
    gate.wait()
  }

  private func became(
    _ number: UInt64?, _ entry: PresenterEntry, on connection: DaemonConnection
  ) {
    let wasKnown = number.flatMap { entry.became($0, on: connection) }
    let (notices, abandoned) = state.withLock { state -> ([Notice], [UInt64: [Notice]]) in
      state.underWay -= 1
      var notices: [Notice] = []
      if let number, wasKnown != nil {
        state.numbers[number] = entry
        notices = state.early.removeValue(forKey: number) ?? []
      }
      guard state.underWay == 0 else { return (notices, [:]) }
      defer { state.early = [:] }
      return (notices, state.early)
    }
    if let number, wasKnown == nil {
      connection.call(Methods.RemovePresenter.self, PresenterReference(presenter: number)) { _ in }
    }
    if wasKnown == true { entry.call { $0.presentedItemDidChange() } }
    for notice in notices { pass(notice, to: entry) }
    for notice in abandoned.values.joined() { refuse(notice) }
  }

  // MARK: Restarts

  private func listen() {
    let service = Service.shared
    service.handle(Notifications.presenterRequest) { [self] _, line in
      guard let asked = try? Message.parameters(PresenterAsked.self, in: line) else { return }
      received(.asked(asked), for: asked.presenter)
    }
    service.handle(Notifications.presenterEvent) { [self] _, line in
      guard let told = try? Message.parameters(PresenterTold.self, in: line) else { return }
      received(.told(told), for: told.presenter)
    }
    service.handle(Notifications.presenterReacquire) { [self] _, line in
      guard let reference = try? Message.parameters(PresenterReference.self, in: line) else {
        return
      }
      received(.reacquire, for: reference.presenter)
    }
    service.onConnect { [self] connection in
      state.withLock { $0.numbers = [:] }
      let entries = entries
      for entry in entries { register(entry, on: connection) }
      if !entries.allSatisfy({ $0.isKnown(on: connection) }) { retry() }
    }
  }

  /// Goes on trying to make known what the daemon did not take: it, or the mount, is not there yet.
  private func retry() {
    let mustStart = state.withLock { state in
      guard !state.isRetrying else { return false }
      state.isRetrying = true
      return true
    }
    guard mustStart else { return }
    Task.detached { [self] in
      while true {
        let left = await BlockingWork.run { self.registerAgain() }
        let isDone = state.withLock { state in
          if left { return false }
          state.isRetrying = false
          return true
        }
        if isDone { return }
        try? await Task.sleep(for: .milliseconds(500))
      }
    }
  }

  /// Gives whether some are left that are in a container.
  private func registerAgain() -> Bool {
    var isLeft = false
    for entry in entries where entry.locate() != nil && !entry.isRemoved {
      guard let connection = Service.shared.existing else {
        isLeft = true
        continue
      }
      register(entry, on: connection)
      if !entry.isKnown(on: connection) { isLeft = true }
    }
    return isLeft
  }

  // MARK: What the daemon says

  private func received(_ notice: Notice, for number: UInt64) {
    let (entry, isEarly) = state.withLock { state in
      let entry = state.numbers[number]
      let isEarly = entry == nil && state.underWay > 0
      if isEarly { state.early[number, default: []].append(notice) }
      return (entry, isEarly)
    }
    if let entry { pass(notice, to: entry) } else if !isEarly { refuse(notice) }
  }

  /// Nobody is to wait for one that is not there.
  private func refuse(_ notice: Notice) {
    guard case .asked(let asked) = notice else { return }
    Service.shared.existing?.call(
      Methods.AnswerPresenter.self, PresenterAnswer(question: asked.question)
    ) { _ in }
  }

  private func pass(_ notice: Notice, to entry: PresenterEntry) {
    switch notice {
    case .asked(let asked): PresenterCalls.ask(asked, entry)
    case .told(let told): PresenterCalls.tell(told, entry)
    case .reacquire: entry.reacquire()
    }
  }

  // MARK: Outside of containers

  /// Tells those of this program that present the item, or what is below it, where nobody else
  /// does.
  func movedOutside(_ old: URL, to new: URL, except presenter: (any NSFilePresenter)?) {
    guard (try? ItemLocator.locateFormer(new.pathBytes)) == nil else { return }
    let from = old.standardizedFileURL.path
    let to = new.standardizedFileURL.path
    for entry in entries {
      guard let presented = entry.presenter, presented !== presenter,
        let path = presented.presentedItemURL?.standardizedFileURL.path
      else { continue }
      if path == from {
        entry.call { $0.presentedItemDidMove(to: new) }
      } else if path.hasPrefix(from + "/") {
        let moved = URL(fileURLWithPath: to + path.dropFirst(from.count))
        entry.call { $0.presentedItemDidMove(to: moved) }
      }
    }
  }
}
