import Catalog
import Coordination
import Model

/// A small world of claims, in every state that it can get into: who may do what in it, and what
/// has to hold.
struct ClaimWorld {
  struct Actor {
    let claimant: ClaimantID
    let claims: [[ClaimAccess]]
    /// So many at a time, each but the last held.
    let depth: Int
    let mayCancel: Bool
  }

  var actors: [Actor] = []
  var presenters: [(id: PresenterID, party: PartyID, path: ClaimPath)] = []
  var moves: [(from: ClaimPath, to: ClaimPath)] = []
  /// So many moves at most in one life.
  var moveCount = 0
  var mayDisconnect = false

  struct State {
    var queue = ClaimQueue()
    var next: UInt64 = 1
    var moves = 0
    var gone: Set<PartyID> = []
  }

  enum Action {
    case submit(ClaimantID, [ClaimAccess])
    case release(ClaimID)
    case answer(Question)
    case move(from: ClaimPath, to: ClaimPath)
    case disconnect(PartyID)
  }

  struct Findings {
    var states = 0
    var steps = 0
    var grants = 0
    var refusals = 0
    var problems: [String] = []
  }

  // MARK: Going through

  func explore(limit: Int = 3_000_000) -> Findings {
    var start = State()
    for presenter in presenters {
      start.queue.addPresenter(presenter.id, of: presenter.party, at: presenter.path)
    }
    var findings = Findings()
    var seen: Set<Snapshot> = [snapshot(start)]
    var pending = [start]
    while let state = pending.popLast(), findings.problems.count < 5 {
      findings.states += 1
      findings.problems += problems(in: state)
      for action in actions(in: state) {
        findings.steps += 1
        let next = perform(action, in: state, &findings)
        if seen.insert(snapshot(next)).inserted { pending.append(next) }
      }
      precondition(seen.count < limit, "the world is too large")
    }
    return findings
  }

  func actions(in state: State) -> [Action] {
    var result: [Action] = []
    let queue = state.queue
    for actor in actors where !state.gone.contains(actor.claimant.party) {
      let own = queue.claims.filter { $0.value.claimant == actor.claimant }
      let waits = own.contains { $0.value.state != .held }
      if !waits, own.count < actor.depth {
        result += actor.claims.map { .submit(actor.claimant, $0) }
      }
      // A program that waits for a claim does nothing else; one that nests ends the inner one
      // first.
      if !waits, let last = own.keys.max() { result.append(.release(last)) }
      if waits, actor.mayCancel, let last = own.keys.max() { result.append(.release(last)) }
    }
    result += queue.questions.map { .answer($0) }
    if state.moves < moveCount { result += moves.map { .move(from: $0.from, to: $0.to) } }
    if mayDisconnect, state.gone.isEmpty {
      result += Set(actors.map(\.claimant.party)).map { .disconnect($0) }
    }
    return result
  }

  func perform(_ action: Action, in state: State, _ findings: inout Findings) -> State {
    var after = state
    var effects: [ClaimEffect] = []
    switch action {
    case .submit(let claimant, let accesses):
      let id = ClaimID(after.next)
      after.next += 1
      do throws(ClaimDeadlock) {
        effects = try after.queue.submit(id, by: claimant, accesses)
      } catch {
        findings.refusals += 1
        if after.queue != state.queue { findings.problems.append("a refusal changed something") }
        if !isCircle(claimant, accesses, in: state) {
          findings.problems.append("refused without a circle: \(claimant) \(accesses)")
        }
      }
    case .release(let id): effects = after.queue.release(id)
    case .answer(let question): effects = after.queue.answered(question)
    case .move(let from, let to):
      after.moves += 1
      effects = after.queue.moved(from: from, to: to).effects
    case .disconnect(let party):
      after.gone.insert(party)
      effects = after.queue.release(party)
    }
    for case .granted in effects { findings.grants += 1 }
    for (id, claim) in after.queue.claims where claim.state != .waiting {
      let before = state.queue.claims[id]?.state
      if before == nil || before == .waiting {
        checkTurn(of: id, before: state, after: after, &findings)
      }
    }
    return after
  }

  // MARK: What has to hold

  /// Whoever overtakes holds something, or is asked.
  private func checkTurn(
    of id: ClaimID, before: State, after: State, _ findings: inout Findings
  ) {
    guard let granted = after.queue.claims[id] else { return }
    let mayOvertake =
      [before, after].contains { state in
        state.queue.claims.contains {
          $0.key != id && $0.value.claimant == granted.claimant && $0.value.state == .held
        }
          || state.queue.questions.contains { question in
            presenters.contains {
              $0.id == question.presenter && $0.party == granted.claimant.party
            }
          }
      }
    guard !mayOvertake, moveCount == 0 else { return }
    for (other, claim) in after.queue.claims
    where other < id && claim.state == .waiting && claim.claimant != granted.claimant {
      if excludes(claim.accesses, granted.accesses) {
        findings.problems.append(
          "\(Self.text(id, granted)) had its turn before \(Self.text(other, claim))")
      }
    }
  }

