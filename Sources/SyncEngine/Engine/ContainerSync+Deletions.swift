internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import SystemPackage

/// The user's word on mass deletions, and what follows from it. `DeletionGuard` decides.
extension ContainerSync {
  /// What is gone here now may go everywhere.
  package func confirmDeletions() throws(SyncFailure) {
    try decide { record, stamp in record.confirm(upTo: stamp, at: now) }
  }

  /// What is gone here now and still in the log comes back, as placeholders. The next cycles do it:
  /// noted first, so that a device that stops half-way goes on with it and removes nothing.
  package func restoreDeletions() throws(SyncFailure) {
    try decide { record, stamp in record.restoring = stamp }
  }

  private func decide(_ body: (inout DeletionRecord, UInt64) -> Void) throws(SyncFailure) {
    do throws(CycleFailure) {
      var record = try deletions()
      // Every mark that there is is below this one, every later one above.
      body(&record, coordinator.catalog.nextGeneration())
      try setDeletions(record)
      try local { () throws(Errno) in try coordinator.catalog.commit(durable: true) }
    } catch {
      throw error.asSyncFailure
    }
    trigger()
  }

  // MARK: In a cycle

  /// A plan's removals as they were judged, and what is to be noted when they are in the log.
  struct JudgedDeletions {
    let before: DeletionRecord
    let after: DeletionRecord
  }

  /// Throws `.held` if the user is to be asked. Nothing of the plan is committed then: the rest of it
  /// may stand on the removals, as a new file does that has the name of an old one.
  func judgeDeletions(_ plan: Plan) throws(CycleFailure) -> JudgedDeletions {
    var record = try deletions()
    let removals = try local { () throws(Errno) in try lost(plan) }
    let items =
      removals.isEmpty
      ? 0 : try local { () throws(Errno) in try coordinator.catalog.loggedLeafCount() }
    switch settings.deletions.verdict(on: removals, after: record, items: items, now: now) {
    case .goOn(let after):
      return JudgedDeletions(before: record, after: after)
    case .hold(let removed, let items):
      if !record.isHeld {
        record.isHeld = true
        try setDeletions(record)
      }
      throw .held(heldText(removed, of: items))
    }
  }

  private func heldText(_ removed: Int, of items: Int) -> String {
    """
    sync of \(coordinator.container) is paused: \(removed) of its \(items) items were removed \
    here and would go from every device; let them go with `ubiquityfs sync \
    --confirm-deletions`, or have them back here with `ubiquityfs sync --restore-deletions`
    """
  }

  /// The message for the user if the next cycle will ask about the removals so far.
  package func heldDeletions() throws(SyncFailure) -> String? {
    do throws(CycleFailure) {
      let catalog = coordinator.catalog
      var plan = Plan()
      for id in try local({ () throws(Errno) in try catalog.differing() }) {
        let isRemoved = try local { () throws(Errno) in
          guard try catalog.local(id) == nil, try catalog.remote(id) != nil else { return false }
          return try catalog.base(id) != nil
        }
        guard isRemoved else { continue }
        plan.removals.append(id)
        plan.settled[id] = try local { () throws(Errno) in try catalog.dirtyStamp(id) }
      }
      let record = try deletions()
      let removals = try local { () throws(Errno) in try lost(plan) }
      let items = try local { () throws(Errno) in try catalog.loggedLeafCount() }
      switch settings.deletions.verdict(on: removals, after: record, items: items, now: now) {
      case .goOn: return nil
      case .hold(let removed, let items): return heldText(removed, of: items)
      }
    } catch {
      throw error.asSyncFailure
    }
  }

  private func lost(_ plan: Plan) throws(Errno) -> [DeletionGuard.Removal] {
    var items = LostItems(
      device: device, view: CatalogTrees(catalog: coordinator.catalog))
    var result: [DeletionGuard.Removal] = []
    // What is kept in a version of its package nobody removed.
    for id in plan.removals where !plan.archived.contains(id) {
      guard let record = try items.lost(id) else { continue }
      if record.kind == .directory {
        if emptied.contains(id) { continue }
        if try !coordinator.catalog.remoteChildren(of: id).isEmpty { continue }
      }
      result.append(
        DeletionGuard.Removal(stamp: plan.settled[id] ?? 0, created: record.created))
    }
    return result
  }

  /// Removals of this device that come back in its own segment, about to be folded: it stopped before
  /// it noted them, and they count all the same.
  func noteUnacknowledged(_ removals: [ItemID]) throws(CycleFailure) {
    guard !removals.isEmpty else { return }
    let record = try deletions()
    let catalog = coordinator.catalog
    var plan = Plan()
    for id in removals {
      let isGoneHere = try local { () throws(Errno) in
        // Of a former catalog of this device nothing is known here, and that is long ago.
        guard try catalog.base(id) != nil else { return false }
        return try catalog.local(id) == nil
      }
      guard isGoneHere else { continue }
      plan.removals.append(id)
      plan.settled[id] = try local { () throws(Errno) in try catalog.dirtyStamp(id) }
    }
    let counted = try local { () throws(Errno) in try lost(plan) }
    let items = try local { () throws(Errno) in try catalog.loggedLeafCount() }
    let unasking = DeletionGuard(share: 1)
    if !counted.isEmpty,
      case .goOn(let after) = unasking.verdict(on: counted, after: record, items: items, now: now)
    {
      try setDeletions(after)
    }
  }

