internal import Catalog
package import Model
internal import Platform
package import SystemPackage

/// From what differs between the three trees, the next operations that bring them together.
///
/// Pure: no I/O of its own, no clock, no randomness, and the same answer for the same trees. Plan,
/// apply, look again: repeated, that ends with local = remote = base and nothing lost that someone
/// did not remove knowingly. Source: `docs/architecture.md`, "Three trees".
package struct Planner<View: TreeView> {
  let view: View
  let merge: Merge
  /// Names that something outside the trees has, such as a FIFO that stays on the device.
  let reserved: Set<Link>
  let types: PackageTypes
  /// Packages that are not to be touched now: a program writes in them, or did a moment ago.
  let held: Set<ItemID>
  /// Items that are not to be touched now: a program claims them.
  let claimed: Set<ItemID>

  package init(
    device: Model.DeviceID, view: View, reserved: Set<Link> = [],
    packages: PackageTypes = .standard, held: Set<ItemID> = [],
    claimed: Set<ItemID> = []
  ) {
    self.view = view
    self.merge = Merge(device: device)
    self.reserved = reserved
    self.types = packages
    self.held = held
    self.claimed = claimed
  }

  package func plan(_ items: [ItemID: ItemTrees], counting steps: StepCount = StepCount())
    throws(Errno) -> Plan
  {
    var targets = Targets(items: items, steps: steps)
    for (id, trees) in items { targets[id] = merge.target(of: trees) }
    try settlePackages(&targets)
    try keepParents(targets.presentIDs, &targets)
    hold(claimed.filter { items[$0] != nil }.sorted(), &targets)
    holdAround(&targets)
    if try breakCycles(&targets) { holdAround(&targets) }
    try keepForExcluded(&targets)
    try waitForCycles(&targets)
    if let adoption = try settleNames(&targets) { return adoption }
    return try emit(targets)
  }

  // MARK: Parents

  /// A directory that one of `children` is still in, or is put into, stays. Source: CONTRACT,
  /// "Conflicts".
  func keepParents(_ children: [ItemID], _ targets: inout Targets) throws(Errno) {
    var pending = children
    var placed: Set<ItemID> = []
    while let id = pending.popLast() {
      guard placed.insert(id).inserted, let target = targets[id], var record = target.record else {
        continue
      }
      if target.isHeld { continue }
      var isMoved = false
      if target.isDeferred || target.isRemoteOnly {
        // It stays for now where it is on each side, so what it is in stays as well.
        let trees = targets.items[id]
        for link in (trees?.local?.record.links ?? []) + (trees?.remote?.links ?? [])
        where link.parent != .root && targets[link.parent]?.record == nil {
          guard let kept = try recordToKeep(link.parent, targets) else { continue }
          targets[link.parent] = Target(record: kept)
          placed.remove(link.parent)
          pending.append(link.parent)
        }
      }
      for (index, link) in record.links.enumerated() where link.parent != .root {
        if targets[link.parent]?.record != nil { continue }
        if let kept = try recordToKeep(link.parent, targets) {
          targets[link.parent] = Target(record: kept)
          placed.remove(link.parent)
          pending.append(link.parent)
        } else if try !isKnownOnBothSides(link.parent, targets) {
          // Nobody knows the directory any more; what was in it is kept in the root.
          record.links[index].parent = .root
          isMoved = true
        }
      }
      if isMoved {
        record.links.sort()
        targets[id]?.record = record
      }
    }
  }

  private func isKnownOnBothSides(_ id: ItemID, _ targets: Targets) throws(Errno) -> Bool {
    guard targets[id] == nil, try view.localRecord(id) != nil else { return false }
    return try view.remoteRecord(id) != nil
  }

  /// The record with which a directory that is about to go, or is known here alone, is kept; nil
  /// when it needs no keeping or can't be kept.
  private func recordToKeep(_ id: ItemID, _ targets: Targets) throws(Errno) -> ItemRecord? {
    if let trees = targets.items[id] {
      if trees.remote == nil, let local = trees.local {
        return Merge.revived(local.record, removed: trees.removed, base: trees.base)
      }
      return trees.local?.record ?? trees.remote ?? trees.base
    }
    guard try view.remoteRecord(id) == nil else { return nil }
    return try view.localRecord(id)
  }

  /// A directory removed elsewhere that holds what never leaves the device is kept here alone, and
  /// so are the directories above it.
  private func keepForExcluded(_ targets: inout Targets) throws(Errno) {
    var kept: [ItemID] = []
    for id in targets.items.keys.sorted() {
      guard targets[id]?.record == nil, let local = targets.items[id]?.local,
        local.record.kind == .directory, try view.hasExcludedChildren(of: id)
      else { continue }
      kept.append(id)
    }
    while let id = kept.popLast() {
      guard targets[id]?.record == nil, targets[id]?.isKeptLocally == false else { continue }
      targets[id]?.isKeptLocally = true
      for link in targets.items[id]?.local?.record.links ?? [] { kept.append(link.parent) }
    }
  }

  // MARK: Output

  private func emit(_ targets: Targets) throws(Errno) -> Plan {
    var plan = Plan()
    var removals: [(depth: Int, operation: LocalOperation)] = []
    var upserts: [(depth: Int, operation: LocalOperation)] = []
    var depths = Depths(targets)
    for id in targets.ids {
      guard let target = targets[id] else { continue }
      let trees = targets.items[id] ?? ItemTrees()
      if target.needsUpload { plan.uploads.append(id) }
      if target.keepsParent { plan.keepsParent.insert(id) }
      if target.isDeferred {
        plan.deferred.append(id)
        continue
      }
      guard let record = target.record else {
        if target.isKeptLocally {
          plan.local.append(.forgetBase(id))
        } else if let local = trees.local {
          removals.append((depths.depth(of: local.record), .remove(id, stamp: trees.stamp)))
        } else if trees.remote == nil {
          plan.local.append(.agree(id, stamp: trees.stamp))
        }
        if trees.remote != nil {
          plan.removals.append(id)
          plan.settled[id] = trees.stamp ?? 0
        }
        continue
      }
      let changesRemote = record != trees.remote || targets.archives[id] != nil
      if target.isRemoteOnly {
        plan.upserts.append(record)
        if !PlantedMistake.movesBaseEarly.isPlanted { plan.undecided.insert(id) }
        if let edited = trees.local?.edited, record.content?.id == edited.version {
          plan.winners.insert(id)
        }
        continue
      }
      var shown = record
      if let local = trees.local, local.edited != nil, !target.replacesContent,
        target.commits == nil || target.commits?.version != trees.remote?.content?.id
      {
        // The time belongs to the edit, whether the log has it yet or not; that of the same bytes
        // on both sides is the log's.
        shown.modified = local.record.modified
      }
      let changesLocal =
        target.replacesContent || trees.local.map { $0.record.looksOther(than: shown) } ?? true
      if changesLocal {
        if target.replacesContent, trees.local != nil { plan.replaced.append(id) }
        upserts.append(
          (
            depths.depth(of: record),
            .upsert(
              shown, content: target.replacesContent ? .placeholder : .keep, stamp: trees.stamp)
          ))
      }
      let isWhole = !target.needsUpload
      if changesRemote {
        plan.upserts.append(record)
        if target.keepsParent, record.content == trees.remote?.content {
          plan.undecided.insert(id)
        } else if trees.local != nil {
          plan.ofHere.insert(id)
        }
      }
      if isWhole, changesRemote || target.commits != nil {
        plan.settled[id] = trees.stamp ?? 0
        if let edited = target.commits { plan.versions[id] = edited.version }
      } else if isWhole, !changesLocal {
        plan.local.append(.agree(id, stamp: trees.stamp))
      }
    }
    plan.local.insert(contentsOf: upserts.sorted { $0.depth < $1.depth }.map(\.operation), at: 0)
    plan.local += removals.sorted { $0.depth > $1.depth }.map(\.operation)
    for id in targets.nameKeepers { plan.givens[id] = .some(targets.items[id]?.stamp) }
    plan.archives = targets.archives
    plan.archived = targets.archived
    plan.keepsBase = targets.keepsBase
    plan.packages = targets.packages
    return plan
  }
}

extension ItemRecord {
  /// Whether two records differ in anything that the mount shows, contents apart.
  func looksOther(than other: ItemRecord) -> Bool {
    var like = self
    like.content = other.content
    like.conflicts = other.conflicts
    return like != other
  }
}
