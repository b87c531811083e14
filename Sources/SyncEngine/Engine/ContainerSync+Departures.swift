internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Very many items that were made or changed here: planned and sent part by part, since the three
/// trees of all of them at once take more memory than everything else.
///
/// A part has only what a plan says the same of with and without the rest (`Independence`). What
/// else there is waits for the plan of all that is left.
extension ContainerSync {
  /// A part whose content does not all go, since programs write to it, is left after so many
  /// rounds.
  private static let rounds = 8

  /// The batches between two reads of all pending files. A read after each batch would take longer
  /// than its upload. When the changes since then are unknown, the read comes after `piece`
  /// batches.
  private static let parts = 20
  private static let piece = 5

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
    catalog.beginMarkWatch()
    defer { catalog.endMarkWatch() }
    var hasMoved = false
    // All names before any content.
    var start: InodeNumber? = InodeNumber(0)
    while let from = start {
      let (items, next) = try local { () throws(Errno) in
        try catalog.changedItems(after: from, limit: part)
      }
      start = next
      var names = items
      switch try await sendPart(&names, to: remote, withContent: false) {
      case .overtaken: return .moved
      case .moved: hasMoved = true
      case .uploading, .nothing: break
      }
    }
    // After a part of which some went, what was changed meanwhile comes first.
    switch try await sendFiles(to: remote) {
    case .nothing where !hasMoved: return uploads.isBusy ? .uploading : .nothing
    case .uploading where !hasMoved: return .uploading
    case .nothing, .moved, .uploading, .overtaken: return .moved
    }
  }

  /// Uploads contents of files whose names are in the log, up to the limit after which all pending
  /// files are read again.
  private func sendFiles(to remote: RemoteContainer) async throws(CycleFailure) -> Outcome {
    let catalog = coordinator.catalog
    let part = settings.manyItems.departurePart
    let limit = Self.parts * part
    var latest: Set<ItemID> = []
    var passed = 0
    while true {
      let start = passed
      let files = try local { () throws(Errno) in
        try catalog.unsentFiles(
          changedSince: UploadOrder.recent(at: catalog.now), limit: limit, after: start)
      }
      var (hasSent, isStale) = (false, false)
      for first in stride(from: 0, to: files.count, by: part) {
        let last = min(first + part, files.count)
        switch try await sendContents(of: Array(files[first..<last]), to: remote) {
        case .overtaken: return .overtaken
        case .uploading: return hasSent ? .moved : .uploading
        case .moved: hasSent = true
        case .nothing: break
        }
        guard hasSent else { continue }
        switch try await sendLatest(&latest, to: remote) {
        case .overtaken: return .overtaken
        case .nothing: isStale = true
        case .uploading, .moved: break
        }
        if isStale, last >= min(Self.piece * part, files.count / 2) { return .moved }
      }
      if hasSent { return .moved }
      guard files.count == limit else { return .nothing }
      // None of these can go now.
      passed += files.count
    }
  }

  /// Sends some files whose names the log has, round by round, as long as any of them goes.
  private func sendContents(
    of files: [ItemID], to remote: RemoteContainer
  ) async throws(CycleFailure) -> Outcome {
    var left = files
    var result = Outcome.nothing
    for _ in 0..<Self.rounds where !left.isEmpty {
      switch try await sendPart(&left, to: remote, withContent: true) {
      case .overtaken: return .overtaken
      case .uploading: return .uploading
      case .nothing: return result
      case .moved: result = .moved
      }
    }
    return result
  }

  /// Uploads the files that programs changed since the last call, and those that are left of
  /// earlier ones. `.nothing`: the caller has to read all pending files again.
  private func sendLatest(
    _ latest: inout Set<ItemID>, to remote: RemoteContainer
  ) async throws(CycleFailure) -> Outcome {
    let catalog = coordinator.catalog
    guard let marked = catalog.newlyMarked() else { return .nothing }
    let known = latest.union(marked)
    latest = []
    for item in known where try local({ () throws(Errno) in try catalog.dirtyStamp(item) }) != nil {
      // A new item may replace a removed one, and is uploaded with that removal.
      guard try local({ () throws(Errno) in try catalog.local(item) }) != nil else {
        return .nothing
      }
      latest.insert(item)
    }
    guard !latest.isEmpty else { return .moved }
    guard latest.count <= settings.manyItems.departurePart else {
      latest = []
      return .nothing
    }
    let outcome = try await sendContents(of: Array(latest), to: remote)
    return outcome == .nothing ? .moved : outcome
  }

  private enum Outcome {
    case nothing
    case moved
    case uploading
    /// The log or something here is not what was planned for.
    case overtaken
  }

  /// `items` are those that may be left to be sent afterwards.
  private func sendPart(
    _ items: inout [ItemID], to remote: RemoteContainer, withContent: Bool
  ) async throws(CycleFailure) -> Outcome {
    guard !Task.isCancelled else { throw .cancelled }
    // Somebody may have claimed something since: all that is left is planned with regard to that.
    guard !coordinator.claims.concerns(coordinator.container) else { return .nothing }
    let position = try local { () throws(Errno) in try coordinator.catalog.position() }
    let part = items
    // The log has the version of an announced file when its content is uploaded.
    defer {
      if !withContent { for id in part where staged[id]?.manifest == nil { staged[id] = nil } }
    }
    let gathered = try local { () throws(Errno) in try gather(part) }
    items.removeAll { gathered.items[$0] == nil }
    let plan = try local { () throws(Errno) -> Plan? in
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
      items.removeAll { plan.versions[$0] != nil }
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
