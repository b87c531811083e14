internal import Catalog
internal import Coordination
internal import Model
internal import RemoteStore
internal import SystemPackage

/// Very many removals at once, of this device or of another: applied and sent in batches, since the
/// three trees of all of them at once take more memory than everything else.
///
/// A batch has only items of which a plan says the same with and without the rest: nobody touched
/// them on the other side, nothing takes their places, they are in no package, and a directory has
/// nothing in it but what goes with the same batch.
extension ContainerSync {
  /// Applies what other devices removed.
  func applyRemovals() async throws(CycleFailure) {
    let catalog = coordinator.catalog
    let limit = settings.manyItems.arrivalPart
    guard
      try local({ () throws(Errno) in
        try catalog.differsInMore(than: settings.manyItems.arrivals)
      })
    else { return }
    var last: ItemID?
    // Items that programs claim or present are planned one by one.
    while !coordinator.claims.concerns(coordinator.container) {
      guard !Task.isCancelled else { throw .cancelled }
      let start = last
      let page = try local { () throws(Errno) in
        try catalog.removedElsewhere(after: start, limit: limit)
      }
      if let plan = try local({ () throws(Errno) in try removalPlan(page) }), !plan.local.isEmpty {
        // Items that changed meanwhile are left to the general plan.
        _ = try await apply(plan, [:], 0)
      }
      last = page.last
      catalog.giveBackMemory()
      guard page.count == limit else { return }
      await Task.yield()
    }
  }

  enum Removals {
    case nothing
    /// Some items were removed from the log or restored, so plan again.
    case moved
    /// The user is asked. `rest`: the other items that differ. They are planned without the
    /// removals, and none of them is committed. The mark watch, which the caller ends, shows
    /// whether a program changed an item since.
    case held(CycleFailure, rest: [ItemID])
  }

  /// Commits the removals of this device, unless the user is to be asked first.
  func sendRemovals(to remote: RemoteContainer) async throws(CycleFailure) -> Removals {
    let catalog = coordinator.catalog
    let limit = settings.manyItems.departurePart
    guard !coordinator.claims.concerns(coordinator.container),
      try local({ () throws(Errno) in
        try catalog.isDirtyInMore(than: settings.manyItems.departures)
      })
    else { return .nothing }
    let items: Int
    switch try judgeRemovals() {
    case .none: return .nothing
    case .comeBack: return try restoreInBatches() ? .moved : .nothing
    case .areHeld: return try await holdRemovals()
    case .mayGo(let count): items = count
    }
    var hasMoved = false
    var last: ItemID?
    while !coordinator.claims.concerns(coordinator.container) {
      guard !Task.isCancelled else { throw .cancelled }
      // The user has them back, and said so while a batch went.
      guard try deletions().restoring == 0 else { return .moved }
      let position = try local { () throws(Errno) in try catalog.position() }
      let start = last
      let page = try local { () throws(Errno) in
        try catalog.removedHere(after: start, limit: limit)
      }
      if let plan = try local({ () throws(Errno) in try removalPlan(page.map(\.item)) }),
        !plan.removals.isEmpty
      {
        // Programs removed more meanwhile. The next round judges all of it together and asks.
        guard let judged = try judgeBatch(plan, of: items) else { return .moved }
        let parents = try local { () throws(Errno) in try directories(of: plan) }
        guard try await commit(plan, to: remote, after: position) else { return .moved }
        try noteDeletions(judged)
        emptied.formUnion(parents)
        hasMoved = true
      }
      last = page.last?.item
      catalog.giveBackMemory()
      guard page.count == limit else { break }
      await Task.yield()
    }
    return hasMoved ? .moved : .nothing
  }

  /// Separates the removals that the user is asked about from the other items that differ.
  ///
  /// `.nothing`: fewer removals are certain than the guard asks about, so the plan of all items
  /// decides.
  private func holdRemovals() async throws(CycleFailure) -> Removals {
    let limit = settings.manyItems.departurePart
    var rest: [ItemID] = []
    var count = try emptyCount()
    var last: ItemID?
    coordinator.catalog.beginMarkWatch()
    while true {
      guard !Task.isCancelled else { throw .cancelled }
      let start = last
      let page = try local { () throws(Errno) in
        try coordinator.catalog.differing(after: start, limit: limit)
      }
      let plan = try local { () throws(Errno) in try removalPlan(page) } ?? Plan()
      let held = Set(plan.removals)
      rest += page.filter { !held.contains($0) }
      for removal in try local({ () throws(Errno) in try lost(plan) }) { count.add(removal) }
      last = page.last
      guard page.count == limit else { break }
      await Task.yield()
    }
    guard case .hold(let removed, let items) = settings.deletions.verdict(on: count) else {
      return .nothing
    }
    return .held(try hold(removed: removed, of: items), rest: rest)
  }

