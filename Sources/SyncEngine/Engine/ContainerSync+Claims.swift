internal import Catalog
internal import Coordination
internal import Model
internal import Platform
internal import SystemPackage

/// The sync engine is a claimant like any other: what a program has claimed for writing it neither
/// sends nor changes, what one has claimed for reading it does not change, and whoever presents an
/// item is asked before it changes. Content is read for sending without a claim: that nobody wrote
/// meanwhile is seen afterwards. Source: Apple's documentation of `NSFileCoordinator`;
/// `docs/coordination.md`.
extension ContainerSync {
  /// What a claim keeps from being touched now, with the packages around it. The claims that the
  /// engine needs for it are asked for: they bring it here again.
  func heldByClaims(_ items: [ItemID: ItemTrees]) throws(Errno) -> Set<ItemID> {
    guard coordinator.claims.concerns(coordinator.container) else {
      claims.giveUp(except: [])
      return []
    }
    var held: Set<ItemID> = []
    var wanted: Set<ClaimAccess> = []
    // What another item takes the name of was saved by renaming, and is not gone to who presents
    // it.
    var taken: Set<Link> = []
    for trees in items.values { taken.formUnion(trees.remote?.links ?? []) }
    for (id, trees) in items where !isTimeOfDirectory(trees) {
      let isSentOnly = isSentOnly(trees)
      for (path, root) in try places(of: id, trees, isSentOnly: isSentOnly) {
        // What becomes of a package that both sides changed, no item of it tells.
        let isSending = isSentOnly && (root == nil || trees.remote == trees.base)
        let mode: ClaimMode =
          isSending
          ? .reading(.withoutChanges) : .writing(isGone(trees, taken) ? .forDeleting : [])
        let access = ClaimAccess(path, mode)
        if claims.holds(access) { continue }
        guard
          coordinator.claims.isTaken(access, for: claims.claimant)
            || (!isSending && coordinator.claims.isPresented(path))
        else { continue }
        held.insert(id)
        if let root { held.insert(root) }
        wanted.insert(access)
      }
    }
    // Who is to have a name that a held item still has, here or in the log, waits with it: else one
    // of the two would get another.
    var occupied: Set<Link> = []
    var logged: Set<Link> = []
    for id in held {
      occupied.formUnion(items[id]?.local?.record.links ?? [])
      logged.formUnion(items[id]?.remote?.links ?? [])
    }
    var isGrowing = !held.isEmpty
    while isGrowing {
      isGrowing = false
      for (id, trees) in items where !held.contains(id) {
        let own = trees.local?.record.links ?? []
        let there = trees.remote?.links ?? []
        guard
          there.contains(where: { occupied.contains($0) && !own.contains($0) })
            || own.contains(where: { logged.contains($0) && !there.contains($0) })
        else { continue }
        held.insert(id)
        occupied.formUnion(own)
        logged.formUnion(there)
        isGrowing = true
        // Its claims are asked for again with the other's, so that all are there in one round.
        let given = Set(claims.held)
        for (path, root) in try places(of: id, trees) {
          if let root { held.insert(root) }
          for mode: ClaimMode in [.reading(.withoutChanges), .writing([]), .writing(.forDeleting)] {
            let access = ClaimAccess(path, mode)
            guard given.contains(access) else { continue }
            claims.release([access])
            wanted.insert(access)
            askedAgain.insert(access)
          }
        }
      }
    }
    claims.giveUp(except: wanted)
    let signals = signals
    for access in wanted { claims.ask(for: access) { signals.look() } }
    return held
  }

  /// Nothing is changed here: what the log says of the item comes from here, or is no news.
  private func isSentOnly(_ trees: ItemTrees) -> Bool {
    guard let local = trees.local else { return false }
    if trees.remote == trees.base { return true }
    let target = Merge(device: device).target(of: trees)
    guard var record = target.record, !target.replacesContent else { return false }
    if local.edited != nil || record.kind == .directory { record.modified = local.record.modified }
    return !local.record.looksOther(than: record)
  }

  /// The time of a directory is nobody's to claim: else each file that comes, and each that goes,
  /// would claim all that is beside it.
  private func isTimeOfDirectory(_ trees: ItemTrees) -> Bool {
    guard let local = trees.local?.record, local.kind == .directory, let base = trees.base,
      let remote = trees.remote
    else { return false }
    return [base, remote].allSatisfy { record in
      var record = record
      record.modified = local.modified
      return !record.looksOther(than: local)
    }
  }

  private func isGone(_ trees: ItemTrees, _ taken: Set<Link>) -> Bool {
    trees.remote == nil && !(trees.local?.record.links.allSatisfy(taken.contains) ?? false)
  }

  /// Where an item is here, and where it is elsewhere, as far as that can be said here; with the
  /// package that it is in.
  private func places(
    of id: ItemID, _ trees: ItemTrees, isSentOnly: Bool = false
  ) throws(Errno) -> [(path: ClaimPath, root: ItemID?)] {
    var result: [(path: ClaimPath, root: ItemID?)] = []
    func add(_ item: ClaimedItem?) throws(Errno) {
      guard let item else { return }
      var root: ItemID?
      if !item.below.isEmpty, let place = item.path.places.last {
        root = try coordinator.catalog.lookup(place.name, in: place.directory)?.item
      }
      result.append((item.path, root))
    }
    if let number = try coordinator.catalog.inodeNumber(of: id) {
      try add(try coordinator.claimed(number))
    }
    let own = trees.local?.record.links ?? []
    for link in trees.remote?.links ?? [] where !own.contains(link) {
      // What is renamed where it is concerns nobody else by its old name, which something new may
      // have.
      if isSentOnly, own.contains(where: { $0.parent == link.parent }) { continue }
      guard let parent = try coordinator.catalog.inodeNumber(of: link.parent),
        let names = try coordinator.catalog.path(of: parent)
      else { continue }
      try add(try coordinator.claimed(names + [link.name]))
    }
    return result
  }

  /// Keeps everybody else out while a batch is applied. Nil: somebody has a claim on some of it.
  func holdForApplying(_ operations: [LocalOperation]) throws(Errno) -> ClaimID? {
    let top = ClaimPath([coordinator.top])
    guard coordinator.claims.concerns(coordinator.container) else {
      return coordinator.claims.hold([ClaimAccess(top, .writing([]))], by: claims.claimant)
    }
    var accesses: Set<ClaimAccess> = []
    for operation in operations {
      var trees = ItemTrees()
      let id: ItemID
      switch operation {
      case .upsert(let record, let content, _):
        id = record.id
        trees.remote = record
        if content == .keep, let shown = try coordinator.catalog.local(id)?.record,
          isTimeOfDirectory(
            ItemTrees(local: LocalSide(record: shown), base: record, remote: record))
        {
          continue
        }
      case .remove(let item, _): id = item
      case .adopt(let local, _): id = local
      case .agree, .forgetBase: continue
      }
      for (path, _) in try places(of: id, trees) {
        accesses.insert(ClaimAccess(path, .writing([])))
      }
    }
    return coordinator.claims.hold(Array(accesses), by: claims.claimant)
  }
}
