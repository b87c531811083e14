/// Who waits for whom, and whose turn it is.
extension ClaimQueue {
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
      let around = access.mode.isWriting ? index : writers
      for list in around.meeting(access.path) {
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
  func circle(from id: ClaimID) -> [ClaimantID]? {
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
  mutating func advance(_ id: ClaimID, _ effects: inout [ClaimEffect]) {
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
          let isFirst = held[claim.claimant] == nil
          hold(id)
          effects.append(.granted(id, claim.accesses.map(\.path)))
          // Its claimant's others need not wait behind those who wait for it. If it held something
          // before, they did not then either, but behind those that are asking and that this one
          // keeps.
          guard isFirst || !asking.isEmpty else { return }
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
    // Claims of those who are asked go before this one, and may have been waiting for it.
    for party in Set(made.compactMap { presenters[$0.presenter]?.party }) {
      let theirs = waiting.filter { $0.key.party == party }.flatMap(\.value)
      for other in theirs.sorted() { advance(other, &effects) }
    }
  }

  /// What met one of the paths is gone: gives those around it their turn. Its cost does not grow
  /// with those who go on waiting.
  mutating func schedule(around paths: [ClaimPath], _ effects: inout [ClaimEffect]) {
    for path in paths {
      var candidates = InOrder(pending.meeting(path))
      while let id = candidates.next() {
        guard let claim = claims[id], claim.state != .held else { continue }
        advance(id, &effects)
        // All further ones meet this path too, and so wait for a writer that covers it; but for
        // those who overtake.
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
}
