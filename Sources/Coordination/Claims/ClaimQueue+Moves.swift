/// An item that is somewhere else now. `to` is where it is after all moves of the batch that this
/// one is of.
package struct ItemMove: Hashable, Sendable {
  package let from: Place
  package let to: ClaimPath

  package init(from: Place, to: ClaimPath) {
    self.from = from
    self.to = to
  }
}

extension ClaimQueue {
  package struct Moved: Sendable {
    package var effects: [ClaimEffect] = []
    /// Claims that now wait in a circle: given back with their circle, and over.
    package var refused: [ClaimID: ClaimDeadlock] = [:]
    /// The presenters that went along.
    package var presenters: [PresenterID] = []
  }

  package mutating func moved(from old: ClaimPath, to new: ClaimPath) -> Moved {
    guard let place = old.places.last else { return Moved() }
    return moved([ItemMove(from: place, to: new)])
  }

  /// All of them at once: claims and presenters go with the items, also of two that changed places.
  /// A claim for replacing stays with the place. What has come to somebody else's place stays where
  /// it was claimed.
  ///
  /// Its cost is that of what is at and below the old places.
  package mutating func moved(_ moves: [ItemMove]) -> Moved {
    var result = Moved()
    var targets: [Place: ClaimPath] = [:]
    for move in moves { targets[move.from] = move.to }
    func now(_ path: ClaimPath) -> ClaimPath? {
      for at in path.places.indices.reversed() {
        guard let target = targets[path.places[at]] else { continue }
        let new = ClaimPath(target.places + path.places[(at + 1)...])
        return new == path ? nil : new
      }
      return nil
    }
    var claimed: Set<ClaimID> = []
    var presented: Set<PresenterID> = []
    for place in targets.keys {
      let claims = index.around(ClaimPath([place]))
      claimed.formUnion(claims.here + claims.below)
      let presenters = presenterIndex.around(ClaimPath([place]))
      presented.formUnion(presenters.here + presenters.below)
    }

    var around: [ClaimPath] = []
    for id in claimed.sorted() {
      guard let claim = claims[id] else { continue }
      var accesses = claim.accesses
      for at in accesses.indices {
        if case .writing(let options) = accesses[at].mode, options.contains(.forReplacing),
          let last = accesses[at].path.places.last, targets[last] != nil
        {
          continue
        }
        if let path = now(accesses[at].path) { accesses[at].path = path }
      }
      guard accesses != claim.accesses else { continue }
      around += claim.accesses.map(\.path) + accesses.map(\.path)
      displace(id, claim.accesses)
      claims[id]?.accesses = accesses
      place(id, accesses)
    }
    for id in presented.sorted() {
      guard let presenter = presenters[id], let path = now(presenter.path) else { continue }
      presenterIndex.remove(id, at: presenter.path)
      presenters[id]?.path = path
      presenterIndex.insert(id, at: path)
      result.presenters.append(id)
    }

    guard !around.isEmpty else { return result }
    for id in claims.keys.sorted() where claims[id]?.state == .waiting && isBlocked(id) {
      guard let parties = circle(from: id) else { continue }
      result.refused[id] = ClaimDeadlock(parties: parties)
      result.effects += release(id)
    }
    var seen: Set<ClaimPath> = []
    schedule(around: around.filter { seen.insert($0).inserted }, &result.effects)
    return result
  }
}
