package import Model
internal import Platform

/// What `status` tells of local space.
package struct SpaceState: Sendable {
  package var limit: UInt64?
  package var minimumFree: UInt64?
  /// What contents take.
  package var used: UInt64
  package var free: UInt64
  /// By how much a limit is passed.
  package var overshoot: UInt64
  /// Of all containers; nil where there is no budget, for then nobody has looked.
  package var tally: SpaceTally?
  package var tallies: [ContainerID: SpaceTally]
  /// Since the daemon started.
  package var evictedFiles: UInt64
  package var evictedBytes: UInt64
}

extension LocalSpace {
  /// Looks at every file whose content is here, where there is a budget.
  package func report() -> SpaceState? {
    lookAtOpenFiles()
    guard let now = measured() else { return nil }
    let (members, files, bytes) = state.withLock {
      ($0.members, $0.evictedFiles, $0.evictedBytes)
    }
    var result = SpaceState(
      limit: now.marks.limit, minimumFree: now.marks.minimumFree, used: now.used, free: now.free,
      overshoot: now.marks.overshoot(used: now.used, free: now.free), tally: nil, tallies: [:],
      evictedFiles: files, evictedBytes: bytes)
    guard hasBudget else { return result }
    var sum = SpaceTally()
    for (id, member) in members {
      let listing = SpaceListing(member.coordinator)
      listing.list()
      let tally = listing.tally
      result.tallies[id] = tally
      sum.evictable &+= tally.evictable
      sum.kept &+= tally.kept
      sum.unsent &+= tally.unsent
      sum.open &+= tally.open
      sum.excluded &+= tally.excluded
    }
    result.tally = sum
    return result
  }

  /// What is wrong with a container's part in it; nil while the limits hold, or evicting will see
  /// to it.
  package static func complaint(_ state: SpaceState, of container: ContainerID) -> String? {
    guard state.overshoot > 0, let all = state.tally, all.evictable < state.overshoot,
      let own = state.tallies[container]
    else { return nil }
    var reasons: [String] = []
    if own.unsent > 0 { reasons.append("\(own.unsent) bytes are not uploaded yet") }
    if own.kept > 0 { reasons.append("\(own.kept) are kept by pins and policies") }
    if own.open > 0 { reasons.append("\(own.open) are in use") }
    if own.excluded > 0 { reasons.append("\(own.excluded) are never uploaded (.nosync)") }
    guard !reasons.isEmpty else { return nil }
    let limit =
      state.limit.map { "the budget of \($0) bytes is exceeded" }
      ?? "the minimum free space is missed"
    return "local space: \(limit) by \(state.overshoot) bytes, and no more content can be evicted: "
      + "in this container " + reasons.joined(separator: ", ")
  }
}