  /// Those that the removed items are in. They count for nothing when they go, as before they were
  /// emptied.
  func directories(of plan: Plan) throws(Errno) -> Set<ItemID> {
    var result: Set<ItemID> = []
    for id in plan.removals {
      result.formUnion(try coordinator.catalog.remote(id)?.links.map(\.parent) ?? [])
    }
    return result
  }

  /// Of these items, those that simply go. Nil: none does.
  private func removalPlan(_ page: [ItemID]) throws(Errno) -> Plan? {
    guard !page.isEmpty else { return nil }
    let items = try gather(page).items
    var looks = RemovalLooks(self, items)
    var chosen: [ItemID: ItemTrees] = [:]
    for (id, trees) in items where try isLoneRemoval(id, trees, &looks) { chosen[id] = trees }
    try keepFilledDirectories(&chosen)
    guard !chosen.isEmpty else { return nil }
    let planner = Planner(
      device: device, view: looks.view, reserved: reserved, packages: coordinator.packages)
    let plan = try planner.plan(chosen)
    guard !plan.isPreliminary, plan.upserts.isEmpty, plan.uploads.isEmpty, plan.versions.isEmpty,
      plan.archives.isEmpty, plan.deferred.isEmpty,
      plan.local.allSatisfy({ if case .remove = $0 { true } else { false } })
    else { return nil }
    return plan
  }

  /// Takes those directories out in which something is left when the others are gone.
  private func keepFilledDirectories(_ chosen: inout [ItemID: ItemTrees]) throws(Errno) {
    let catalog = coordinator.catalog
    var pending = chosen.filter { $0.value.base?.kind == .directory }.map(\.key)
    while let id = pending.popLast() {
      guard let trees = chosen[id] else { continue }
      let isFilled =
        trees.local == nil
        ? try catalog.hasRemoteChildren(of: id) { chosen[$0] != nil }
        : try catalog.hasChildren(of: id) { chosen[$0] != nil }
      guard isFilled else { continue }
      chosen[id] = nil
      // The directory that it is in keeps it.
      pending += (trees.local?.record.links ?? trees.remote?.links ?? []).map(\.parent)
    }
  }

  private func isLoneRemoval(
    _ id: ItemID, _ trees: ItemTrees, _ looks: inout RemovalLooks
  ) throws(Errno) -> Bool {
    guard let record = trees.base else { return false }
    switch (trees.local, trees.remote) {
    case (let local?, nil):
      guard local.stamp == nil, local.edited == nil, !local.isBusy,
        local.record.links == record.links
      else { return false }
      for link in record.links {
        guard try !looks.isReplacedElsewhere(link) else { return false }
      }
    case (nil, let remote?):
      guard remote == record, try looks.lost.lost(id) != nil, try looks.areFree(record.links)
      else { return false }
    default: return false
    }
    for side in [PackageFinder<CatalogTrees>.Side.local, .remote] {
      // A directory may be a package itself, or be in one.
      guard try looks.finder.roots(of: record, side).isEmpty,
        try looks.finder.rootsAcross(record, side).isEmpty
      else { return false }
    }
    return true
  }
}

/// What a batch of removals asks of the trees, with the answers of directories, of which many are
/// the same.
private struct RemovalLooks {
  let view: CatalogTrees
  var finder: PackageFinder<CatalogTrees>
  var lost: LostItems<CatalogTrees>
  /// Directories that the log has no more: whether another item has the place of one, or of one
  /// above it.
  private var replaced: [ItemID: Bool] = [:]

  init(_ sync: ContainerSync, _ items: [ItemID: ItemTrees]) {
    view = CatalogTrees(catalog: sync.coordinator.catalog)
    finder = PackageFinder(view: view, types: sync.coordinator.packages, items: items)
    lost = LostItems(device: sync.device, view: view)
  }

  /// Whether no local item took the names. A plan without the removal would rename that item.
  func areFree(_ links: [Link]) throws(Errno) -> Bool {
    for link in links where try view.localChild(of: link.parent, named: link.name) != nil {
      return false
    }
    return true
  }

  /// Whether something in the log takes the name, or that of a directory around it: so a tree comes
  /// that is unpacked anew, and a plan shows both changes at once.
  mutating func isReplacedElsewhere(_ link: Link) throws(Errno) -> Bool {
    if try view.remoteChild(of: link.parent, named: link.name) != nil { return true }
    var path: [ItemID] = []
    var current = link.parent
    var answer = false
    while current != .root {
      if let known = replaced[current] {
        answer = known
        break
      }
      guard try view.remoteRecord(current) == nil,
        let above = try view.localRecord(current)?.links.first
      else { break }
      // So that a walk in a circle ends.
      replaced[current] = false
      path.append(current)
      if try view.remoteChild(of: above.parent, named: above.name) != nil {
        answer = true
        break
      }
      current = above.parent
    }
    for item in path { replaced[item] = answer }
    return answer
  }
}
