internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import SystemPackage

/// `sync --restore-deletions`: items that were removed on this device and are still in the log come
/// back as placeholders.
extension ContainerSync {
  /// The items restored in one transaction. Requests of the kernel wait for it.
  private static let batch = 1_000

  /// Forgets that this device ever had these items, so that they arrive like new items of another
  /// device. The planner settles names that were taken since. False: no item is to be restored.
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
    _ = try restore(items.map { ($0, plan.settled[$0] ?? 0) })
    return true
  }

  /// Restores very many items in batches. `restoreRemoved` restores the items of packages: the
  /// planner settles them together. True: some items are restored, so plan again.
  func restoreInBatches() throws(CycleFailure) -> Bool {
    let record = try deletions()
    let catalog = coordinator.catalog
    let limit = settings.manyItems.departurePart
    var hasMoved = false
    var last: ItemID?
    while true {
      guard !Task.isCancelled else { throw .cancelled }
      let start = last
      let page = try local { () throws(Errno) in
        try catalog.removedHere(after: start, limit: limit)
      }
      let items = try local { () throws(Errno) in
        var finder = PackageFinder(
          view: CatalogTrees(catalog: catalog), types: coordinator.packages, items: [:])
        var items: [(item: ItemID, stamp: UInt64)] = []
        for entry in page where entry.stamp <= record.restoring {
          guard let remote = try catalog.remote(entry.item),
            LostItems<CatalogTrees>.isThere(remote, for: device),
            try finder.roots(of: remote, .remote).isEmpty
          else { continue }
          items.append(entry)
        }
        return items
      }
      if !items.isEmpty {
        hasMoved = true
        guard try restore(items) else { return true }
      }
      last = page.last?.item
      guard page.count == limit else { return hasMoved }
    }
  }

  /// False: one of the items changed meanwhile.
  private func restore(_ items: [(item: ItemID, stamp: UInt64)]) throws(CycleFailure) -> Bool {
    var rest = items[...]
    while !rest.isEmpty {
      let part = rest.prefix(Self.batch)
      rest = rest.dropFirst(part.count)
      // An item that was put back meanwhile has another mark, and stays as it is.
      let marks = Dictionary(
        uniqueKeysWithValues: part.map { ($0.item, $0.stamp == 0 ? nil : $0.stamp) })
      do throws(ApplyFailure) {
        _ = try coordinator.catalog.apply(
          part.map { .forgetBase($0.item) }, given: marks, isOpen: { _ in false },
          isOpenForWriting: { _ in false })
      } catch .changed {
        return false
      } catch {
        throw .local("cannot restore the removed items: \(error)")
      }
    }
    logger.notice("restored \(items.count) items that were removed on this device")
    return true
  }
}
