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

/// The claims that stand for the programs that have a file open for writing.
///
/// Invariant, when everybody who opens or closes the file has called `follow`: there is a claim for
/// each party that has the file open, and one for all programs of no party.
struct WrittenFileClaims {
  /// The party of each open, by the thread that opened the file; none for a program of no party.
  /// The last answer is kept when the thread has ended.
  var parties: [Int32: PartyID] = [:]
  var claims: [PartyID: ClaimID] = [:]
  /// Of programs of no party, with the party that is made for it.
  var foreign: (claim: ClaimID, party: PartyID)?

  var isEmpty: Bool { claims.isEmpty && foreign == nil }
  var first: ClaimID? { foreign?.claim ?? claims.values.first }
}

/// Files that programs have open for writing: claims that nobody asked for.
extension ClaimTable {
  /// Whether `follow` has to be told of files that are opened for writing: somebody claims
  /// something, or is about to.
  package var isActive: Bool { active.load(ordering: .sequentiallyConsistent) }

  /// From here on `isActive`, until as many calls of `looked` and the end of all claims. For
  /// whoever is going to claim: files that were opened before are to be looked for, later ones are
  /// told.
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

  /// Brings the claims of a file in line with the programs that have it open for writing. Other
  /// claims wait for these. Call it after each such open and close while `isActive`.
  ///
  /// `found`: the parties of some of the threads that opened the file. `openers` gives how often it
  /// is open for writing, and the threads that are known; it is called under the lock and may take
  /// the open table's. `path` is nil after a close. Nothing is noted if all claims have ended since
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

      // New claims come before old ones go, so that no other claim has a turn in between.
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
  /// Gives the open files of the party to another party of the same process. Without one they are
  /// foreign. They keep other claims waiting for as long as they are open.
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
  }

  fileprivate mutating func set(_ noted: WrittenFileClaims, for file: WrittenFile) {
    written[file] = noted.isEmpty ? nil : noted
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
