extension ClaimQueue {
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
}
