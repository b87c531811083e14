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

/// Files that programs have open for writing: claims that nobody asked for.
extension ClaimTable {
  /// Whether `entered` is to be told of files that are opened for writing: somebody claims something, or
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

  /// A file is open for writing: others' claims wait until `left`. `party` has it open; nil for a program
  /// that knows nothing of claims. Nothing is noted if all claims have ended since the caller read
  /// `isActive`: nobody would tell that the file is closed, and the next claim looks for it.
  package func entered(_ file: WrittenFile, at path: ClaimPath, by party: PartyID?, name: String) {
    state.withLock { state in
      guard state.isWatched, state.implicit[file] == nil else { return }
      let owner: PartyID
      if let party, state.parties[party] != nil {
        owner = party
      } else {
        owner = PartyID(state.next())
        state.parties[owner] = Party(name: name, process: 0, listener: nil)
      }
      let id = ClaimID(state.next())
      state.queue.enter(
        id, by: ClaimantID(owner, .open), ClaimAccess(path, .writing([])))
      state.implicit[file] = (id, owner)
    }
  }

  package func left(_ file: WrittenFile) {
    change { state in
      guard let (claim, party) = state.implicit.removeValue(forKey: file) else { return [] }
      if state.parties[party]?.process == 0 { state.parties[party] = nil }
      return state.queue.release(claim)
    }
  }
}
