internal import ControlProtocol
internal import DaemonClient
internal import Foundation
internal import Platform

/// A presenter of this program, and what the daemon knows it as.
final class PresenterEntry: Sendable {
  private enum Relinquishing {
    /// Asked, and not answered.
    case asked
    /// Answered, with what is to run when the other is done.
    case answered((@Sendable () -> Void)?)
    /// The other was done before it answered.
    case over
  }

  private struct State {
    var connection: DaemonConnection?
    var number: UInt64?
    /// It was known to a daemon before.
    var wasKnown = false
    /// Where it was found last.
    var item: ItemReference?
    var isRemoved = false
    /// What is to be called, in order.
    var calls: [@Sendable (any NSFilePresenter) -> Void] = []
    var isCalling = false
    var relinquishing: [UInt64: Relinquishing] = [:]
  }

  nonisolated(unsafe) private weak var weakPresenter: (any NSFilePresenter)?
  let key: ObjectIdentifier
  let order: UInt64
  private static let last = Lock<UInt64>(0)
  private let state = Lock(State())

  init(_ presenter: any NSFilePresenter) {
    weakPresenter = presenter
    key = ObjectIdentifier(presenter)
    order = Self.last.withLock { last in
      last += 1
      return last
    }
  }

  var presenter: (any NSFilePresenter)? { weakPresenter }
  var isRemoved: Bool { state.withLock { $0.isRemoved } }

  // MARK: What the daemon knows

  /// Where the item is, for the daemon: found now, or where it was found last, as after a restart
  /// before the mount is there again. Nil for what is in no container.
  func locate() -> ItemReference? {
    guard let url = presenter?.presentedItemURL else { return nil }
    let found = try? ItemLocator.locateFormer(url.pathBytes)
    return state.withLock { state in
      if let found { state.item = found }
      return state.item
    }
  }

  /// False if it is known there already, or about to be.
  func begin(on connection: DaemonConnection) -> Bool {
    state.withLock { state in
      guard !state.isRemoved, state.connection !== connection else { return false }
      state.connection = connection
      state.number = nil
      return true
    }
  }

  /// Gives whether it was known to an earlier daemon. Nil when it was removed meanwhile.
  func became(_ number: UInt64, on connection: DaemonConnection) -> Bool? {
    state.withLock { state in
      guard !state.isRemoved, state.connection === connection else { return nil }
      defer { state.wasKnown = true }
      state.number = number
      state.relinquishing = [:]
      return state.wasKnown
    }
  }

  func failed(on connection: DaemonConnection) {
    state.withLock { if $0.connection === connection { $0.connection = nil } }
  }

  func number(on connection: DaemonConnection) -> UInt64? {
    state.withLock { $0.connection === connection ? $0.number : nil }
  }

  func isKnown(on connection: DaemonConnection) -> Bool { number(on: connection) != nil }

  /// Gives what the daemon knows it as.
  func remove() -> (DaemonConnection, UInt64)? {
    state.withLock { state in
      state.isRemoved = true
      state.calls = []
      guard let connection = state.connection, let number = state.number else { return nil }
      return (connection, number)
    }
  }

  func answer(_ question: UInt64, _ error: (any Error)? = nil) {
    guard let connection = state.withLock({ $0.connection }) else { return }
    let text = error.map { ($0 as NSError).localizedDescription }
    connection.call(
      Methods.AnswerPresenter.self, PresenterAnswer(question: question, error: text)
    ) { _ in }
  }

  // MARK: Calling

  /// On the presenter's queue, one call after the other, whatever the queue does.
  func call(_ body: @escaping @Sendable (any NSFilePresenter) -> Void) {
    let mustStart = state.withLock { state in
      guard !state.isRemoved else { return false }
      state.calls.append(body)
      defer { state.isCalling = true }
      return !state.isCalling
    }
    if mustStart { schedule() }
  }

  private func schedule() {
    guard let queue = presenter?.presentedItemOperationQueue else {
      // It went away without having been removed.
      return PresenterRegistry.shared.remove(self)
    }
    queue.addOperation { [self] in
      let body = state.withLock { $0.calls.isEmpty ? nil : $0.calls.removeFirst() }
      if let body, let presenter { body(presenter) }
      let goesOn = state.withLock { state in
        state.isCalling = !state.calls.isEmpty
        return state.isCalling
      }
      if goesOn { schedule() }
    }
  }

  // MARK: Letting go

  func relinquish(_ question: UInt64, toWriter: Bool) {
    state.withLock { $0.relinquishing[question] = .asked }
    call { [self] presenter in
      let answer: @Sendable ((@Sendable () -> Void)?) -> Void = { [self] reacquirer in
        relinquished(question, reacquirer)
      }
      if toWriter {
        presenter.relinquishPresentedItem(toWriter: answer)
      } else {
        presenter.relinquishPresentedItem(toReader: answer)
      }
    }
  }

  private func relinquished(_ question: UInt64, _ reacquirer: (@Sendable () -> Void)?) {
    let (isFirst, isOver) = state.withLock { state -> (Bool, Bool) in
      switch state.relinquishing[question] {
      case .asked:
        state.relinquishing[question] = .answered(reacquirer)
        return (true, false)
      case .over:
        state.relinquishing[question] = nil
        return (true, true)
      case .answered, nil: return (false, false)
      }
    }
    guard isFirst else { return }
    answer(question)
    if isOver, let reacquirer { call { _ in reacquirer() } }
  }

  /// All that it let go for is over.
  func reacquire() {
    let reacquirers = state.withLock { state in
      var result: [@Sendable () -> Void] = []
      for (question, relinquishing) in state.relinquishing.sorted(by: { $0.key < $1.key }) {
        switch relinquishing {
        case .asked: state.relinquishing[question] = .over
        case .over: break
        case .answered(let reacquirer):
          state.relinquishing[question] = nil
          if let reacquirer { result.append(reacquirer) }
        }
      }
      return result
    }
    for reacquirer in reacquirers { call { _ in reacquirer() } }
  }
}
