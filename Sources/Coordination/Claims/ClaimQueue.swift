/// Who may touch what, and who waits: the rules of coordination and nothing else. No clock, no threads, no
/// I/O; what is to be done comes back as `ClaimEffect`s. `Tests/CoordinationTests` goes through every state
/// of small worlds of it.
///
/// Invariants, after every call:
/// - Exclusion: of two claims that are held and exclude each other, both are of one claimant.
/// - No lost wake-up: whatever waits is kept waiting by a claim that is held or was asked for earlier, or
///   by a question that is out (`isBlocked`).
/// - Order: a claim overtakes an earlier one that excludes it only if its claimant already holds one, or
///   is being asked as a presenter; without that it would wait for itself.
/// - No deadlock among claims: one that would close a circle is refused.
package struct ClaimQueue: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    case waiting
    /// Its turn has come, and presenters are asked. It keeps all others out but those who are asked.
    case asking(stage: Int)
    case held
  }

  package struct Claim: Hashable, Sendable {
    package let claimant: ClaimantID
    /// What is told to presenters is not told to this one: the claimant speaks for it.
    let presenter: PresenterID?
    package fileprivate(set) var accesses: [ClaimAccess]
    /// A program has a file open for writing: nobody asked whether it may.
    var isImplicit = false
    /// Held for a moment, by who asked for it with `hold`.
    var isMomentary = false
    package fileprivate(set) var state = State.waiting
    /// Those who let go for it.
    package fileprivate(set) var relinquished: Set<PresenterID> = []
    /// Whose answers it waits for, and how many of each.
    var asked: [PartyID: Int] = [:]
  }

  package struct Presenter: Hashable, Sendable {
    let party: PartyID
    package fileprivate(set) var path: ClaimPath
    /// For so many claims it has let go.
    package fileprivate(set) var claims = 0
  }

  package private(set) var claims: [ClaimID: Claim] = [:]
  package private(set) var presenters: [PresenterID: Presenter] = [:]
  /// What was asked and is not answered.
  package private(set) var questions: Set<Question> = []
  private var index = PlaceIndex<ClaimID>()
  private var presenterIndex = PlaceIndex<PresenterID>()
  private var held: [ClaimantID: Set<ClaimID>] = [:]
  private var waiting: [ClaimantID: Set<ClaimID>] = [:]
  private var asked: [PartyID: Int] = [:]
  /// The claims of which presenters are asked, or were and which wait for those who were asked.
  private var asking: Set<ClaimID> = []

  package init() {}

  package var isEmpty: Bool { claims.isEmpty && presenters.isEmpty }

  // MARK: Claims

  /// Asks for all accesses of a claim at once. `id` is greater than that of any before it.
  ///
  /// Throws `ClaimDeadlock` when the claim would wait for its own claimant by way of others; nothing is
  /// changed then.
  package mutating func submit(
    _ id: ClaimID, by claimant: ClaimantID, _ accesses: [ClaimAccess],
    for presenter: PresenterID? = nil
  ) throws(ClaimDeadlock) -> [ClaimEffect] {
    insert(id, Claim(claimant: claimant, presenter: presenter, accesses: accesses))
    var effects: [ClaimEffect] = []
    if !isBlocked(id) {
      advance(id, &effects)
    } else if let parties = circle(from: id) {
      remove(id)
      throw ClaimDeadlock(parties: parties)
    }
    return effects
  }

  /// Notes what a program does already, such as writing to a file that it has open: others wait for it.
  package mutating func enter(_ id: ClaimID, by claimant: ClaimantID, _ access: ClaimAccess) {
    insert(
      id,
      Claim(claimant: claimant, presenter: nil, accesses: [access], isImplicit: true))
    hold(id)
  }

  /// Holds what `isTaken` says nobody else has.
  package mutating func hold(
    _ id: ClaimID, by claimant: ClaimantID, _ accesses: [ClaimAccess]
  ) {
    insert(
      id, Claim(claimant: claimant, presenter: nil, accesses: accesses, isMomentary: true))
    hold(id)
  }

  /// Ends a claim that is held, or gives up one that waits.
  package mutating func release(_ id: ClaimID) -> [ClaimEffect] {
    guard let claim = remove(id) else { return [] }
    var effects: [ClaimEffect] = []
    for presenter in claim.relinquished.sorted() {
      presenters[presenter]?.claims -= 1
      if presenters[presenter]?.claims == 0 { effects.append(.reacquire(presenter)) }
    }
    schedule(around: claim.accesses.map(\.path), &effects)
    return effects
  }

  package mutating func release(_ party: PartyID) -> [ClaimEffect] {
    var effects: [ClaimEffect] = []
    for id in presenters.filter({ $0.value.party == party }).keys.sorted() {
      effects += removePresenter(id)
    }
    let own = claims.filter { $0.value.claimant.party == party }
    // Those that wait first: none of them is to be given what is let go of here.
    let waiting = own.filter { $0.value.state != .held }.keys.sorted()
    for id in waiting + own.keys.sorted() { effects += release(id) }
    return effects
  }

  // MARK: Presenters

  package mutating func addPresenter(_ id: PresenterID, of party: PartyID, at path: ClaimPath) {
    presenters[id] = Presenter(party: party, path: path)
    presenterIndex.insert(id, at: path)
  }

  package mutating func removePresenter(_ id: PresenterID) -> [ClaimEffect] {
    guard let presenter = presenters.removeValue(forKey: id) else { return [] }
    presenterIndex.remove(id, at: presenter.path)
    var effects: [ClaimEffect] = []
    for question in questions.filter({ $0.presenter == id }) {
      effects += answered(question, by: presenter.party)
    }
    for claim in claims.keys where claims[claim]?.relinquished.contains(id) == true {
      claims[claim]?.relinquished.remove(id)
    }
    return effects
  }

  /// An answer came, or is waited for no longer.
  package mutating func answered(_ question: Question) -> [ClaimEffect] {
    guard let party = presenters[question.presenter]?.party else { return [] }
    return answered(question, by: party)
  }

  private mutating func answered(_ question: Question, by party: PartyID) -> [ClaimEffect] {
    guard questions.remove(question) != nil else { return [] }
    Self.decrease(&asked, party)
    if var asked = claims[question.claim]?.asked {
      Self.decrease(&asked, party)
      claims[question.claim]?.asked = asked
    }
    var effects: [ClaimEffect] = []
    advance(question.claim, &effects)
    return effects
  }

  private static func decrease(_ counts: inout [PartyID: Int], _ party: PartyID) {
    counts[party] = counts[party].flatMap { $0 > 1 ? $0 - 1 : nil }
  }

  /// Presenters of what is at the path, above it and below it.
  package func presenters(
    around path: ClaimPath
  ) -> (above: [PresenterID], here: [PresenterID], below: [PresenterID]) {
    let (above, here, below) = presenterIndex.around(path)
    return (above.flatMap { $0 }, here, below)
  }

  package func isRelinquished(_ presenter: PresenterID) -> Bool {
    presenters[presenter].map { $0.claims > 0 } ?? false
  }

  // MARK: What others ask

  /// Whether there is a claim or a presenter in the container. Files that are open do not count, nor
  /// does what the claim of a moment's work is of.
  package func concerns(_ container: UInt32) -> Bool {
    presenters.values.contains { $0.path.places.first?.container == container }
      || claims.values.contains { claim in
        !claim.isImplicit && !claim.isMomentary
          && claim.accesses.contains { $0.path.places.first?.container == container }
      }
  }

  /// Whether a claim that is held or about to be keeps `claimant` from doing this now. Files that are
  /// open do not.
  package func isTaken(_ access: ClaimAccess, for claimant: ClaimantID?) -> Bool {
    index.meeting(access.path).contains { list in
      list.contains { id in
        guard let claim = claims[id], claim.state != .waiting, claim.claimant != claimant,
          !claim.isImplicit
        else { return false }
        return claim.accesses.contains { $0.excludes(access) }
      }
    }
  }

  /// Whether a claim that is held or about to be, of none of these parties, keeps somebody from this.
  package func isTaken(_ access: ClaimAccess, exceptBy parties: Set<PartyID>) -> Bool {
    index.meeting(access.path).contains { list in
      list.contains { id in
        guard let claim = claims[id], claim.state != .waiting, !claim.isImplicit,
          !claim.isMomentary, !parties.contains(claim.claimant.party)
        else { return false }
        return claim.accesses.contains { $0.excludes(access) }
      }
    }
  }

  /// As whom a party holds a claim.
  package func holder(_ party: PartyID) -> ClaimantID? {
    held.keys.first { $0.party == party && $0.purpose != .open }
  }

  package func isHeld(_ access: ClaimAccess, by claimant: ClaimantID) -> Bool {
    held[claimant, default: []].contains { id in
      claims[id]?.accesses.contains {
        $0.path.covers(access.path) && ($0.mode.isWriting || !access.mode.isWriting)
      } ?? false
    }
  }

  // MARK: Moves

  /// What is at `old` is at `new` now: claims and presenters go with it. A claim for replacing stays
  /// with the place. Claims that now wait in a circle are given back with their circle, and are over.
  package mutating func moved(
    from old: ClaimPath, to new: ClaimPath
  ) -> (effects: [ClaimEffect], refused: [ClaimID: ClaimDeadlock]) {
    func now(_ path: ClaimPath) -> ClaimPath? {
      old.covers(path) ? ClaimPath(new.places + path.places.dropFirst(old.places.count)) : nil
    }
    var isMoved = false
    for (id, claim) in claims {
      var accesses = claim.accesses
      for at in accesses.indices {
        if case .writing(let options) = accesses[at].mode, options.contains(.forReplacing),
          accesses[at].path == old
        {
          continue
        }
        if let path = now(accesses[at].path) { accesses[at].path = path }
      }
      guard accesses != claim.accesses else { continue }
      isMoved = true
      for access in claim.accesses { index.remove(id, at: access.path) }
      claims[id]?.accesses = accesses
      for access in accesses { index.insert(id, at: access.path) }
    }
    for (id, presenter) in presenters {
      guard let path = now(presenter.path) else { continue }
      presenterIndex.remove(id, at: presenter.path)
      presenters[id]?.path = path
      presenterIndex.insert(id, at: path)
    }
    var effects: [ClaimEffect] = []
    var refused: [ClaimID: ClaimDeadlock] = [:]
    guard isMoved else { return (effects, refused) }
    for id in claims.keys.sorted() where claims[id]?.state == .waiting && isBlocked(id) {
      guard let parties = circle(from: id) else { continue }
      refused[id] = ClaimDeadlock(parties: parties)
      effects += release(id)
    }
    schedule(around: [old, new], &effects)
    return (effects, refused)
  }

  // MARK: Rules

  /// Whether a claim that waits has to go on waiting.
  package func isBlocked(_ id: ClaimID) -> Bool { firstBlocker(of: id) { _ in true } != nil }

  /// Those who wait for its claimant can go on only when it has ended.
  private func overtakes(_ claim: Claim) -> Bool {
    held[claim.claimant] != nil || asked[claim.claimant.party] != nil
  }

  private func firstBlocker(
    of id: ClaimID, where isWanted: (ClaimID) -> Bool
  ) -> ClaimID? {
    guard let claim = claims[id] else { return nil }
    let overtakes = overtakes(claim)
    for access in claim.accesses {
      for list in index.meeting(access.path) {
        for other in list where other != id {
          guard let blocking = claims[other], blocking.claimant != claim.claimant else { continue }
          // What a program has open itself is its own affair.
          if blocking.isImplicit, blocking.claimant.party == claim.claimant.party { continue }
          switch blocking.state {
          case .waiting: if claim.state != .waiting || overtakes || other > id { continue }
          case .asking:
            if claim.state != .waiting || blocking.asked[claim.claimant.party] != nil
              || isKept(blocking, by: claim.claimant)
            {
              continue
            }
          case .held: break
          }
          guard blocking.accesses.contains(where: { $0.excludes(access) }), isWanted(other) else {
            continue
          }
          return other
        }
      }
    }
    return nil
  }

  /// Whether the claim cannot be given before the claimant ends one of its own.
  private func isKept(_ claim: Claim, by claimant: ClaimantID) -> Bool {
    held[claimant, default: []].contains { id in
      claims[id]?.accesses.contains { own in claim.accesses.contains { $0.excludes(own) } } ?? false
    }
  }

  /// The claimants of a circle in which the claim waits. Only who holds something can be in one.
  private func circle(from id: ClaimID) -> [ClaimantID]? {
    guard let start = claims[id]?.claimant, !held[start, default: []].isEmpty else { return nil }
    var seen: Set<ClaimID> = []
    var trail = [start]
    func leadsBack(_ id: ClaimID) -> Bool {
      firstBlocker(of: id) { other in
        guard let claim = claims[other] else { return false }
        if claim.claimant == start { return true }
        guard seen.insert(other).inserted else { return false }
        trail.append(claim.claimant)
        // What is held ends when its claimant is done, who is kept from that by what it waits for.
        let next = claim.state == .held ? waiting[claim.claimant, default: []].sorted() : [other]
        if next.contains(where: leadsBack) { return true }
        trail.removeLast()
        return false
      } != nil
    }
    return leadsBack(id) ? trail : nil
  }

  // MARK: Going on

  /// Gives a claim what it can have: its turn, the next question, the claim.
  private mutating func advance(_ id: ClaimID, _ effects: inout [ClaimEffect]) {
    while let claim = claims[id] {
      switch claim.state {
      case .held: return
      case .waiting:
        guard !isBlocked(id) else { return }
        Self.drop(id, from: &waiting, claim.claimant)
        claims[id]?.state = .asking(stage: 0)
        asking.insert(id)
        ask(id, stage: 0, &effects)
      case .asking(let stage):
        guard claim.asked.isEmpty else { return }
        if stage < 2 {
          claims[id]?.state = .asking(stage: stage + 1)
          ask(id, stage: stage + 1, &effects)
        } else {
          // Those who were asked may have claimed meanwhile.
          guard !isBlocked(id) else { return }
          hold(id)
          effects.append(.granted(id, claim.accesses.map(\.path)))
          // Its claimant's others need not wait behind those who wait for it.
          for other in waiting[claim.claimant, default: []].sorted() { advance(other, &effects) }
          return
        }
      }
    }
  }

  private mutating func ask(_ id: ClaimID, stage: Int, _ effects: inout [ClaimEffect]) {
    guard let claim = claims[id] else { return }
    var made: [Question] = []
    for access in claim.accesses {
      for (presenter, request, path) in requests(for: access) where request.stage == stage {
        guard presenter != claim.presenter else { continue }
        let question = Question(claim: id, presenter: presenter, request: request, path: path)
        guard let party = presenters[presenter]?.party, questions.insert(question).inserted else {
          continue
        }
        if stage == 0, claims[id]?.relinquished.insert(presenter).inserted == true {
          presenters[presenter]?.claims += 1
        }
        asked[party, default: 0] += 1
        claims[id]?.asked[party, default: 0] += 1
        made.append(question)
      }
    }
    effects += made.map { .ask($0) }
    // Whoever is asked may have a claim in the queue that this one waits for now.
    for party in Set(made.compactMap { presenters[$0.presenter]?.party }) {
      let theirs = waiting.filter { $0.key.party == party }.flatMap(\.value)
      for other in theirs.sorted() { advance(other, &effects) }
    }
  }

  /// What met one of the paths is gone: gives those around it their turn. Its cost does not grow with
  /// those who go on waiting.
  private mutating func schedule(around paths: [ClaimPath], _ effects: inout [ClaimEffect]) {
    for path in paths {
      var candidates = InOrder(index.meeting(path))
      while let id = candidates.next() {
        guard let claim = claims[id], claim.state != .held else { continue }
        advance(id, &effects)
        // All further ones meet this path too, and so wait for a writer that covers it; but for those
        // who overtake.
        if claim.accesses.contains(where: { $0.mode.isWriting && $0.path.covers(path) }) { break }
      }
    }
    var others = asking
    for claimant in held.keys { others.formUnion(waiting[claimant, default: []]) }
    if !asked.isEmpty {
      for (claimant, own) in waiting where asked[claimant.party] != nil { others.formUnion(own) }
    }
    for id in others.sorted() { advance(id, &effects) }
  }

  private mutating func insert(_ id: ClaimID, _ claim: Claim) {
    claims[id] = claim
    waiting[claim.claimant, default: []].insert(id)
    for access in claim.accesses { index.insert(id, at: access.path) }
  }

  @discardableResult
  private mutating func remove(_ id: ClaimID) -> Claim? {
    guard let claim = claims.removeValue(forKey: id) else { return nil }
    for access in claim.accesses { index.remove(id, at: access.path) }
    if !claim.asked.isEmpty { questions = questions.filter { $0.claim != id } }
    for (party, count) in claim.asked { for _ in 0..<count { Self.decrease(&asked, party) } }
    Self.drop(id, from: &held, claim.claimant)
    Self.drop(id, from: &waiting, claim.claimant)
    asking.remove(id)
    return claim
  }

  private mutating func hold(_ id: ClaimID) {
    guard let claimant = claims[id]?.claimant else { return }
    Self.drop(id, from: &waiting, claimant)
    asking.remove(id)
    claims[id]?.state = .held
    held[claimant, default: []].insert(id)
  }

  private static func drop(
    _ id: ClaimID, from table: inout [ClaimantID: Set<ClaimID>], _ claimant: ClaimantID
  ) {
    table[claimant]?.remove(id)
    if table[claimant]?.isEmpty == true { table[claimant] = nil }
  }
}
