/// Who may touch what, and who waits: the rules of coordination and nothing else. No clock, no
/// threads, no I/O; what is to be done comes back as `ClaimEffect`s. `Tests/CoordinationTests` goes
/// through every state of small worlds of it.
///
/// Invariants, after every call:
/// - Exclusion: of two claims that are held and exclude each other, both are of one claimant.
/// - No lost wake-up: whatever waits is kept waiting by a claim that is held or was asked for
///   earlier, or by a question that is out (`isBlocked`).
/// - Order: a claim overtakes an earlier one that excludes it only if its claimant already holds
///   one, or is being asked as a presenter; without that it would wait for itself.
/// - No deadlock among claims: one that would close a circle is refused.
package struct ClaimQueue: Hashable, Sendable {
  package enum State: Hashable, Sendable {
    case waiting
    /// Its turn has come, and presenters are asked. It keeps all others out but those who are
    /// asked.
    case asking(stage: Int)
    case held
  }

  package struct Claim: Hashable, Sendable {
    package let claimant: ClaimantID
    /// What is told to presenters is not told to this one: the claimant speaks for it.
    let presenter: PresenterID?
    package internal(set) var accesses: [ClaimAccess]
    /// A program has a file open for writing: nobody asked whether it may.
    var isImplicit = false
    /// Held for a moment, by who asked for it with `hold`.
    var isMomentary = false
    package internal(set) var state = State.waiting
    /// Those who let go for it.
    package internal(set) var relinquished: Set<PresenterID> = []
    /// Whose answers it waits for, and how many of each.
    var asked: [PartyID: Int] = [:]
  }

  package struct Presenter: Hashable, Sendable {
    let party: PartyID
    package internal(set) var path: ClaimPath
    /// For so many claims it has let go.
    package internal(set) var claims = 0
  }

  package internal(set) var claims: [ClaimID: Claim] = [:]
  package internal(set) var presenters: [PresenterID: Presenter] = [:]
  /// What was asked and is not answered.
  package internal(set) var questions: Set<Question> = []
  var index = PlaceIndex<ClaimID>()
  /// Of those, where they write: readers need look at no others.
  var writers = PlaceIndex<ClaimID>()
  /// Of those, the ones that are not held: whoever ends need look at no others.
  var pending = PlaceIndex<ClaimID>()
  var presenterIndex = PlaceIndex<PresenterID>()
  var held: [ClaimantID: Set<ClaimID>] = [:]
  /// How many claims each party has, files that are open and moments left aside.
  package private(set) var counts: [PartyID: Int] = [:]
  /// How many claims are of files that are open.
  private(set) var implicitCount = 0
  var waiting: [ClaimantID: Set<ClaimID>] = [:]
  var asked: [PartyID: Int] = [:]
  /// The claims of which presenters are asked, or were and which wait for those who were asked.
  var asking: Set<ClaimID> = []

  package init() {}

  package var isEmpty: Bool { claims.isEmpty && presenters.isEmpty }

  // MARK: Claims

  /// Asks for all accesses of a claim at once. `id` is greater than that of any before it.
  ///
  /// Throws `ClaimDeadlock` when the claim would wait for its own claimant by way of others;
  /// nothing is changed then.
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

  /// Notes what a program does already, such as writing to a file that it has open: others wait for
  /// it.
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
    if asked[presenter.party] != nil {
      for question in questions.filter({ $0.presenter == id }) {
        effects += answered(question, by: presenter.party)
      }
    }
    guard presenter.claims > 0 else { return effects }
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

  // MARK: What others ask

  /// Whether there is a claim or a presenter in the container. Files that are open do not count,
  /// nor does what the claim of a moment's work is of.
  package func concerns(_ container: UInt32) -> Bool {
    presenters.values.contains { $0.path.places.first?.container == container }
      || claims.values.contains { claim in
        !claim.isImplicit && !claim.isMomentary
          && claim.accesses.contains { $0.path.places.first?.container == container }
      }
  }

  /// Whether somebody claims or presents what is at the place or below it.
  func concerns(_ place: Place) -> Bool {
    index.isUsed(place) || presenterIndex.isUsed(place)
  }

  /// Whether a claim that is held or about to be, and of which `counts` holds, keeps somebody from
  /// this. Files that are open do not.
  package func isTaken(_ access: ClaimAccess, where counts: (Claim) -> Bool) -> Bool {
    index.meeting(access.path).contains { list in
      list.contains { id in
        guard let claim = claims[id], claim.state != .waiting, !claim.isImplicit, counts(claim)
        else { return false }
        return claim.accesses.contains { $0.excludes(access) }
      }
    }
  }

  /// As whom a party holds a claim.
  package func holder(_ party: PartyID) -> ClaimantID? {
    held.keys.first { $0.party == party && $0.purpose != .open }
  }

  // MARK: The tables

  mutating func place(_ id: ClaimID, _ accesses: [ClaimAccess]) {
    for access in accesses {
      index.insert(id, at: access.path)
      if access.mode.isWriting { writers.insert(id, at: access.path) }
      if claims[id]?.state != .held { pending.insert(id, at: access.path) }
    }
  }

  mutating func displace(_ id: ClaimID, _ accesses: [ClaimAccess]) {
    for access in accesses {
      index.remove(id, at: access.path)
      if access.mode.isWriting { writers.remove(id, at: access.path) }
      pending.remove(id, at: access.path)
    }
  }

  private mutating func insert(_ id: ClaimID, _ claim: Claim) {
    claims[id] = claim
    if claim.isImplicit { implicitCount += 1 }
    if !claim.isImplicit, !claim.isMomentary { counts[claim.claimant.party, default: 0] += 1 }
    waiting[claim.claimant, default: []].insert(id)
    place(id, claim.accesses)
  }

  @discardableResult
  private mutating func remove(_ id: ClaimID) -> Claim? {
    guard let claim = claims.removeValue(forKey: id) else { return nil }
    displace(id, claim.accesses)
    if !claim.asked.isEmpty { questions = questions.filter { $0.claim != id } }
    for (party, count) in claim.asked { for _ in 0..<count { Self.decrease(&asked, party) } }
    if claim.isImplicit { implicitCount -= 1 }
    if !claim.isImplicit, !claim.isMomentary { Self.decrease(&counts, claim.claimant.party) }
    Self.drop(id, from: &held, claim.claimant)
    Self.drop(id, from: &waiting, claim.claimant)
    asking.remove(id)
    return claim
  }

  mutating func hold(_ id: ClaimID) {
    guard let claimant = claims[id]?.claimant else { return }
    Self.drop(id, from: &waiting, claimant)
    asking.remove(id)
    for access in claims[id]?.accesses ?? [] { pending.remove(id, at: access.path) }
    claims[id]?.state = .held
    held[claimant, default: []].insert(id)
  }

  static func drop(
    _ id: ClaimID, from table: inout [ClaimantID: Set<ClaimID>], _ claimant: ClaimantID
  ) {
    table[claimant]?.remove(id)
    if table[claimant]?.isEmpty == true { table[claimant] = nil }
  }
}
