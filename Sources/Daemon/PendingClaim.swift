internal import ControlProtocol
internal import Coordination
internal import Platform

/// A claim that a client waits for: whoever is first ends the waiting.
final class PendingClaim: Sendable {
  private enum Stage {
    case waiting
    /// It is held, and what the client is to find is being brought.
    case given
    case over
  }

  private struct State {
    var stage = Stage.waiting
    var id: ClaimID?
    var timer: Task<Void, Never>?
    var work: Task<Void, Never>?
    var whenOver: (@Sendable () -> Void)?
  }

  private let reply: LaterReply<GivenClaim>
  private let table: ClaimTable
  /// Seconds.
  private let limit: Double?
  private let state = Lock(State())

  init(reply: LaterReply<GivenClaim>, limit: Double?, table: ClaimTable) {
    self.reply = reply
    self.limit = limit
    self.table = table
  }

  /// Before the claim is asked for.
  func onEnd(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.whenOver = action } }

  /// What brings the content, of a claim that is held.
  var work: Task<Void, Never>? {
    get { state.withLock { $0.work } }
    set {
      let isOver = state.withLock { state in
        state.work = newValue
        return state.stage == .over
      }
      if isOver { newValue?.cancel() }
    }
  }

  /// The claim is in the queue, or through it already.
  func began(_ id: ClaimID) {
    let isWaiting = state.withLock { state in
      state.id = id
      return state.stage == .waiting
    }
    guard isWaiting, let limit else { return }
    guard limit > 0 else {
      // Presenters answer soon, or are passed over.
      if table.isWaiting(id) {
        giveUp(.waiting, ControlError(.busy, "another program has a claim on the item"))
      }
      return
    }
    let timer = Task.detached { [self] in
      try? await Task.sleep(for: .seconds(limit))
      guard !Task.isCancelled else { return }
      giveUp(.waiting, ControlError(.timedOut, "the claim was not granted within \(limit) s"))
    }
    state.withLock { state in
      if state.stage == .waiting { state.timer = timer } else { timer.cancel() }
    }
  }

  /// The client does not want it any more.
  func cancel() { giveUp(nil, ControlError(.failed, "the claim was cancelled")) }

  /// Ends it in that stage, or in any before the end.
  private func giveUp(_ stage: Stage?, _ error: ControlError) {
    guard over(from: stage) else { return }
    reply.give(.failure(error))
    if let id = state.withLock({ $0.id }) { table.release(id) }
  }

  /// What the table says of the claim.
  func ended(
    _ id: ClaimID, _ result: Result<[ClaimPath], ClaimFailure>, given: ([ClaimPath]) -> Void
  ) {
    switch result {
    case .success(let paths):
      let isWanted = state.withLock { state in
        guard state.stage == .waiting else { return false }
        state.stage = .given
        state.id = id
        state.timer?.cancel()
        return true
      }
      if isWanted { given(paths) }
    case .failure(.refused(let name, let reason)):
      give(
        .failure(
          ControlError(.failed, "\(name) has the item and could not release it: \(reason)")))
    case .failure(.cancelled): give(.failure(ControlError(.failed, "the claim was cancelled")))
    case .failure(.deadlock(let names)):
      give(
        .failure(
          ControlError(
            .busy,
            "the claim would cause a deadlock: "
              + names.indices.map { "\(names[$0]) waits for \(names[($0 + 1) % names.count])" }
              .joined(separator: ", "))))
    }
  }

  /// False: it was given up before.
  @discardableResult
  func give(_ result: Result<GivenClaim, ControlError>) -> Bool {
    guard over(from: nil) else { return false }
    reply.give(result)
    return true
  }

  private func over(from stage: Stage?) -> Bool {
    let ended = state.withLock { state -> (@Sendable () -> Void)?? in
      guard state.stage != .over, stage == nil || state.stage == stage else { return nil }
      state.stage = .over
      state.timer?.cancel()
      state.work?.cancel()
      defer { state.whenOver = nil }
      return .some(state.whenOver)
    }
    guard let ended else { return false }
    ended?()
    return true
  }
}

/// The claims of one connection that the table does not know enough of: those that wait, by their
/// tickets, and the copies that were taken for some.
final class ConnectionClaims: Sendable {
  private struct State {
    var tickets: [UInt64: PendingClaim] = [:]
    var copies: [ClaimID: [String]] = [:]
    var isOver = false
  }

  /// A leaf.
  private let state = Lock(State())

  /// False when another waits with the ticket.
  func begin(_ ticket: UInt64, _ claim: PendingClaim) -> Bool {
    let isNew = state.withLock { state in
      guard state.tickets[ticket] == nil else { return false }
      state.tickets[ticket] = claim
      return true
    }
    if isNew { claim.onEnd { [weak self] in self?.forget(ticket) } }
    return isNew
  }

  private func forget(_ ticket: UInt64) { state.withLock { $0.tickets[ticket] = nil } }

  func pending(_ ticket: UInt64) -> PendingClaim? { state.withLock { $0.tickets[ticket] } }

  /// The copy goes with the claim or the connection, whichever is first.
  func keep(_ copy: String, for claim: ClaimID, _ snapshots: Snapshots) {
    let isOver = state.withLock { state in
      if !state.isOver { state.copies[claim, default: []].append(copy) }
      return state.isOver
    }
    if isOver { snapshots.remove(copy) }
  }

  /// Removes the claim's copies; false when it has none.
  @discardableResult
  func end(_ claim: ClaimID, _ snapshots: Snapshots) -> Bool {
    guard let copies = state.withLock({ $0.copies.removeValue(forKey: claim) }) else {
      return false
    }
    for copy in copies { snapshots.remove(copy) }
    return true
  }

  func end(_ snapshots: Snapshots) {
    let copies = state.withLock { state in
      state.isOver = true
      defer { state.copies = [:] }
      return state.copies.values.flatMap(\.self)
    }
    for copy in copies { snapshots.remove(copy) }
  }
}
