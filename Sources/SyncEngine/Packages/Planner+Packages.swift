internal import Model
internal import SystemPackage

/// Packages go as one: what changed in one is settled together, or nothing of it is.
extension Planner {
  /// Where an item is: the packages that it is in on each side.
  struct Home {
    var here: Set<ItemID>
    var there: Set<ItemID>
    /// Those that its directories are in on the other side: it may come to be in them.
    var near: Set<ItemID> = []

    var all: Set<ItemID> { here.union(there).union(near) }

    /// Whether it is in one package on both sides, and in the same.
    var isInOne: Bool { here.count == 1 && here == there }
  }

  /// Packages that are settled together, since an item goes from one to another or one takes the
  /// name of another.
  struct Group {
    var roots: Set<ItemID>
    var items: Set<ItemID> = []
  }

  func settlePackages(_ targets: inout Targets) throws(Errno) {
    var finder = PackageFinder(view: view, types: types, items: targets.items)
    var homes: [ItemID: Home] = [:]
    for (id, trees) in targets.items {
      var home = Home(here: [], there: [])
      if let local = trees.local {
        home.here = try finder.roots(of: local.record, .local)
        home.near = try finder.rootsAcross(local.record, .local)
      }
      if let remote = trees.remote {
        home.there = try finder.roots(of: remote, .remote)
        home.near.formUnion(try finder.rootsAcross(remote, .remote))
      }
      if !home.all.isEmpty { homes[id] = home }
    }
    try keepChangesOfLosers(homes, &targets)
    guard !homes.isEmpty else { return }
    let groups = groups(homes, targets)
    targets.groups = groups.map(\.items)
    for group in groups {
      let uploads = group.items.filter { id in
        guard let local = targets.items[id]?.local else { return false }
        return local.edited.map { $0.manifest == nil } ?? false
      }
      let isBusy = group.items.contains { id in
        guard let local = targets.items[id]?.local else { return false }
        return local.isBusy
          || (local.lacksNewer && !local.replacesLost && homes[id].map { !$0.isInOne } ?? false)
      }
      if isBusy || !group.roots.isDisjoint(with: held) {
        hold(group.items, &targets)
      } else if !uploads.isEmpty {
        // Its contents first: nobody is told of a package that nobody could read.
        hold(group.items, &targets)
        for id in uploads { targets[id]?.needsUpload = true }
      } else {
        var first: Set<ItemID> = []
        var waits = false
        for root in group.roots.sorted() {
          switch try settle(root, group, homes, &finder, &targets) {
          case .settled: break
          case .keepsOurs: first.insert(root)
          case .waits: waits = true
          }
        }
        if waits {
          hold(group.items, &targets)
          forgetConflicts(group.roots, of: group, &targets)
        } else {
          targets.packages.formUnion(group.roots)
          waitForConflicts(first, in: group, &targets)
        }
      }
    }
    holdDependents(&targets)
  }

  // MARK: Groups

  private func groups(_ homes: [ItemID: Home], _ targets: Targets) -> [Group] {
    var groups: [Int: Group] = [:]
    var groupOf: [ItemID: Int] = [:]
    func join(_ roots: Set<ItemID>, _ item: ItemID) {
      let present = Set(roots.compactMap { groupOf[$0] }).sorted()
      let index = present.first ?? groups.count
      var group = groups[index] ?? Group(roots: [])
      for other in present.dropFirst() {
        guard let merged = groups[other] else { continue }
        group.roots.formUnion(merged.roots)
        group.items.formUnion(merged.items)
        groups[other] = Group(roots: [])
      }
      group.roots.formUnion(roots)
      group.items.insert(item)
      for root in group.roots { groupOf[root] = index }
      groups[index] = group
    }
    for id in homes.keys.sorted() {
      guard let home = homes[id] else { continue }
      join(home.all, id)
    }
    // Who takes a name that something of a package has, or had, is settled with that.
    var namedHere: [Link: ItemID] = [:]
    var namedThere: [Link: ItemID] = [:]
    for id in homes.keys {
      for link in targets.items[id]?.local?.record.links ?? [] { namedHere[link] = id }
      for link in targets.items[id]?.remote?.links ?? [] { namedThere[link] = id }
    }
    for id in targets.ids {
      let trees = targets.items[id]
      let others =
        (trees?.local?.record.links ?? []).compactMap { namedThere[$0] }
        + (trees?.remote?.links ?? []).compactMap { namedHere[$0] }
      for other in others where other != id {
        guard let home = homes[other] else { continue }
        join(home.all.union(homes[id]?.all ?? []), id)
      }
    }
    return groups.keys.sorted().compactMap { groups[$0] }.filter { !$0.roots.isEmpty }
  }

