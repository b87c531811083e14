package import Catalog
internal import Platform
internal import Synchronization

/// A file that is open for writing: its container, by the number of its place, and its inode.
package struct WrittenFile: Hashable, Sendable {
  package let container: UInt32
  package let number: InodeNumber

  package init(_ container: UInt32, _ number: InodeNumber) {
    self.container = container
    self.number = number
  }
}

/// A file that programs have open for writing, as others' claims see it.
///
/// Invariant, when those who open and close it have called `follow`: there is a claim for each party that
/// has the file open, and one for all programs that are of no party.
struct WrittenFileClaims {
  /// Whose each open is, by the thread that opened it; none for a program that knows nothing of claims.
  /// What was found last is kept when the thread has ended.
  var parties: [Int32: PartyID] = [:]
  var claims: [PartyID: ClaimID] = [:]
  /// Of programs of no party, with the party that is made for it.
  var foreign: (claim: ClaimID, party: PartyID)?

  var count: Int { claims.count + (foreign == nil ? 0 : 1) }
  var first: ClaimID? { foreign?.claim ?? claims.values.first }
}

/// Files that programs have open for writing: claims that nobody asked for.
extension ClaimTable {
  /// Whether `follow` is to be told of files that are opened for writing: somebody claims something, or
  /// is about to.
  package var isActive: Bool { active.load(ordering: .sequentiallyConsistent) }

  /// From here on `isActive`, until as many calls of `looked` and the end of all claims. For whoever is
  /// going to claim: files that were opened before are to be looked for, later ones are told.
  package func looking() {
    state.withLock { state in
      state.looking += 1
      active.store(true, ordering: .sequentiallyConsistent)
    }
  }

  package func looked() {
    change { state in
      state.looking -= 1
      return []
    }
  }

  /// Brings the claims of a file in line with who has it open for writing: others' claims wait for those.
  /// To be called after each such open and close while `isActive`.
  ///
  /// `found` gives the parties of some of the threads that have opened it. `openers` is called under the
  /// lock and may take the open table's; it gives how often the file is open for writing and the threads
  /// that are known. `path` is nil where it is only closed. Nothing is noted if all claims have ended since
  /// the caller read `isActive`: the next claim looks for the file.
  package func follow(
    _ file: WrittenFile, at path: ClaimPath?, found: [Int32: PartyID], name: String?,
    openers: () -> (writers: Int, threads: [Int32])
  ) {
    change { state in
      guard state.isWatched else { return [] }
      let (writers, threads) = openers()
      var noted = state.written[file] ?? WrittenFileClaims()
      noted.parties = noted.parties.merging(found) { _, new in new }
        .filter { threads.contains($0.key) && state.parties[$0.value] != nil }
      let owners = Set(threads.compactMap { noted.parties[$0] })
      let hasForeign = writers > threads.count || threads.contains { noted.parties[$0] == nil }
      let access =
        noted.first.flatMap { state.queue.claims[$0]?.accesses.first }
        ?? path.map { ClaimAccess($0, .writing([])) }

      // What is new comes before the old goes, so that nobody has a turn in between.
      if let access {
        for owner in owners where noted.claims[owner] == nil {
          noted.claims[owner] = state.enter(access, by: owner)
        }
        if hasForeign, noted.foreign == nil { noted.foreign = state.enterForeign(access, name) }
      }
      var gone = noted.claims.filter { !owners.contains($0.key) }.map(\.value)
      for owner in noted.claims.keys where !owners.contains(owner) { noted.claims[owner] = nil }
      if !hasForeign, let foreign = noted.foreign {
        gone.append(foreign.claim)
        state.parties[foreign.party] = nil
        noted.foreign = nil
      }
      state.set(noted, for: file)
      return gone.flatMap { state.queue.release($0) }
    }
  }
}

extension ClaimTable.State {
  /// What the party's programs have open goes to another party of the same process, or is nobody's own:
  /// it keeps others waiting for as long as it is open.
  mutating func handOver(filesOf party: PartyID) -> [ClaimEffect] {
    var effects: [ClaimEffect] = []
    let process = parties[party]?.process ?? 0
    let heir = parties.filter {
      $0.key != party && process > 0 && $0.value.process == process
    }.keys.min()
    for (file, old) in written where old.claims[party] != nil {
      var noted = old
      guard let claim = noted.claims.removeValue(forKey: party),
        let access = queue.claims[claim]?.accesses.first
      else { continue }
      noted.parties = noted.parties.filter { $0.value != party || heir != nil }
        .mapValues { $0 == party ? heir ?? $0 : $0 }
      if let heir {
        if noted.claims[heir] == nil { noted.claims[heir] = enter(access, by: heir) }
      } else if noted.foreign == nil {
        noted.foreign = enterForeign(access, parties[party]?.name)
      }
      set(noted, for: file)
      effects += queue.release(claim)
    }
    return effects
  }

  /// Nobody claims anything any more: nobody has to wait.
  mutating func forgetWrittenFiles() {
    for noted in written.values {
      for claim in noted.claims.values { _ = queue.release(claim) }
      if let foreign = noted.foreign {
        parties[foreign.party] = nil
        _ = queue.release(foreign.claim)
      }
    }
    written = [:]
    implicitCount = 0
  }

  fileprivate mutating func set(_ noted: WrittenFileClaims, for file: WrittenFile) {
    implicitCount += noted.count - (written[file]?.count ?? 0)
    written[file] = noted.count == 0 ? nil : noted
  }

  fileprivate mutating func enter(_ access: ClaimAccess, by party: PartyID) -> ClaimID {
    let id = ClaimID(next())
    queue.enter(id, by: ClaimantID(party, .open), access)
    return id
  }

  fileprivate mutating func enterForeign(
    _ access: ClaimAccess, _ name: String?
  ) -> (claim: ClaimID, party: PartyID) {
    let party = PartyID(next())
    parties[party] = ClaimTable.Party(
      name: name ?? "a program that has the file open", process: 0, listener: nil)
    return (enter(access, by: party), party)
  }
}
