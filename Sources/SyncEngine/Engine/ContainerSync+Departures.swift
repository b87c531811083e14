internal import Catalog
internal import Coordination
internal import Logging
package import Model
internal import Platform
internal import RemoteStore
package import SystemPackage

/// Very many items that were made or changed here: planned and sent part by part, since the three trees
/// of all of them at once take more memory than everything else.
///
/// A part has only what a plan says the same of with and without the rest (`Independence`). What else
/// there is waits for the plan of all that is left.
extension ContainerSync {
  /// A part whose content does not all go, since programs write to it, is left after so many rounds.
  private static let rounds = 8

  /// How long a part waits for its small files. Commits of many at once are cheaper.
  private static let longWait = Duration.seconds(2)

  enum Departures {
    case nothing
    /// Something went, so look again.
    case moved
    /// The rest is being uploaded.
    case uploading
  }

  /// Sends what can go in parts.
  func sendDepartures(to remote: RemoteContainer) async throws(CycleFailure) -> Departures {
    let catalog = coordinator.catalog
    guard !coordinator.claims.concerns(coordinator.container),
      try local({ () throws(Errno) in try catalog.isDirtyInMore(than: settings.manyItems.departures)
      }),
      // What is new may stand for what was removed, and goes with it.
      try !local({ () throws(Errno) in try catalog.hasRemovals() })
    else { return .nothing }
    let part = settings.manyItems.departurePart
    var hasMoved = false
    // All names before any content.
    var start: InodeNumber? = InodeNumber(0)
    while let from = start {
      let (items, next) = try local { () throws(Errno) in
        try catalog.changedItems(after: from, limit: part)
      }
      start = next
      switch try await sendPart(items, to: remote, withContent: false) {
      case .overtaken: return .moved
      case .moved: hasMoved = true
      case .uploading, .nothing: break
      }
    }
    let files = try local { () throws(Errno) in
      try catalog.unsentFiles(changedSince: UploadOrder.recent(at: catalog.now))
    }
    // After a part of which some went, what was changed meanwhile comes first.
    var hasSent = false
    for first in stride(from: 0, to: files.count, by: part) where !hasSent {
      let some = Array(files[first..<min(first + part, files.count)])
      for _ in 0..<Self.rounds {
        let outcome = try await sendPart(some, to: remote, withContent: true)
        if outcome == .overtaken { return .moved }
        if outcome == .uploading { return hasMoved || hasSent ? .moved : .uploading }
        guard outcome == .moved else { break }
        hasSent = true
      }
    }
    if hasMoved || hasSent { return .moved }
    return uploads.isBusy ? .uploading : .nothing
  }

  private enum Outcome {
    case nothing
    case moved
    case uploading
    /// The log or something here is not what was planned for.
    case overtaken
  }

  private func sendPart(
    _ items: [ItemID], to remote: RemoteContainer, withContent: Bool
  ) async throws(CycleFailure) -> Outcome {
    guard !Task.isCancelled else { throw .cancelled }
    // Somebody may have claimed something since: all that is left is planned with regard to that.
    guard !coordinator.claims.concerns(coordinator.container) else { return .nothing }
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    let plan = try local { () throws(Errno) -> Plan? in
      let gathered = try gather(items)
      var trees = gathered.items
      try holdBeyondQuota(&trees, gathered.changes, isPart: true)
      var independence = Independence(
        view: CatalogTrees(catalog: coordinator.catalog), types: coordinator.packages, items: trees)
      var chosen: [ItemID: ItemTrees] = [:]
      for (id, item) in trees where !deniedRoom.contains(id) {
        if try independence.isIndependent(id) { chosen[id] = item }
      }
      guard !chosen.isEmpty else { return nil }
      let planner = Planner(
        device: device, view: CatalogTrees(catalog: coordinator.catalog), reserved: reserved,
        packages: coordinator.packages)
      let plan = try planner.plan(chosen)
      return try denyBeyondQuota(plan) ? nil : plan
    }
    guard let plan, !plan.isPreliminary, plan.removals.isEmpty, plan.archives.isEmpty,
      plan.local.allSatisfy({ if case .agree = $0 { true } else { false } })
    else { return .nothing }
    var outcome = Outcome.nothing
    if !plan.local.isEmpty {
      guard try await apply(plan, [:], 0) else { return .overtaken }
      outcome = .moved
    }
    if !plan.upserts.isEmpty || !plan.versions.isEmpty {
      guard try await commit(plan, to: remote, after: position) else { return .overtaken }
      outcome = .moved
    }
    if withContent, !plan.uploads.isEmpty {
      switch try await upload(plan.uploads, to: remote, waiting: Self.longWait) {
      case .staged: outcome = .moved
      case .underWay: if outcome == .nothing { outcome = .uploading }
      case .nothing: break
      }
    }
    await Task.yield()
    return outcome
  }
}

/// Which of the items that were looked at can be planned without those that were not: those that are here,
/// that nobody changed elsewhere, and that are in no package; whose directories are in the log or go
/// there with them; and whose names nothing in the log has. Of a directory that was moved the plan has
/// to see where all others are.
package struct Independence<View: TreeView> {
  private let view: View
  private let items: [ItemID: ItemTrees]
  private var finder: PackageFinder<View>
  private var answers: [ItemID: Bool] = [:]

  package init(view: View, types: PackageTypes, items: [ItemID: ItemTrees]) {
    self.view = view
    self.items = items
    finder = PackageFinder(view: view, types: types, items: items)
  }

  /// Directories are decided on before what is in them, without recursion: trees may be deep.
  package mutating func isIndependent(_ id: ItemID) throws(Errno) -> Bool {
    var pending = [id]
    var begun: Set<ItemID> = []
    while let next = pending.last {
      if answers[next] == nil, begun.insert(next).inserted {
        let above = items[next]?.local?.record.links.map(\.parent) ?? []
        pending += above.filter { items[$0] != nil && answers[$0] == nil && !begun.contains($0) }
        // Its directories come first; this one comes again after them.
        if pending.last != next { continue }
      }
      pending.removeLast()
      if answers[next] == nil { answers[next] = try decide(next) }
    }
    return answers[id] ?? false
  }

  private mutating func decide(_ id: ItemID) throws(Errno) -> Bool {
    guard let trees = items[id], let local = trees.local, trees.base == trees.remote else {
      return false
    }
    let known = trees.remote?.links ?? []
    if local.record.kind == .directory, let remote = trees.remote {
      guard remote.links.map(\.parent) == local.record.links.map(\.parent) else { return false }
    }
    guard try finder.roots(of: local.record, .local).isEmpty,
      try finder.rootsAcross(local.record, .local).isEmpty
    else { return false }
    if let remote = trees.remote {
      guard try finder.roots(of: remote, .remote).isEmpty,
        try finder.rootsAcross(remote, .remote).isEmpty
      else { return false }
    }
    for link in local.record.links {
      guard try holds(link.parent) else { return false }
      if !known.contains(link),
        try view.remoteChild(of: link.parent, named: link.name) != nil
      {
        return false
      }
    }
    return true
  }

  /// Whether a directory is, or is about to be, in the log and here.
  private mutating func holds(_ directory: ItemID) throws(Errno) -> Bool {
    if directory == .root { return true }
    if let answer = answers[directory] { return answer }
    // It is being decided on itself: a directory within itself.
    if items[directory] != nil { return false }
    let here = try view.localRecord(directory)
    let there = try view.remoteRecord(directory)
    let answer = here?.kind == .directory && there?.kind == .directory
    answers[directory] = answer
    return answer
  }
}
