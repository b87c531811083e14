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
    guard !homes.isEmpty else { return }
    let groups = groups(homes, targets)
    targets.groups = groups.map(\.items)
    for group in groups {
      let uploads = group.items.filter { id in
        guard let local = targets.items[id]?.local else { return false }
        return local.edited.map { $0.manifest == nil } ?? false
      }
      let isBusy = group.items.contains { targets.items[$0]?.local?.isBusy == true }
      if isBusy || !group.roots.isDisjoint(with: held) {
        hold(group.items, &targets)
      } else if !uploads.isEmpty {
        // Its contents first: nobody is told of a package that nobody could read.
        hold(group.items, &targets)
        for id in uploads { targets[id]?.needsUpload = true }
      } else {
        var first: Set<ItemID> = []
        for root in group.roots.sorted() {
          if try settle(root, group, homes, finder, &targets) == .keepsOurs { first.insert(root) }
        }
        targets.packages.formUnion(group.roots)
        waitForConflicts(first, in: group, &targets)
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

  /// What keeps a conflict's contents goes alone, and the rest when the log has them: that of a package
  /// here that gives way, or of a file that goes into a package or out of it.
  private func waitForConflicts(
    _ roots: Set<ItemID>, in group: Group, _ targets: inout Targets
  ) {
    let files = group.items.filter {
      targets[$0]?.isRemoteOnly == true && targets.archives[$0] == nil
    }
    let first = roots.union(files)
    guard !first.isEmpty else { return }
    hold(group.items.subtracting(first), &targets)
    for root in group.roots.subtracting(first)
    where targets.archives.removeValue(forKey: root) != nil {
      if targets.items[root] == nil { targets[root] = nil }
    }
    targets.archived.subtract(group.items)
  }

  /// What is to be put into a directory that waits, and that is not there on both sides, waits too.
  private func holdDependents(_ targets: inout Targets) {
    guard targets.ids.contains(where: { targets[$0]?.isHeld == true }) else { return }
    var hasMore = true
    while hasMore {
      hasMore = false
      for id in targets.presentIDs {
        // What only the log is to get stays where that has it.
        guard let target = targets[id], !target.isHeld, !target.isRemoteOnly else { continue }
        let waits = (targets[id]?.record?.links ?? []).contains { link in
          guard targets[link.parent]?.isHeld == true, let above = targets.items[link.parent] else {
            return false
          }
          return above.local == nil || above.remote == nil
        }
        if waits {
          hold([id], &targets)
          hasMore = true
        }
      }
    }
  }

  /// What stands above or below something that waits, waits: until nothing more does, since a directory that
  /// is kept brings others.
  func holdAround(_ targets: inout Targets) {
    var count = -1
    while count != targets.heldCount {
      count = targets.heldCount
      holdParents(&targets)
      holdDependents(&targets)
    }
  }

  /// A directory that is to go, with something in it that waits, goes when that does. To keep it, as
  /// for what stays, would bring back what someone removed.
  private func holdParents(_ targets: inout Targets) {
    var pending = targets.ids.filter { targets[$0]?.isHeld == true }
    while let id = pending.popLast() {
      let trees = targets.items[id]
      for link in (trees?.local?.record.links ?? []) + (trees?.remote?.links ?? []) {
        guard let target = targets[link.parent], target.record == nil else { continue }
        hold([link.parent], &targets)
        if targets[link.parent]?.isHeld == true { pending.append(link.parent) }
      }
    }
  }

  // MARK: Conflicts

  private enum Settlement {
    case settled
    /// First what is here goes into the log, as a version.
    case keepsOurs
  }

  /// Two devices changed one package and did not know of each other: the one modified later is
  /// current as a whole, the other is kept as a whole. Where only one side changed it, each item's
  /// own merge is right.
  private func settle(
    _ root: ItemID, _ group: Group, _ homes: [ItemID: Home], _ finder: PackageFinder<View>,
    _ targets: inout Targets
  ) throws(Errno) -> Settlement {
    // What goes into the package or out of it merges on its own, and so do the facets of its own
    // directory: a rename and an edit merge.
    let inside = group.items.sorted().filter { id in
      guard id != root, let trees = targets.items[id], let home = homes[id] else { return false }
      return (trees.local == nil || home.here == [root])
        && (trees.remote == nil || home.there == [root])
        && (trees.local != nil || trees.remote != nil)
    }
    var isChangedHere = false
    var isChangedThere = false
    for id in inside {
      guard let trees = targets.items[id] else { continue }
      if Self.isSame(trees.local, trees.remote) { continue }
      if !Self.isSame(trees.local, trees.base) { isChangedHere = true }
      if !Self.isSame(trees.remote, trees.base) { isChangedThere = true }
    }
    let rootHere = try finder.record(root, .local)
    let rootThere = try finder.record(root, .remote)
    if rootHere == nil, let known = targets.items[root]?.base {
      // Removed here by someone who had not seen that conflict.
      let seen = Set(known.conflicts.map(\.id))
      if rootThere?.conflicts.contains(where: { !seen.contains($0.id) }) == true {
        isChangedThere = true
      }
    }
    guard isChangedHere, isChangedThere else { return .settled }

    // An edit outlives a deletion, the whole package for the least of its files.
    guard let rootHere else {
      if let rootThere {
        targets[root] = Target(record: rootThere, replacesContent: true)
        takeTheirs(inside, &targets)
      }
      return .settled
    }
    guard let rootThere else {
      targets[root] = Target(record: rootHere)
      takeOurs(inside, &targets)
      return .settled
    }
    guard let ours = try finder.tree(root, .local, as: merge),
      let theirs = try finder.tree(root, .remote, as: merge)
    else {
      hold(group.items, &targets)
      return .settled
    }
    let kept = Set(rootThere.conflicts.map(\.id))
    if kept.contains(ours.id) || ours.id == theirs.id {
      // The log has all of it: what is here gives way.
      takeTheirs(inside, &targets)
    } else if (ours.modified, ours.id) > (theirs.modified, theirs.id) {
      takeOurs(inside, &targets)
      if !kept.contains(theirs.id) {
        // Where the package goes, it goes with what is put into it: each for itself could be a cycle.
        if targets.items[root] == nil {
          targets[root] = Target(record: rootThere, isRemoteOnly: true)
        }
        targets.archives[root] = theirs
      }
      for id in inside where targets[id]?.record == nil { targets.archived.insert(id) }
    } else {
      // First the log gets what is here; only when it has that, it gives way.
      targets[root] = Target(record: rootThere, isRemoteOnly: true)
      targets.archives[root] = ours
      return .keepsOurs
    }
    return .settled
  }

  private func takeOurs(_ inside: [ItemID], _ targets: inout Targets) {
    for id in inside {
      guard let trees = targets.items[id] else { continue }
      guard let local = trees.local else {
        targets[id] = Target(record: nil)
        let seen = Set((trees.base?.conflicts ?? []).map(\.id))
        if let remote = trees.remote, remote.kind == .directory,
          !remote.conflicts.allSatisfy({ seen.contains($0.id) })
        {
          // It was a package itself, with versions that wait. Theirs is kept as a version, which has
          // those of files beside them, and nothing of this: so it stays.
          targets[id] = Target(record: remote, replacesContent: true)
        }
        continue
      }
      var record = local.record
      var commits: EditedContent?
      let content = trees.remote?.content
      if let edited = local.edited {
        if let content, content.manifest == edited.manifest {
          record.content = content
          commits = EditedContent(version: content.id, manifest: edited.manifest)
        } else {
          record.content = merge.version(of: local, edited: edited, parent: content?.id)
          commits = edited
        }
      } else if let known = [content, trees.base?.content].compactMap(\.self).first(where: {
        $0.id == record.content?.id
      }) {
        record.content = known
      }
      if let remote = trees.remote, Self.isUnsent(remote) {
        // The version that is kept of the package leaves it out: what it was given there stays with it.
        record.attributes =
          merge.attributes(local: local, base: trees.base, remote: remote).attributes
      }
      var isNews = false
      if record.kind == .file, record.content?.manifest == nil, let content,
        content.manifest != nil
      {
        // Announced and never sent: nobody ever had that, and here is what came in its stead.
        record.content = content
        record.modified = trees.remote?.modified ?? record.modified
        isNews = true
      }
      record.conflicts = (trees.remote ?? trees.base ?? record).conflicts.filter {
        $0.id != record.content?.id
      }
      targets[id] = Target(record: record, replacesContent: isNews, commits: commits)
    }
  }

  private func takeTheirs(_ inside: [ItemID], _ targets: inout Targets) {
    for id in inside {
      guard let trees = targets.items[id], let remote = trees.remote else {
        targets[id] = Target(record: nil)
        continue
      }
      if let content = remote.content, content.manifest == nil, content.device == merge.device {
        // Announced from here and not sent: nobody else has it, nor ever will.
        targets[id] = ourAnnouncement(trees, remote)
        continue
      }
      let isNews =
        trees.local.map { $0.edited != nil || $0.record.content?.id != remote.content?.id } ?? true
      var record = remote
      if let local = trees.local, Self.isUnsent(remote) {
        record.attributes =
          merge.attributes(local: local, base: trees.base, remote: remote).attributes
      }
      targets[id] = Target(
        record: record, replacesContent: remote.kind == .file && isNews || trees.local == nil)
    }
  }

  /// Announced by the device that has its content, which nobody else has.
  private static func isUnsent(_ record: ItemRecord) -> Bool {
    record.kind == .file && record.content?.manifest == nil
  }

  private func ourAnnouncement(_ trees: ItemTrees, _ remote: ItemRecord) -> Target {
    guard let local = trees.local, let edited = local.edited else { return Target(record: nil) }
    var record = remote
    record.modified = local.record.modified
    record.content = merge.version(of: local, edited: edited, parent: nil)
    return Target(record: record, commits: edited)
  }

  // MARK: Comparing

  /// Times apart: who writes the same bytes again, or only looks, changes nothing of a document.
  private static func isSame(_ left: ItemRecord?, _ right: ItemRecord?) -> Bool {
    guard let left, let right else { return left == nil && right == nil }
    return essence(left) == essence(right)
      && isSame(left.content?.id, left.content?.manifest, right.content)
  }

  private static func isSame(_ left: LocalSide?, _ right: ItemRecord?) -> Bool {
    guard let left, let right else { return left == nil && right == nil }
    guard essence(left.record) == essence(right) else { return false }
    let content =
      left.edited.map { (Optional($0.version), $0.manifest) }
      ?? (left.record.content?.id, left.record.content?.manifest)
    return isSame(content.0, content.1, right.content)
  }

  private static func isSame(
    _ version: VersionID?, _ manifest: Manifest?, _ content: ContentVersion?
  ) -> Bool {
    version == content?.id || (manifest != nil && manifest == content?.manifest)
  }

  private static func essence(_ record: ItemRecord) -> ItemRecord {
    var result = record
    result.modified = Timestamp(nanoseconds: 0)
    result.created = Timestamp(nanoseconds: 0)
    result.content = nil
    result.conflicts = []
    return result
  }
}
