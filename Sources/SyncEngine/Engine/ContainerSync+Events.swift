internal import Catalog
internal import Coordination
internal import Model
internal import RemoteStore

/// What is remembered of the log so that events can say who did it. While nobody listens, nothing
/// is.
extension ContainerSync {
  /// So many items' writers are remembered; of the others events do not say who it was.
  private static let writerLimit = 100_000

  /// The versions that wait to be resolved, of items that are about to be changed in the log's
  /// tree.
  func versionsForEvents(_ upserts: [ItemRecord]) -> [ItemID: [ContentVersion]] {
    guard coordinator.hasListeners else { return [:] }
    var result: [ItemID: [ContentVersion]] = [:]
    for record in upserts {
      result[record.id] = ((try? coordinator.catalog.remote(record.id)) ?? nil)?.conflicts
    }
    return result
  }

  /// A segment was folded. `before` is what `versionsForEvents` gave.
  func noteForEvents(_ segment: LogSegment, _ before: [ItemID: [ContentVersion]]) {
    guard coordinator.hasListeners else { return }
    if coordinator.events.isActive { tellCommitted(Set(segment.changes.upserts.map(\.id))) }
    let isOurs = segment.origin.device == device
    for record in segment.changes.upserts {
      coordinator.tellVersions(
        of: record.id, were: before[record.id] ?? [], are: record.conflicts,
        by: isOurs ? nil : segment.origin.device)
    }
    guard !isOurs, coordinator.events.isActive else { return }
    for item in segment.changes.upserts.map(\.id) + segment.changes.removals
    where writers.count < Self.writerLimit {
      writers[item] = segment.origin.device
    }
  }

  /// The log has another record of them, or has their changes now: `status` tells that.
  func tellCommitted(_ items: Set<ItemID>) {
    guard coordinator.events.isStatusActive else { return }
    for item in items { coordinator.tellStatus(of: item) }
  }
}
