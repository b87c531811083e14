internal import Catalog
internal import Coordination
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Very many new items at once: a device that is new in a large container, or a large tree that
/// came.
extension ContainerSync {
  /// Makes what is new and meets nothing here, so that planning has only the rest to look at.
  func bringArrivals() async throws(CycleFailure) {
    let catalog = coordinator.catalog
    let packages = coordinator.packages
    let device = device
    guard
      try local({ () throws(Errno) in try catalog.differsInMore(than: settings.manyItems.arrivals) }
      )
    else {
      return
    }
    defer { catalog.useLargeCache(false) }
    // The newest of all is known when all of them are.
    let holds = coordinator.hasBudget
    if holds { fetcher.holdBacklog() }
    defer { if holds { fetcher.releaseBacklog() } }
    var cursor = ArrivalCursor()
    while !cursor.isDone {
      await cursor.prepare()
      guard !Task.isCancelled else { throw .cancelled }
      // What programs claim or present is planned for one by one.
      guard !coordinator.claims.concerns(coordinator.container),
        let claim = try local({ () throws(Errno) in try holdForApplying([]) })
      else { return }
      defer { claims.table.release(claim) }
      // A package is made as a whole or not at all. What cannot be made as it is, the planner
      // settles, and what this device announced before a crash and does not have any more.
      let (made, invalidations) = try local { () throws(Errno) in
        try catalog.bringArrivals(&cursor, limit: settings.manyItems.arrivalPart) {
          packages.isPackage($0) || !LostItems<CatalogTrees>.isThere($0, for: device)
        }
      }
      coordinator.invalidate(invalidations)
      coordinator.tell(made.flatMap(\.changes), by: { writers[$0] })
      fetch(made)
      await Task.yield()
    }
  }

  /// Starts to bring what is wanted before it is opened.
  private func fetch(_ arrivals: [Arrival]) {
    let coordinator = coordinator
    let isGreedy = policy == .greedy
    // One look at the directories above for all that came into one.
    var wanted: [InodeNumber: Bool] = [:]
    for arrival in arrivals where arrival.record.kind == .file {
      let isWanted =
        wanted[arrival.parent]
        ?? (try? coordinator.catalog.inode(arrival.parent)).map {
          coordinator.keeping(of: $0).isWanted(isGreedy: isGreedy)
        } ?? isGreedy
      wanted[arrival.parent] = isWanted
      if isWanted { try? coordinator.startWanted(arrival.number, isGreedy: isGreedy) }
    }
  }
}
