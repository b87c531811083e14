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

  /// Throws `.held` if the user is to be asked. Nothing of the plan is committed then: the rest of
  /// it may stand on the removals, as a new file does that has the name of an old one.
  func judgeDeletions(_ plan: Plan) throws(CycleFailure) -> JudgedDeletions {
    let record = try deletions()
    switch settings.deletions.verdict(on: try count(plan)) {
    case .goOn(let after): return JudgedDeletions(before: record, after: after)
    case .hold(let removed, let items): throw try hold(removed: removed, of: items)
    }
  }

  /// Notes that the user is asked, and returns the failure that says so.
  func hold(removed: Int, of items: Int) throws(CycleFailure) -> CycleFailure {
    var record = try deletions()
    if !record.isHeld {
      record.isHeld = true
      try setDeletions(record)
    }
    return .held(heldText(removed, of: items))
  }

  private func heldText(_ removed: Int, of items: Int) -> String {
    """
    sync of "\(coordinator.container)" is paused: \(removed) of its \(items) items were removed \
    on this device and would be removed from all devices; remove them everywhere with \
    `ubiquityfs sync --confirm-deletions`, or restore them on this device with `ubiquityfs sync \
    --restore-deletions`
    """
  }

  /// The message for the user if the next cycle will ask about the removals so far.
  package func heldDeletions() throws(SyncFailure) -> String? {
    do throws(CycleFailure) {
      guard case .hold(let removed, let items) = try judgeAll() else { return nil }
      return heldText(removed, of: items)
    } catch {
      throw error.asSyncFailure
    }
  }

  /// `items`: how many the log has, where that is known already.
  private func count(_ plan: Plan, of items: Int? = nil) throws(CycleFailure)
    -> DeletionGuard.Count
  {
    let removals = try local { () throws(Errno) in try lost(plan) }
    var result = try emptyCount(of: removals.isEmpty ? 0 : items)
    for removal in removals { result.add(removal) }
    return result
  }

  func emptyCount(of items: Int? = nil) throws(CycleFailure) -> DeletionGuard.Count {
    let record = try deletions()
    let known: Int
    if let items { known = items } else { known = try loggedItems() }
    return DeletionGuard.Count(after: record, items: known, now: now)
  }

  private func loggedItems() throws(CycleFailure) -> Int {
    try local { () throws(Errno) in try coordinator.catalog.loggedLeafCount() }
  }

  func lost(_ plan: Plan) throws(Errno) -> [DeletionGuard.Removal] {
    var items = LostItems(
      device: device, view: CatalogTrees(catalog: coordinator.catalog))
    var result: [DeletionGuard.Removal] = []
    // An item that a version of its package keeps was not removed.
    for id in plan.removals where !plan.archived.contains(id) {
      guard let record = try items.lost(id) else { continue }
      if record.kind == .directory {
        if emptied.contains(id) { continue }
        if try coordinator.catalog.hasRemoteChildren(of: id) { continue }
      }
      result.append(
        DeletionGuard.Removal(stamp: plan.settled[id] ?? 0, created: record.created))
    }
    return result
  }

  /// Removals of this device that come back in its own segment, about to be folded: it stopped
  /// before it noted them, and they count all the same.
  func noteUnacknowledged(_ removals: [ItemID]) throws(CycleFailure) {
    guard !removals.isEmpty else { return }
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
    let counted = try count(plan)
    emptied.formUnion(try local { () throws(Errno) in try directories(of: plan) })
    if !counted.isEmpty, case .goOn(let after) = DeletionGuard(share: 1).verdict(on: counted) {
      try setDeletions(after)
    }
  }

  /// Judges all removals of this device together, in pages: there may be very many.
  private func judgeAll() throws(CycleFailure) -> DeletionGuard.Verdict {
    let catalog = coordinator.catalog
    var result = try emptyCount()
    let limit = 10_000
    var last: ItemID?
    while true {
      let start = last
      let page = try local { () throws(Errno) in
        try catalog.removedHere(after: start, limit: limit)
      }
      var plan = Plan()
      for (item, stamp) in page {
        plan.removals.append(item)
        plan.settled[item] = stamp
      }
      for removal in try local({ () throws(Errno) in try lost(plan) }) { result.add(removal) }
      last = page.last?.item
      guard page.count == limit else { return settings.deletions.verdict(on: result) }
    }
  }

  /// The answer to all removals of this device together.
  enum JudgedRemovals {
    /// No item was removed.
    case none
    /// `items`: how many the log has before they go.
    case mayGo(items: Int)
    case areHeld
    /// The user restores them.
    case comeBack
  }

  func judgeRemovals() throws(CycleFailure) -> JudgedRemovals {
    guard try deletions().restoring == 0 else { return .comeBack }
    guard try local({ () throws(Errno) in try coordinator.catalog.hasRemovals() }) else {
      return .none
    }
    switch try judgeAll() {
    case .goOn: return .mayGo(items: try loggedItems())
    case .hold: return .areHeld
    }
  }

  /// A batch of removals that were judged all together. Each is judged again with those before it:
  /// more may be removed here while the batches go. Nil: the user is to be asked.
  func judgeBatch(_ plan: Plan, of items: Int) throws(CycleFailure) -> JudgedDeletions? {
    let record = try deletions()
    guard case .goOn(let after) = settings.deletions.verdict(on: try count(plan, of: items)) else {
      return nil
    }
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

  // MARK: The deletion record

  func deletions() throws(CycleFailure) -> DeletionRecord {
    if let knownDeletions { return knownDeletions }
    let record = try local { () throws(Errno) in try coordinator.catalog.deletionRecord() }
    knownDeletions = record
    return record
  }

  func setDeletions(_ record: DeletionRecord) throws(CycleFailure) {
    try local { () throws(Errno) in try coordinator.catalog.setDeletionRecord(record) }
    knownDeletions = record
  }

  private var now: Timestamp { coordinator.catalog.now }
}
