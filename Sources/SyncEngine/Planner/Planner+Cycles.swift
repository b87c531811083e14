internal import Model
internal import SystemPackage

/// No directory is ever within itself: not when all is done, and not while some of it waits.
extension Planner {
  /// Two moves that each were fine can make a cycle together. The log's placement is acyclic, so
  /// the directories of a cycle go back to it.
  func breakCycles(_ targets: inout Targets) {
    for id in targets.presentIDs where targets[id]?.record?.kind == .directory {
      var path: [ItemID] = []
      var current = id
      while current != .root, let record = targets[current]?.record, let link = record.links.first {
        if let start = path.firstIndex(of: current) {
          for member in path[start...] {
            if let links = targets.items[member]?.remote?.links {
              targets[member]?.record?.links = links
            }
          }
          break
        }
        path.append(current)
        current =
          targets[link.parent] != nil
          ? link.parent : (try? outsideAncestor(of: link.parent, targets)) ?? .root
      }
    }
  }

  /// The nearest directory above one that both trees agree on which is itself to be planned.
  private func outsideAncestor(of id: ItemID, _ targets: Targets) throws(Errno) -> ItemID {
    var current = id
    var steps = 0
    while current != .root, targets[current] == nil, steps < 10_000 {
      guard let link = try view.localRecord(current)?.links.first else { return .root }
      current = link.parent
      steps += 1
    }
    return current
  }

  /// What waits stays where it is on each side, and another directory that goes into it would make a cycle
  /// there: it waits too, with its package.
  func waitForCycles(_ targets: inout Targets) throws(Errno) {
    var hasMore = targets.ids.contains { targets[$0].map(Self.staysSomewhere) ?? false }
    while hasMore {
      hasMore = false
      for id in targets.presentIDs where targets[id]?.record?.kind == .directory {
        for side in [PackageFinder<View>.Side.local, .remote] {
          // Every cycle has one that was there and moves.
          guard let old = links(of: id, side, targets), old != targets[id]?.record?.links else {
            continue
          }
          let moved = try cycle(from: id, side, targets).filter { member in
            guard let target = targets[member], !Self.staysSomewhere(target) else { return false }
            return target.record?.links != links(of: member, side, targets)
          }
          for member in moved {
            hold(targets.group(of: member).filter { targets[$0]?.isRemoteOnly == false }, &targets)
          }
          if !moved.isEmpty { hasMore = true }
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
  private func cycle(from id: ItemID, _ side: PackageFinder<View>.Side, _ targets: Targets)
    throws(Errno) -> [ItemID]
  {
    var path: [ItemID] = []
    var passed: Set<ItemID> = []
    var current = id
    while current != .root, passed.insert(current).inserted {
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
      guard let parent else { return [] }
      current = parent
    }
    return current == id ? path : []
  }
}
