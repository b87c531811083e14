import Catalog
import Model
import SyncEngine
import SystemPackage

/// The acts of a user on one file, its versions and the trash, at the word of a plot.
extension SimulatedDevice {
  /// By the item: it may have another name on each device.
  func item(_ item: ItemID, _ life: DeviceLife) throws -> TreeItem {
    guard let found = try life.items().first(where: { $0.inode.item == item }) else {
      throw Errno.noSuchFileOrDirectory
    }
    return found
  }

  func read(_ item: ItemID) {
    begin("plot reads") { life in
      try await self.read(try self.item(item, life).inode.number, life)
    }
  }

  func overwrite(_ item: ItemID) {
    begin("plot overwrites") { life in
      try await self.overwrite(try self.item(item, life).inode.number, life)
    }
  }

  func remove(_ item: ItemID) {
    begin("plot removes") { life in try self.remove(try self.item(item, life), life) }
  }

  /// Another file, old enough to be an item of its own, takes the place of one with conflict
  /// versions.
  func renameOver(_ item: ItemID, by other: ItemID) {
    begin("plot renames over") { life in
      let target = try self.item(item, life)
      let source = try self.item(other, life)
      try self.rename(source.name, in: source.parent, to: target.name, in: target.parent, life)
    }
  }

  /// Looks at the versions, thinks for `seconds`, and resolves the conflict as it was then.
  func resolveAsListed(_ item: ItemID, after seconds: Int, keeping choice: Int) {
    begin("plot resolves") { life in
      let inode = try self.item(item, life).inode
      let listed = try life.sync.versions(of: inode.number)
      guard listed.count > 1, let record = try life.catalog.remote(item) else { return }
      let kept = listed[choice % listed.count].id
      let all = Set(listed.map(\.id))
      try await Task.sleep(for: .seconds(seconds))
      try self.checkUp(life)
      try self.discard(record, except: kept, inode, life)
      let before = Set(
        try life.catalog.removedItems(since: .earliest).map(\.record.id))
      do {
        try await life.sync.resolve(
          inode.number, keep: [kept],
          shown: ShownVersions(current: listed.first { $0.isCurrent }?.id, all: all))
        self.world.count("plot resolved")
      } catch VersionFailure.conflict {
        self.world.count("plot resolution refused")
        return
      } catch {
        self.world.scheduler.note("\(self.name) resolve: \(error)")
        return
      }
      // A device drops only versions that it had been shown.
      for removed in try life.catalog.removedItems(since: .earliest)
      where removed.device == self.id && !before.contains(removed.record.id) {
        for version in removed.record.contents
        where ItemRecord.owner(of: version.id, keptAs: removed.record.id) == item
          && !all.contains(version.id)
        {
          self.world.report("\(self.name) resolves a conflict and drops what it was not shown")
        }
      }
    }
  }

  /// Brings something back from the trash.
  func restore(choice: Int) {
    begin("plot restores") { life in
      let removed = try life.catalog.removedItems(since: .earliest)
        .sorted { $0.record.id < $1.record.id }
      guard !removed.isEmpty else { return }
      let chosen = removed[choice % removed.count].record
      // The items below a directory come with it, and so do those above an item.
      self.account.ledger.restore(removed.map(\.record.id))
      do {
        try await life.sync.restore([chosen.id])
        self.world.count("plot restored")
      } catch {
        self.world.scheduler.note("\(self.name) restore: \(error)")
      }
    }
  }
}