  private func excludes(_ left: [ClaimAccess], _ right: [ClaimAccess]) -> Bool {
    left.contains { one in right.contains { one.excludes($0) } }
  }

  func problems(in state: State) -> [String] {
    var result: [String] = []
    let queue = state.queue
    let claims = queue.claims.sorted { $0.key < $1.key }
    for (index, one) in claims.enumerated() where one.value.state == .held {
      for other in claims[(index + 1)...]
      where other.value.state == .held && other.value.claimant != one.value.claimant
        && excludes(one.value.accesses, other.value.accesses) && state.moves == 0
      {
        result.append("both are held: \(one) and \(other)")
      }
    }
    for (id, claim) in claims {
      switch claim.state {
      case .held: break
      case .waiting:
        if !queue.isBlocked(id) { result.append("nothing keeps it and it waits: \(claim)") }
      case .asking:
        if !queue.questions.contains(where: { $0.claim == id }), !queue.isBlocked(id) {
          result.append("all answered, nothing keeps it, and it is not given: \(claim)")
        }
      }
    }
    // Somebody can always go on: who holds something and waits for nothing, or who is asked.
    let waiting = claims.filter { $0.value.state != .held }
    let canEnd = claims.contains { _, claim in
      claim.state == .held
        && !waiting.contains { $0.value.claimant == claim.claimant }
    }
    if !waiting.isEmpty, !canEnd, queue.questions.isEmpty {
      result.append("all wait for each other: \(claims.map { Self.text($0.key, $0.value) })")
    }
    if claims.isEmpty, !queue.questions.isEmpty { result.append("questions without a claim") }
    for presenter in queue.presenters where claims.isEmpty && presenter.value.claims != 0 {
      result.append("a presenter let go for no claim")
    }
    return result
  }

  static func text(_ id: ClaimID, _ claim: ClaimQueue.Claim) -> String {
    let accesses = claim.accesses.map { access in
      "\(access.mode) \(access.path.places.map(\.name.description).joined(separator: "/"))"
    }
    return "\(id.rawValue) of \(claim.claimant.party.rawValue): \(accesses) \(claim.state)"
  }

  /// A circle, found in another way than the queue's: with the claim in place and all who can go on
  /// having gone on, does it still wait?
  private func isCircle(
    _ claimant: ClaimantID, _ accesses: [ClaimAccess], in state: State
  ) -> Bool {
    // Those who wait, transitively, for who waits can't end.
    var stuck: Set<ClaimantID> = [claimant]
    var isGrowing = true
    while isGrowing {
      isGrowing = false
      for (_, claim) in state.queue.claims
      where claim.state != .held && !stuck.contains(claim.claimant) {
        let isKept = state.queue.claims.contains { _, other in
          other.state == .held && stuck.contains(other.claimant)
            && excludes(other.accesses, claim.accesses)
        }
        // It may be kept by one that waits before it, too.
        let isBehind = state.queue.claims.contains { _, other in
          other.state != .held && stuck.contains(other.claimant)
            && excludes(other.accesses, claim.accesses)
        }
        if isKept || isBehind {
          stuck.insert(claim.claimant)
          isGrowing = true
        }
      }
    }
    return state.queue.claims.contains { _, other in
      other.claimant != claimant && stuck.contains(other.claimant)
        && excludes(other.accesses, accesses)
    }
  }

  // MARK: Equal states

  /// The state with claims numbered by their order alone.
  struct Snapshot: Hashable {
    struct Entry: Hashable {
      let claimant: ClaimantID
      let accesses: [ClaimAccess]
      let state: ClaimQueue.State
      let relinquished: Set<PresenterID>
    }
    struct Asked: Hashable {
      let claim: Int
      let presenter: PresenterID
      let request: PresenterRequest
    }
    let entries: [Entry]
    let asked: Set<Asked>
    let paths: [PresenterID: ClaimPath]
    let moves: Int
    let gone: Set<PartyID>
  }

  private func snapshot(_ state: State) -> Snapshot {
    let ids = state.queue.claims.keys.sorted()
    return Snapshot(
      entries: ids.compactMap { id in
        state.queue.claims[id].map {
          Snapshot.Entry(
            claimant: $0.claimant, accesses: $0.accesses, state: $0.state,
            relinquished: $0.relinquished)
        }
      },
      asked: Set(
        state.queue.questions.compactMap { question in
          ids.firstIndex(of: question.claim).map {
            Snapshot.Asked(claim: $0, presenter: question.presenter, request: question.request)
          }
        }),
      paths: state.queue.presenters.mapValues(\.path), moves: state.moves, gone: state.gone)
  }
}
