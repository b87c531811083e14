internal import Catalog
internal import Coordination
internal import Model
internal import RemoteStore
internal import SystemPackage

/// Very many new items at once: a device that is new in a large container, or a large tree that came.
extension ContainerSync {
  /// With more differences than this, what is simply new is made without planning it.
  private static let many = 2_000
  /// How many items are made in one transaction: requests of the kernel wait for it.
  private static let batch = 400

  /// Makes what is new and meets nothing here, so that planning has only the rest to look at.
  func bringArrivals() async throws(CycleFailure) {
    let catalog = coordinator.catalog
    let packages = coordinator.packages
    guard try local({ () throws(Errno) in try catalog.differsInMore(than: Self.many) }) else {
      return
    }
    var start: ItemID?
    repeat {
      guard !Task.isCancelled else { throw .cancelled }
      let from = start
      // A package is made as a whole or not at all.
      let (records, next) = try local { () throws(Errno) in
        try catalog.arrivals(after: from, limit: Self.batch) { packages.isPackage($0) }
      }
      if !records.isEmpty {
        var plan = Plan()
        plan.local = records.map { .upsert($0, content: .placeholder, stamp: nil) }
        // What cannot be made as it is, the planner settles.
        _ = try await apply(plan, [:], 0)
      }
      start = next
      await Task.yield()
    } while start != nil
  }
}
