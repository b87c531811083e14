internal import Catalog
internal import Coordination
internal import Platform

/// The claims that the sync of one container asked for and holds. It waits in the same queue as
/// programs.
///
/// Locks: a leaf; the claim table is called with none held.
final class EngineClaims: Sendable {
  private enum Entry {
    case asked(ClaimID?)
    case held(ClaimID)
  }

  let table: ClaimTable
  let party: PartyID
  private let entries = Lock<[ClaimAccess: Entry]>([:])

  init(_ table: ClaimTable, name: String) {
    self.table = table
    party = table.join(name: name, insists: true)
  }

  var claimant: ClaimantID { ClaimantID(party) }

  /// What is held now, to be given to `release` when it was made use of.
  var held: [ClaimAccess] {
    entries.withLock { entries in
      entries.compactMap { access, entry in if case .held = entry { access } else { nil } }
    }
  }

  func holds(_ access: ClaimAccess) -> Bool {
    entries.withLock { entries in
      entries.contains { own, entry in
        guard case .held = entry else { return false }
        guard own.path.covers(access.path) else { return false }
        switch (own.mode, access.mode) {
        case (.reading, .writing): return false
        // Whoever presents it was asked for no more than that.
        case (.writing(let options), .writing(let wanted)): return options.isSuperset(of: wanted)
        case (_, .reading): return true
        }
      }
    }
  }

  /// Asks for a claim unless it did already; `given` is called when it is held.
  func ask(for access: ClaimAccess, given: @escaping @Sendable () -> Void) {
    let isNew = entries.withLock { entries in
      guard entries[access] == nil else { return false }
      entries[access] = .asked(nil)
      return true
    }
    guard isNew else { return }
    let id = table.claim([access], by: claimant) { [self] id, result in
      let isWanted = entries.withLock { entries in
        guard entries[access] != nil else { return false }
        if case .success = result { entries[access] = .held(id) } else { entries[access] = nil }
        return true
      }
      if isWanted { given() } else { table.release(id) }
    }
    entries.withLock { entries in
      if case .asked(nil) = entries[access] { entries[access] = .asked(id) }
    }
  }

  func release(_ accesses: [ClaimAccess]) {
    for access in accesses {
      let entry = entries.withLock { $0.removeValue(forKey: access) }
      switch entry {
      case .held(let id), .asked(let id?): table.release(id)
      case .asked(nil), nil: break
      }
    }
  }

  /// Of what is waited for and is not wanted any more.
  func giveUp(except wanted: Set<ClaimAccess>) {
    let others = entries.withLock { entries in
      entries.compactMap { access, entry in
        if case .asked = entry, !wanted.contains(access) { access } else { nil }
      }
    }
    release(others)
  }

  func end() {
    entries.withLock { $0 = [:] }
    table.leave(party)
  }
}
