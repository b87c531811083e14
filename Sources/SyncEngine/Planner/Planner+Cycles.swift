internal import Model
internal import SystemPackage

/// No directory is ever within itself: not when all is done, and not while some of it waits.
extension Planner {
  /// Two moves that each were fine can make a cycle together. The log's placement is acyclic, so
  /// the directories of a cycle go back to it. A directory that they go back into stays, and may
  /// complete another cycle. True: some went back.
  func breakCycles(_ targets: inout Targets) throws(Errno) -> Bool {
    var hasMoved = false
    while true {
      let moved = sendBack(&targets)
      guard !moved.isEmpty else { return hasMoved }
      hasMoved = true
      try keepParents(moved, &targets)
    }
  }

  /// The directories that were in a cycle and are now where the log has them.
  private func sendBack(_ targets: inout Targets) -> [ItemID] {
    var moved: [ItemID] = []
    // Directories whose way up ends. None of them is in a cycle, so breaking one moves none of
    // them.
    var sound: Set<ItemID> = []
    var ancestors: [ItemID: ItemID] = [:]
    for id in targets.presentIDs where targets[id]?.record?.kind == .directory {
      var path: [ItemID] = []
      var places: [ItemID: Int] = [:]
      var current = id
      var isSound = true
      while current != .root, !sound.contains(current), let record = targets[current]?.record,
        let link = record.links.first
      {
        if let start = places[current] {
          for member in path[start...] {
            guard let links = targets.items[member]?.remote?.links,
              targets[member]?.record?.links != links
            else { continue }
            targets[member]?.record?.links = links
            moved.append(member)
          }
          isSound = false
          break
        }
        places[current] = path.count
        path.append(current)
        current =
          targets[link.parent] != nil
          ? link.parent : outsideAncestor(of: link.parent, targets, &ancestors)
      }
      if isSound { sound.formUnion(path) }
    }
    return moved
  }

  /// The nearest directory above one that both trees agree on which is itself to be planned; the
  /// root where there is none. `known` keeps the answers of one walk for the next.
  private func outsideAncestor(
    of id: ItemID, _ targets: Targets, _ known: inout [ItemID: ItemID]
  ) -> ItemID {
    var path: [ItemID] = []
    var current = id
    while current != .root, targets[current] == nil {
      if let answer = known[current] {
        current = answer
        break
      }
      // So that a walk in a circle ends.
      known[current] = .root
      path.append(current)
      guard let link = (try? view.localRecord(current))?.links.first else {
        current = .root
        break
      }
      current = link.parent
    }
    for item in path { known[item] = current }
    return current
  }

  /// What waits stays where it is on each side, and another directory that goes into it would make
  /// a cycle there: it waits too, with its package.
  func waitForCycles(_ targets: inout Targets) throws(Errno) {
    var hasMore = targets.ids.contains { targets[$0].map(Self.staysSomewhere) ?? false }
    while hasMore {
      hasMore = false
      var clear: [PackageFinder<View>.Side: Set<ItemID>] = [.local: [], .remote: []]
      for id in targets.presentIDs where targets[id]?.record?.kind == .directory {
        for side in [PackageFinder<View>.Side.local, .remote] {
          // Every cycle has one that was there and moves.
          guard let old = links(of: id, side, targets), old != targets[id]?.record?.links else {
            continue
          }
          let moved = try cycle(from: id, side, targets, &clear[side, default: []]).filter {
            member in
            guard let target = targets[member], !Self.staysSomewhere(target) else { return false }
            return target.record?.links != links(of: member, side, targets)
          }
          for member in moved {
            hold(targets.group(of: member).filter { targets[$0]?.isRemoteOnly == false }, &targets)
          }
          guard !moved.isEmpty else { continue }
          hasMore = true
          // The held items are elsewhere now.
          clear = [:]
        }
      }
      if hasMore { holdAround(&targets) }
    }
  }

  private static func staysSomewhere(_ target: Target) -> Bool {
    target.isHeld || target.isDeferred || target.isRemoteOnly
  }

  private func links(of id: ItemID, _ side: PackageFinder<View>.Side, _ targets: Targets) -> [Link]?
  {
    side == .local ? targets.items[id]?.local?.record.links : targets.items[id]?.remote?.links
  }

  /// The directories above one, when this plan is carried out on one side, if they come back to it.
  /// `clear` keeps directories that are in no cycle, as long as nothing is held.
  private func cycle(
    from id: ItemID, _ side: PackageFinder<View>.Side, _ targets: Targets,
    _ clear: inout Set<ItemID>
  ) throws(Errno) -> [ItemID] {
    var path: [ItemID] = []
    var passed: Set<ItemID> = []
    var current = id
    while current != .root, !clear.contains(current), passed.insert(current).inserted {
      path.append(current)
      let parent: ItemID?
      if let target = targets[current] {
        let stays = target.isHeld || target.isDeferred || (target.isRemoteOnly && side == .local)
        parent = (stays ? links(of: current, side, targets) : target.record?.links)?.first?.parent
      } else {
        let record =
          side == .local ? try view.localRecord(current) : try view.remoteRecord(current)
        parent = record?.links.first?.parent
      }
      current = parent ?? .root
    }
    if current == id { return path }
    // Of a way that ends in a cycle further up, what comes before that is in none.
    let end = path.firstIndex(of: current) ?? path.count
    clear.formUnion(path[..<end])
    return []
  }
}
