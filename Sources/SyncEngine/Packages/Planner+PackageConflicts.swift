internal import Model
internal import Platform
internal import SystemPackage

/// Two devices changed one package: it is one device's as a whole, and the other's is kept as a
/// whole.
extension Planner {
  enum PackageSettlement {
    case settled
    /// First what is here goes into the log, as a version.
    case keepsOurs
    /// The store lost what the package is to have, and nothing was changed here.
    case waits
  }

  /// Two devices changed one package and did not know of each other: the one modified later is
  /// current as a whole, the other is kept as a whole. Where only one side changed it, each item's
  /// own merge is right.
  func settle(
    _ root: ItemID, _ group: Group, _ homes: [ItemID: Home], _ finder: inout PackageFinder<View>,
    _ targets: inout Targets
  ) throws(Errno) -> PackageSettlement {
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
    // Theirs cannot win: nobody could read all of it. The same bytes saved again count as a change.
    let lacksNewer = inside.contains { targets.items[$0]?.local?.lacksNewer == true }
    if inside.contains(where: { targets.items[$0]?.local?.replacesLost == true }) {
      isChangedHere = true
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
    guard isChangedHere, isChangedThere else {
      if lacksNewer { return .waits }
      // The bytes of the base that were uploaded again, since the store had lost them, are no edit.
      if isChangedThere {
        try takeTheirs(inside.filter { isUploadedAgain($0, targets) }, &finder, &targets)
      }
      return .settled
    }

    // An edit outlives a deletion, the whole package for the least of its files.
    guard let rootHere else {
      if let rootThere {
        targets[root] = Target(record: rootThere, replacesContent: true)
        try takeTheirs(inside, &finder, &targets)
      }
      return .settled
    }
    guard let rootThere else {
      let trees = targets.items[root]
      let revived = Merge.revived(rootHere, removed: trees?.removed, base: trees?.base)
      targets[root] = Target(record: revived).adding(trees?.keptConflicts ?? [], to: nil)
      try takeOurs(inside, &finder, &targets)
      return .settled
    }
    guard let ours = try finder.tree(root, .local, as: merge),
      let theirs = try finder.tree(root, .remote, as: merge)
    else {
      hold(group.items, &targets)
      return .settled
    }
    let kept = Set(rootThere.conflicts.map(\.id))
    if !lacksNewer, kept.contains(ours.id) || ours.id == theirs.id {
      // The log has all of it: what is here gives way.
      try takeTheirs(inside, &finder, &targets)
    } else if lacksNewer || (ours.modified, ours.id) > (theirs.modified, theirs.id) {
      try takeOurs(inside, &finder, &targets)
      if ours.id != theirs.id, !kept.contains(theirs.id) {
        // Where the package goes, it goes with what is put into it: each for itself could be a
        // cycle.
        if targets.items[root] == nil {
          targets[root] = Target(record: rootThere, isRemoteOnly: true)
        }
        targets.archives[root] = theirs
        targets.keepsBase.formUnion(inside)
      }
      if kept.contains(ours.id) {
        // It is the current one now.
        if targets.items[root] == nil, targets[root] == nil {
          targets[root] = Target(record: rootThere, isRemoteOnly: true)
        }
        targets[root]?.record?.conflicts.removeAll { $0.id == ours.id }
      }
      for id in inside where targets[id]?.record == nil { targets.archived.insert(id) }
    } else {
      // First the log gets what is here; only when it has that, it gives way.
      targets[root] = Target(record: rootThere, isRemoteOnly: true)
      targets.archives[root] = ours
      // Their contents are in that version. As versions of their own they would be kept twice.
      hold(inside.filter { targets[$0]?.isRemoteOnly == true }, &targets)
      return .keepsOurs
    }
    return .settled
  }

  private func takeOurs(
    _ inside: [ItemID], _ finder: inout PackageFinder<View>, _ targets: inout Targets
  ) throws(Errno) {
    for id in inside {
      guard let trees = targets.items[id] else { continue }
      let outer = try outerNames(trees, &finder)
      guard let local = trees.local else {
        if !outer.isEmpty, var remote = trees.remote {
          remote.links = outer
          targets[id] = Target(record: remote, replacesContent: true)
          continue
        }
        targets[id] = Target(record: nil)
        let seen = Set((trees.base?.conflicts ?? []).map(\.id))
        if let remote = trees.remote, remote.kind == .directory,
          !remote.conflicts.allSatisfy({ seen.contains($0.id) })
        {
          // It was a package itself, with versions that wait. Theirs is kept as a version, which
          // has those of files beside them, and nothing of this: so it stays.
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
          // It was made of the base. The log may have the other content by name only: were that the
          // parent, the device that has it would take the edit for its successor.
          record.content = merge.version(
            of: local, edited: edited, parent: trees.base?.content?.id)
          commits = edited
        }
      } else if let known = [content, trees.base?.content].compactMap(\.self).first(where: {
        $0.id == record.content?.id
      }) {
        record.content = known
      }
      if trees.remote == nil { record = Merge.supplied(record, from: trees.removed) }
      if let remote = trees.remote, Self.isUnsent(remote) {
        // The version that is kept of the package leaves it out: what it was given there stays with
        // it.
        record.attributes =
          merge.attributes(local: local, base: trees.base, remote: remote).attributes
      }
      var isNews = false
      if local.edited == nil,
        let readable = Merge.replacingUnsent(record, from: trees.remote ?? trees.removed)
      {
        record = readable
        isNews = true
      }
      if let remote = trees.remote {
        record.conflicts = remote.conflicts
      } else {
        // The removed record may hold the very bytes that come back.
        record.conflicts = (trees.base ?? record).conflicts
        record.conflicts =
          Merge.revived(record, removed: trees.removed, base: trees.base).conflicts.filter {
            $0.manifest == nil || $0.manifest != record.content?.manifest
          }
      }
      record.conflicts.removeAll { $0.id == record.content?.id }
      record.links = try inner(record.links, .local, &finder, with: outer)
      targets[id] = Target(record: record, replacesContent: isNews, commits: commits)
    }
  }

  private func takeTheirs(
    _ inside: [ItemID], _ finder: inout PackageFinder<View>, _ targets: inout Targets
  ) throws(Errno) {
    for id in inside {
      guard let trees = targets.items[id] else { continue }
      let outer = try outerNames(trees, &finder)
      guard let remote = trees.remote else {
        if !outer.isEmpty, let local = trees.local {
          var record = Merge.revived(local.record, removed: trees.removed, base: trees.base)
          record.links = outer
          targets[id] = merge.comingBack(
            local, as: record, parent: trees.base?.content?.id, removed: trees.removed)
          continue
        }
        // The version of our package has no conflict versions of its files, so such a file stays.
        if !trees.hasOnlyCopies { targets[id] = Target(record: nil) }
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
      record.links = try inner(remote.links, .remote, &finder, with: outer)
      if let local = trees.local, Self.isUnsent(remote) {
        record.attributes =
          merge.attributes(local: local, base: trees.base, remote: remote).attributes
      }
      targets[id] = Target(
        record: record, replacesContent: remote.kind == .file && isNews || trees.local == nil)
    }
  }

  /// The names that a file is to have outside of packages: those that neither side took away. A
  /// conflict of its package does not concern them.
  private func outerNames(
    _ trees: ItemTrees, _ finder: inout PackageFinder<View>
  ) throws(Errno) -> [Link] {
    let here = Set(try finder.outside(trees.local?.record.links ?? [], .local))
    let there = Set(try finder.outside(trees.remote?.links ?? [], .remote))
    guard !here.isEmpty || !there.isEmpty else { return [] }
    // If only one side has it outside, its directory was moved, and nobody removed it.
    var removed: Set<Link> = []
    for record in [trees.local?.record, trees.remote] {
      removed.formUnion(Set(trees.base?.links ?? []).subtracting(record?.links ?? []))
    }
    return here.union(there).subtracting(removed).sorted()
  }

  private func inner(
    _ links: [Link], _ side: PackageFinder<View>.Side, _ finder: inout PackageFinder<View>,
    with outer: [Link]
  ) throws(Errno) -> [Link] {
    let outside = Set(try finder.outside(links, side))
    // Those of a directory are never outside.
    guard !outside.isEmpty || !outer.isEmpty else { return links }
    return Set(links.filter { !outside.contains($0) }).union(outer).sorted()
  }

  private func isUploadedAgain(_ id: ItemID, _ targets: Targets) -> Bool {
    guard let trees = targets.items[id], let edited = trees.local?.edited,
      // A content that was announced by name only is uploaded for the first time.
      let known = trees.base?.content?.manifest, known == edited.manifest
    else { return false }
    // Nobody can read what is in its place: it stays until somebody can.
    if let content = trees.remote?.content, content.manifest == nil { return false }
    // If the log still has that content, it gets the new places of its chunks.
    let isCurrent = Self.isSame(trees.base?.content?.id, known, trees.remote?.content)
    return !isCurrent && Self.isSame(trees.local, trees.base)
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

  // MARK: Items that left a package

  /// Nobody removed what went with a package that lost a conflict, and the version that was kept of
  /// it lacks the changes that were made here since. An item that was changed here, and is in no
  /// package any more, stays with all that is in it.
  func keepChangesOfLosers(_ homes: [ItemID: Home], _ targets: inout Targets) throws(Errno) {
    var gone: [ItemID: Target] = [:]
    var children: [ItemID: [ItemID]] = [:]
    var kept: [ItemID] = []
    for id in targets.ids where targets[id]?.record == nil && homes[id]?.here.isEmpty ?? true {
      guard let trees = targets.items[id], let local = trees.local, local.edited == nil,
        trees.remote == nil, let base = trees.base,
        local.record.kind != .file || local.record.content?.manifest != nil,
        try wasInALoser(base, targets)
      else { continue }
      gone[id] = Target(record: Merge.revived(local.record, removed: trees.removed, base: base))
      for link in local.record.links { children[link.parent, default: []].append(id) }
      if !Self.isSame(local, base) { kept.append(id) }
    }
    while let id = kept.popLast() {
      guard let target = gone.removeValue(forKey: id) else { continue }
      targets[id] = target
      kept += children[id] ?? []
    }
  }

  /// Whether something above it has a conflict version that waits.
  private func wasInALoser(_ base: ItemRecord, _ targets: Targets) throws(Errno) -> Bool {
    var pending = base.links.map(\.parent)
    var passed: Set<ItemID> = [.root]
    while let id = pending.popLast() {
      guard passed.insert(id).inserted else { continue }
      let trees = targets.items[id]
      let remote = try trees == nil ? view.remoteRecord(id) : trees?.remote
      if remote?.conflicts.isEmpty == false { return true }
      pending += (trees?.base ?? remote)?.links.map(\.parent) ?? []
    }
    return false
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
