internal import Catalog
internal import Coordination
package import Model
internal import Platform
internal import SystemPackage

/// Files that a caller waits for.
extension ContainerSync {
  /// Uploads the edited files among these, and below, before others until the answer is given to
  /// `uploads.endAwaiting`. The whole container has no priority over itself. A file whose row
  /// cannot be read gets no priority; the wait itself fails for it.
  nonisolated func beginAwaiting(_ numbers: [InodeNumber]) async -> UInt64? {
    guard !numbers.isEmpty, !numbers.contains(.root) else { return nil }
    let coordinator = coordinator
    let items = await BlockingWork.run { () -> Set<ItemID> in
      var items: Set<ItemID> = []
      func note(_ inode: Catalog.Inode) {
        if inode.kind == .file, !inode.isExcluded, inode.content == .local, inode.version == nil {
          items.insert(inode.item)
        }
      }
      for number in numbers {
        guard let inode = try? coordinator.catalog.inode(number) else { continue }
        note(inode)
        if inode.kind == .directory { try? coordinator.forEachBelow(number, note) }
      }
      return items
    }
    return uploads.beginAwaiting(items)
  }
}
