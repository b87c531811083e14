internal import Catalog
internal import Coordination
internal import Model
internal import RemoteStore
internal import SystemPackage

/// The versions of a package: what the log has of it, and archives of those that lost a conflict.
extension ContainerSync {
  /// EINVAL for a directory that is no package and has no versions.
  nonisolated func packageVersions(of inode: Catalog.Inode) throws(Errno) -> [FileVersion] {
    let record = try coordinator.catalog.remote(inode.item)
    guard try coordinator.isPackage(inode) || record?.conflicts.isEmpty == false else {
      throw Errno.invalidArgument
    }
    var result: [FileVersion] = []
    if let current = try currentPackage(inode.item) {
      var isHere = true
      try coordinator.forEachBelow(inode.number) { child in
        if child.kind == .file, !child.isExcluded, child.content != .local || child.version == nil {
          isHere = false
        }
      }
      result.append(
        FileVersion(
          id: current.id, isCurrent: true, isConflict: false, isResolved: true,
          device: current.device, modified: current.modified, size: current.size,
          hasLocalContents: isHere))
    }
    return result + Self.conflicts(of: record, on: inode)
  }

  /// As the log has it; nil if it is not there yet.
  nonisolated func currentPackage(_ item: ItemID) throws(Errno) -> PackageTree? {
    guard try coordinator.catalog.remote(item) != nil else { return nil }
    let finder = PackageFinder(
      view: CatalogTrees(catalog: coordinator.catalog), types: coordinator.packages, items: [:])
    return try finder.tree(item, .remote, as: Merge(device: device))
  }

  /// What ends a package's conflict: the versions to keep that are not current become packages
  /// beside it; one that takes the place of the current one takes the place of all that is in it.
  func packageResolution(
    of record: ItemRecord, keep: [VersionID], _ remote: RemoteContainer
  ) async throws -> LogChanges {
    guard let current = try currentPackage(record.id) else { throw VersionFailure.notFound }
    let known = Set(record.conflicts.map(\.id)).union([current.id])
    guard known.isSuperset(of: keep) else { throw VersionFailure.notFound }
    guard !record.conflicts.isEmpty else { return LogChanges() }
    var resolved = record
    resolved.conflicts = []
    var changes = LogChanges()
    var kept = record.conflicts.filter { keep.contains($0.id) }
    if !keep.isEmpty, !keep.contains(current.id),
      let index = kept.firstIndex(where: { $0.id == keep.first })
    {
      let winner = kept.remove(at: index)
      resolved.modified = winner.modified
      try empty(record.id, in: &changes)
      changes.upserts += try await items(of: winner, in: record.id, remote)
    }
    var number = 2
    for version in kept {
      guard let link = record.links.first else { break }
      let beside = ItemRecord(
        id: .random(), kind: .directory, links: [try free(beside: link, &number)],
        mode: record.mode, modified: version.modified, created: version.modified,
        attributes: record.attributes, isPackage: record.isPackage)
      changes.upserts.append(beside)
      changes.upserts += try await items(of: version, in: beside.id, remote)
    }
    changes.upserts.append(resolved)
    changes.upserts.sort { $0.id < $1.id }
    changes.removals.sort()
    return changes
  }

  /// All that a package holds goes. A file that has another name outside of it keeps that.
  private func empty(_ root: ItemID, in changes: inout LogChanges) throws {
    let catalog = coordinator.catalog
    var directories: Set<ItemID> = [root]
    var files: Set<ItemID> = []
    var pending = [root]
    while let next = pending.popLast() {
      for child in try catalog.remoteChildren(of: next) {
        guard try catalog.remote(child)?.kind == .directory else {
          files.insert(child)
          continue
        }
        if directories.insert(child).inserted { pending.append(child) }
      }
    }
    changes.removals += directories.subtracting([root])
    for id in files {
      guard var record = try catalog.remote(id) else { continue }
      record.links.removeAll { directories.contains($0.parent) }
      if record.links.isEmpty {
        changes.removals.append(id)
      } else {
        changes.upserts.append(record)
      }
    }
  }

  func items(
    of version: ContentVersion, in root: ItemID, _ remote: RemoteContainer
  ) async throws -> [ItemRecord] {
    guard let manifest = version.manifest else { throw VersionFailure.notFound }
    let catalog = coordinator.catalog
    let entries = try await PackageArchive.entries(of: manifest) { chunk in
      guard let location = try catalog.chunkLocations([chunk.id])[chunk.id],
        let bytes = try await remote.read([location]).first
      else { throw VersionFailure.failed("the log has no location for the content of the version") }
      return bytes.array
    }
    do throws(PackageArchive.Damage) {
      return try PackageArchive.records(of: entries, in: root, as: version)
    } catch {
      throw VersionFailure.failed("the version is damaged: \(error)")
    }
  }
}