  // MARK: Waiting

  func hold(_ items: some Sequence<ItemID>, _ targets: inout Targets) {
    for id in items {
      let trees = targets.items[id]
      guard let record = trees?.local?.record ?? trees?.remote else { continue }
      targets[id] = Target(record: record, isDeferred: true, isHeld: true)
    }
  }

  /// What keeps a conflict's contents goes alone, and the rest when the log has them: that of a
  /// package here that gives way, or of a file that goes into a package or out of it.
  private func waitForConflicts(
    _ roots: Set<ItemID>, in group: Group, _ targets: inout Targets
  ) {
    let files = group.items.filter {
      targets[$0]?.isRemoteOnly == true && targets.archives[$0] == nil
    }
    let first = roots.union(files)
    guard !first.isEmpty else { return }
    hold(group.items.subtracting(first), &targets)
    forgetConflicts(group.roots.subtracting(first), of: group, &targets)
  }

  /// Drops the plan for the conflicts of these packages, whose items are held.
  private func forgetConflicts(
    _ roots: Set<ItemID>, of group: Group, _ targets: inout Targets
  ) {
    for root in roots {
      targets.archives[root] = nil
      // It is planned for its conflict alone.
      if targets.items[root] == nil { targets[root] = nil }
    }
    targets.archived.subtract(group.items)
    targets.keepsBase.subtract(group.items)
  }

  /// What is to be put into a directory that waits, and that is not there on both sides, waits too.
  private func holdDependents(_ targets: inout Targets) { spreadHold(&targets, upwards: false) }

  /// Items above or below one that waits wait too.
  func holdAround(_ targets: inout Targets) { spreadHold(&targets, upwards: true) }

  /// Looks once at everything that is held, what comes to be held meanwhile included.
  ///
  /// Upwards: a directory that is to go, with something in it that waits, goes when that does. To
  /// keep it, as for what stays, would bring back what someone removed.
  private func spreadHold(_ targets: inout Targets, upwards: Bool) {
    var pending = targets.ids.filter { targets[$0]?.isHeld == true }
    guard !pending.isEmpty else { return }
    // By a directory that is not there on both sides: what is to be in it. What only the log is to
    // get stays where that has it.
    var children: [ItemID: [ItemID]] = [:]
    for id in targets.presentIDs {
      guard let target = targets[id], !target.isHeld, !target.isRemoteOnly else { continue }
      for link in target.record?.links ?? [] {
        guard let above = targets.items[link.parent], above.local == nil || above.remote == nil
        else { continue }
        children[link.parent, default: []].append(id)
      }
    }
    while let id = pending.popLast() {
      var next = children[id] ?? []
      if targets.archives.removeValue(forKey: id) != nil {
        // The log gets no version of it now, so nothing of its conflict goes.
        let group = targets.group(of: id)
        targets.archived.subtract(group)
        targets.keepsBase.subtract(group)
        next += group.sorted()
      }
      if upwards {
        let trees = targets.items[id]
        for link in (trees?.local?.record.links ?? []) + (trees?.remote?.links ?? [])
        where targets[link.parent].map({ $0.record == nil }) ?? false {
          next.append(link.parent)
        }
      }
      for other in next where targets[other]?.isHeld == false {
        hold([other], &targets)
        if targets[other]?.isHeld == true { pending.append(other) }
      }
    }
  }
}