  /// How many items the log has, if all that is gone here now may go from it without asking and
  /// nothing is to be brought back. Nil: the plan of all of it decides.
  func itemsIfAllMayGo() throws(CycleFailure) -> Int? {
    let record = try deletions()
    guard record.restoring == 0 else { return nil }
    let catalog = coordinator.catalog
    var plan = Plan()
    let limit = 10_000
    while true {
      let last = plan.removals.last
      let page = try local { () throws(Errno) in
        try catalog.removedHere(after: last, limit: limit)
      }
      for (item, stamp) in page {
        plan.removals.append(item)
        plan.settled[item] = stamp
      }
      if page.count < limit { break }
    }
    guard !plan.removals.isEmpty else { return nil }
    let removals = try local { () throws(Errno) in try lost(plan) }
    let items = try local { () throws(Errno) in try catalog.loggedLeafCount() }
    guard
      case .goOn = settings.deletions.verdict(
        on: removals, after: record, items: items, now: now)
    else { return nil }
    return items
  }

  /// A batch of removals that were judged all together. Each is judged again with those before it:
  /// more may be removed here while the batches go. Nil: the user is to be asked.
  func judgeBatch(_ plan: Plan, of items: Int) throws(CycleFailure) -> JudgedDeletions? {
    let record = try deletions()
    let removals = try local { () throws(Errno) in try lost(plan) }
    guard
      case .goOn(let after) = settings.deletions.verdict(
        on: removals, after: record, items: items, now: now)
    else { return nil }
    return JudgedDeletions(before: record, after: after)
  }

  /// They are in the log. A word of the user that came meanwhile stands.
  func noteDeletions(_ judged: JudgedDeletions) throws(CycleFailure) {
    let present = try deletions()
    guard present.confirmed == judged.before.confirmed else { return }
    var after = judged.after
    after.restoring = present.restoring
    if after != present { try setDeletions(after) }
  }

  /// Nothing is left to remove: it was put back by hand.
  func deletionsEnded() throws(CycleFailure) {
    emptied = []
    var record = try deletions()
    guard record.isHeld || record.restoring != 0 else { return }
    record.isHeld = false
    record.restoring = 0
    try setDeletions(record)
  }

  /// How many are brought back in one transaction: requests of the kernel wait for it.
  private static let batch = 1_000

  /// Forgets that these items ever were here, so that they are as new from elsewhere and come like
  /// that; the planner settles names that were taken since. False: nothing is to be restored.
  func restoreRemoved(_ plan: Plan) throws(CycleFailure) -> Bool {
    var record = try deletions()
    // A preliminary plan says nothing of removals.
    guard record.restoring != 0, !plan.isPreliminary else { return false }
    var items: [ItemID] = []
    for id in plan.removals where !plan.archived.contains(id) {
      guard let stamp = plan.settled[id], stamp <= record.restoring,
        let remote = try local({ () throws(Errno) in try coordinator.catalog.remote(id) }),
        LostItems<CatalogTrees>.isThere(remote, for: device)
      else { continue }
      items.append(id)
    }
    guard !items.isEmpty else {
      record.restoring = 0
      record.isHeld = false
      try setDeletions(record)
      return false
    }
    var rest = items[...]
    while !rest.isEmpty {
      let part = rest.prefix(Self.batch)
      rest = rest.dropFirst(part.count)
      // One that was put back meanwhile has another mark, and is left as it is.
      let marks = Dictionary(
        uniqueKeysWithValues: part.map { ($0, plan.settled[$0].flatMap { $0 == 0 ? nil : $0 }) })
      do throws(ApplyFailure) {
        _ = try coordinator.catalog.apply(
          part.map { .forgetBase($0) }, given: marks, isOpen: { _ in false },
          isOpenForWriting: { _ in false })
      } catch .changed {
        return true
      } catch {
        throw .local("what was removed cannot be brought back: \(error)")
      }
    }
    logger.notice("\(items.count) items that were removed here are brought back")
    return true
  }

  // MARK: What is remembered

  private func deletions() throws(CycleFailure) -> DeletionRecord {
    if let knownDeletions { return knownDeletions }
    let record = try local { () throws(Errno) in try coordinator.catalog.deletionRecord() }
    knownDeletions = record
    return record
  }

  private func setDeletions(_ record: DeletionRecord) throws(CycleFailure) {
    try local { () throws(Errno) in try coordinator.catalog.setDeletionRecord(record) }
    knownDeletions = record
  }

  private var now: Timestamp { coordinator.catalog.now }
}
