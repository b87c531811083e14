internal import Catalog
package import Model
internal import Platform
internal import Synchronization

/// Why a claim was not given.
package enum ClaimFailure: Error, Hashable, Sendable {
  /// The names of those that wait for each other, the one that was refused first.
  case deadlock([String])
  /// It was given up before its turn came.
  case cancelled
  /// A presenter could not do what it was asked. The name of its program, and why.
  case refused(by: String, String)
}

/// The claims and presenters of all containers of an account: `ClaimQueue` with its threads and its
/// clock.
///
/// Safe from any thread; nothing waits in here. The effects of a call are carried out in the order
/// of the changes: before the call returns, or by another thread that carries out effects already.
/// Lock: above the open table's alone; completions and listeners are called with none held.
package final class ClaimTable: Sendable {
  struct Party {
    let name: String
    /// 0 where there is no process that speaks for it.
    let process: Int32
    let listener: (any PresenterListening)?
    /// Presenters that cannot do what they are asked are passed over.
    var insists = false
  }

  package typealias Completion = @Sendable (ClaimID, Result<[ClaimPath], ClaimFailure>) -> Void

  struct State {
    var queue = ClaimQueue()
    var last: UInt64 = 0
    var parties: [PartyID: Party] = [:]
    var completions: [ClaimID: Completion] = [:]
    /// What is to be done, in order, and whether a thread is at it.
    var pending: [@Sendable () -> Void] = []
    var isDraining = false
    /// When questions are given up, in order: all have the same limit.
    var deadlines: [(time: UInt64, question: Question)] = []
    var isWatching = false
    var containers: [ContainerID: UInt32] = [:]
    /// The claims of files that are open for writing.
    var written: [WrittenFile: WrittenFileClaims] = [:]
    /// How many are looking for such files.
    var looking = 0
    /// Claims, held or waiting, whose claimant speaks for a presenter.
    var speaking: Set<ClaimID> = []
    /// Files that were written under such a claim and are not closed yet, though it has ended.
    var outlasting: [WrittenFile: Set<PresenterID>] = [:]

    /// Whether anybody has a use for knowing what is open.
    var isWatched: Bool { looking > 0 || queue.claims.count > queue.implicitCount }

    mutating func next() -> UInt64 {
      last += 1
      return last
    }
  }

  let state = Lock(State())
  let active = Atomic(false)
  /// The last presenter that was added; 0 while there is none.
  let newest = Atomic<UInt64>(0)
  let speaking = Atomic(false)
  /// Where what is told to presenters is found out.
  let feed = PresenterFeed()
  /// How long a presenter has for each answer.
  package let patience: Duration

  package init(patience: Duration = .seconds(5)) { self.patience = patience }

  package var isEmpty: Bool { state.withLock { $0.queue.isEmpty } }

  /// Where the paths of a container begin.
  package func place(of container: ContainerID) -> Place {
    let number = state.withLock { state in
      let number = state.containers[container] ?? UInt32(state.containers.count + 1)
      state.containers[container] = number
      return number
    }
    let name = (try? ItemName(container.description)) ?? .documents
    return Place(number, InodeNumber(0), name)
  }

  // MARK: Parties

  /// `process`: whose opens, and whose descendants', are the party's own. `insists`: no presenter
  /// can keep it from what it claims, as what another device did has happened already.
  package func join(
    name: String, process: Int32 = -1, listener: (any PresenterListening)? = nil,
    insists: Bool = false
  ) -> PartyID {
    state.withLock { state in
      let id = PartyID(state.next())
      state.parties[id] = Party(
        name: name, process: process, listener: listener, insists: insists)
      return id
    }
  }

  /// The parties of the process and of all that it descends from, the nearest first.
  package func parties(of process: Int32) -> [PartyID] {
    let parties = state.withLock { state in
      Dictionary(
        state.parties.lazy.filter { $0.value.process > 0 }.map { ($0.value.process, $0.key) },
        uniquingKeysWith: min)
    }
    guard !parties.isEmpty, process > 0 else { return [] }
    return Processes.lineage(of: process).compactMap { parties[$0] }
  }

  /// Who has to be waited for before a program may open what is there: nil for nobody. Otherwise
  /// the claimant as which to wait: one of the program's own parties, if that holds something.
  package func claimantToWait(
    _ access: ClaimAccess, of parties: [PartyID], name: String
  ) -> (claimant: ClaimantID, isNew: Bool)? {
    state.withLock { state in
      let isTaken = state.queue.isTaken(access) {
        !$0.isMomentary && !parties.contains($0.claimant.party)
      }
      guard isTaken else { return nil }
      for party in parties {
        if let own = state.queue.holder(party) { return (own, false) }
      }
      let party = PartyID(state.next())
      state.parties[party] = Party(name: name, process: 0, listener: nil)
      return (ClaimantID(party), true)
    }
  }

  /// The party of the process or of the nearest one that it descends from.
  package func party(of process: Int32) -> PartyID? { parties(of: process).first }

  /// Ends all claims of the party and forgets its presenters. A file that one of its programs still
  /// has open for writing keeps others waiting.
  package func leave(_ party: PartyID) {
    change { state in
      let given = state.queue.claims.filter { $0.value.claimant.party == party }.keys
      for id in given.sorted() {
        if let completion = state.completions.removeValue(forKey: id) {
          state.pending.append { completion(id, .failure(.cancelled)) }
        }
      }
      let effects = state.handOver(filesOf: party) + state.queue.release(party)
      state.parties[party] = nil
      return effects
    }
  }

  // MARK: Claims

  /// Asks for all accesses at once. `completion` is called once, when the claim is held, with where
  /// the items are then, or when it was refused or given up; perhaps before this returns.
  @discardableResult
  package func claim(
    _ accesses: [ClaimAccess], by claimant: ClaimantID, for presenter: PresenterID? = nil,
    completion: @escaping Completion
  ) -> ClaimID {
    var made = ClaimID(0)
    change { state in
      let id = ClaimID(state.next())
      made = id
      state.completions[id] = completion
      if presenter != nil { state.speaking.insert(id) }
      do throws(ClaimDeadlock) {
        return try state.queue.submit(id, by: claimant, accesses, for: presenter)
      } catch {
        refuse(id, error, &state)
        return []
      }
    }
    return made
  }

  private func refuse(_ id: ClaimID, _ deadlock: ClaimDeadlock, _ state: inout State) {
    guard let completion = state.completions.removeValue(forKey: id) else { return }
    let names = deadlock.parties.map { state.parties[$0.party]?.name ?? "a program that has ended" }
    state.pending.append { completion(id, .failure(.deadlock(names))) }
  }

  /// Ends a claim, or gives it up. Claims of files that are open end with the open.
  package func release(_ id: ClaimID) {
    change { state in
      guard state.queue.claims[id]?.isImplicit != true else { return [] }
      if let completion = state.completions.removeValue(forKey: id) {
        state.pending.append { completion(id, .failure(.cancelled)) }
      }
      return state.queue.release(id)
    }
  }

  /// Whose claim it is, as long as there is one.
  package func owner(of id: ClaimID) -> PartyID? {
    state.withLock { $0.queue.claims[id]?.claimant.party }
  }

  /// How many claims the party holds and waits for.
  package func claimCount(of party: PartyID) -> Int {
    state.withLock { $0.queue.counts[party] ?? 0 }
  }

  /// Whether others keep the claim from having its turn. While presenters are asked it has it.
  package func isWaiting(_ id: ClaimID) -> Bool {
    state.withLock { $0.queue.claims[id]?.state == .waiting }
  }

  /// Gives the presenters that went along.
  @discardableResult
  package func moved(_ moves: [ItemMove]) -> [PresenterID] {
    var presenters: [PresenterID] = []
    change { state in
      let moved = state.queue.moved(moves)
      for (id, deadlock) in moved.refused.sorted(by: { $0.key < $1.key }) {
        refuse(id, deadlock, &state)
      }
      presenters = moved.presenters
      return moved.effects
    }
    return presenters
  }

  /// Whether somebody else's claim keeps this from being done now.
  package func isTaken(_ access: ClaimAccess, for claimant: ClaimantID? = nil) -> Bool {
    state.withLock { $0.queue.isTaken(access) { $0.claimant != claimant } }
  }

  /// Whether somebody claims or presents anything in the container, files that are open left aside.
  package func concerns(_ container: ContainerID) -> Bool {
    state.withLock { state in
      guard state.queue.claims.count > state.queue.implicitCount || !state.queue.presenters.isEmpty,
        let number = state.containers[container]
      else { return false }
      return state.queue.concerns(number)
    }
  }

  /// Whether somebody presents what is at the path or below it.
  package func isPresented(_ path: ClaimPath) -> Bool {
    state.withLock { state in
      guard !state.queue.presenters.isEmpty else { return false }
      let around = state.queue.presenters(around: path)
      return !around.here.isEmpty || !around.below.isEmpty
    }
  }

  /// Claims at once what nobody else holds, before those who wait, and without asking presenters:
  /// for a moment's work of the sync engine. Nil when somebody holds something of it. Files that
  /// are open are the caller's to look at.
  package func hold(_ accesses: [ClaimAccess], by claimant: ClaimantID) -> ClaimID? {
    state.withLock { state in
      guard
        accesses.allSatisfy({ access in
          !state.queue.isTaken(access) { $0.claimant != claimant }
        })
      else { return nil }
      let id = ClaimID(state.next())
      state.queue.hold(id, by: claimant, accesses)
      return id
    }
  }

  // MARK: Doing what follows

  func change(_ body: (inout State) -> [ClaimEffect]) {
    state.withLock { state in
      for effect in body(&state) { note(effect, &state) }
      let isWatched = state.isWatched
      if !isWatched { state.forgetWrittenFiles() }
      active.store(isWatched, ordering: .sequentiallyConsistent)
      if state.queue.presenters.isEmpty { newest.store(0, ordering: .sequentiallyConsistent) }
      if !state.speaking.isEmpty {
        state.speaking = state.speaking.filter { state.queue.claims[$0] != nil }
      }
      speaking.store(
        !state.speaking.isEmpty || !state.outlasting.isEmpty, ordering: .sequentiallyConsistent)
    }
    drain()
  }

  private func note(_ effect: ClaimEffect, _ state: inout State) {
    switch effect {
    case .granted(let id, let paths):
      guard let completion = state.completions.removeValue(forKey: id) else { return }
      state.pending.append { completion(id, .success(paths)) }
    case .reacquire(let presenter):
      guard let listener = listener(of: presenter, state) else { return }
      state.pending.append { listener.reacquired(presenter) }
    case .ask(let question):
      state.deadlines.append((monotonicNanoseconds() &+ patience.nanoseconds, question))
      watch(&state)
      guard let listener = listener(of: question.presenter, state) else { return }
      state.pending.append { listener.asked(question) }
    }
  }

  func listener(
    of presenter: PresenterID, _ state: State
  ) -> (any PresenterListening)? {
    state.queue.presenters[presenter].flatMap { state.parties[$0.party]?.listener }
  }

  /// One thread at a time, so that what was decided first is heard first.
  private func drain() {
    while true {
      let work = state.withLock { state -> [@Sendable () -> Void] in
        guard !state.isDraining, !state.pending.isEmpty else { return [] }
        state.isDraining = true
        defer { state.pending = [] }
        return state.pending
      }
      guard !work.isEmpty else { return }
      for action in work { action() }
      state.withLock { $0.isDraining = false }
    }
  }

}
