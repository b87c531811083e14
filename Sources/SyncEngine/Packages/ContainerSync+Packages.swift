internal import Catalog
internal import Coordination
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// When a package may go, and what is kept of one that lost a conflict.
extension ContainerSync {
  /// Packages that are not to be touched now, in either direction: a file of them is open for
  /// writing, or a program changed something in them and may go on. `changes`: when what is dirty
  /// was changed.
  func heldPackages(_ items: [ItemID: ItemTrees], _ changes: [ItemID: Timestamp]) throws(Errno)
    -> Set<ItemID>
  {
    var finder = PackageFinder(
      view: CatalogTrees(catalog: coordinator.catalog), types: coordinator.packages, items: items)
    var held: Set<ItemID> = []
    for number in coordinator.writers {
      guard let inode = try? coordinator.catalog.inode(number), !inode.isOrphan,
        let record = try finder.record(inode.item, .local)
      else { continue }
      held.formUnion(try finder.roots(of: record, .local))
    }
    var newest: [ItemID: Timestamp] = [:]
    for (id, time) in changes {
      guard let record = items[id]?.local?.record else { continue }
      for root in try finder.roots(of: record, .local) {
        newest[root] = max(newest[root] ?? time, time)
      }
    }
    packagesHeld = packagesHeld.filter { newest[$0.key] != nil }
    guard hurrying == 0 else { return held }
    let now = coordinator.catalog.now
    for (root, time) in newest {
      // A clock that was set back says nothing of how long ago that was.
      let quiet = now.nanoseconds(since: time)
      let left = settings.packageQuiet - .nanoseconds(quiet)
      guard quiet >= 0, left > .zero else { continue }
      let present = monotonicNanoseconds()
      let since = packagesHeld[root] ?? present
      packagesHeld[root] = since
      guard settings.longestPackageWait > .nanoseconds(Int64(present - since)) else { continue }
      held.insert(root)
      packageWake = min(packageWake ?? left, left)
    }
    return held
  }

  /// Sends what is new of the archives of packages that lose a conflict, and names them in the
  /// records that the plan puts into the log. Of the files in them nothing moves: they are in the
  /// backend.
  func sendArchives(of plan: inout Plan, to remote: RemoteContainer) async throws(CycleFailure) {
    guard !plan.archives.isEmpty else { return }
    let uploader = remote.makeUploader()
    for (root, tree) in plan.archives.sorted(by: { $0.key < $1.key }) {
      guard let index = plan.upserts.firstIndex(where: { $0.id == root }) else { continue }
      // After a recovery the record may have this version already.
      plan.upserts[index].supply([try await sendArchive(of: tree, by: uploader)])
    }
    unannounced += try await remotely { () throws(RemoteError) in try await uploader.finish() }
    FaultPoint.reach("sync.archived")
  }

  /// If the store lost the headers of a package's version, and the package is here as that version,
  /// sends them again. The package is about to give way, and nobody else could make them. False:
  /// nothing was sent.
  func renewArchives(
    of plan: Plan, _ remote: RemoteContainer
  ) async throws(CycleFailure) -> Bool {
    let uploader = remote.makeUploader()
    for root in plan.packages.sorted() {
      guard let tree = try local({ () throws(Errno) in try damagedVersion(of: root) }) else {
        continue
      }
      _ = try await sendArchive(of: tree, by: uploader)
    }
    let new = try await remotely { () throws(RemoteError) in try await uploader.finish() }
    unannounced += new
    return !new.isEmpty
  }

  /// The package as it is here, if the log has that as a version and the store lost a part of it.
  private func damagedVersion(of root: ItemID) throws(Errno) -> PackageTree? {
    let catalog = coordinator.catalog
    let sent = Set(unannounced.map(\.chunk.id))
    var damaged: Set<VersionID> = []
    for version in try catalog.remote(root)?.conflicts ?? [] {
      let ids = Set((version.manifest?.chunks ?? []).map(\.id)).subtracting(sent)
      if try !catalog.usableChunks(Array(ids)).isSuperset(of: ids) { damaged.insert(version.id) }
    }
    guard !damaged.isEmpty else { return nil }
    let finder = PackageFinder(
      view: CatalogTrees(catalog: catalog), types: coordinator.packages, items: [:])
    guard let tree = try finder.tree(root, .local, as: Merge(device: device)),
      damaged.contains(tree.id)
    else { return nil }
    return tree
  }

  /// Sends the headers around the files' own chunks. Gives the version that the package is then.
  private func sendArchive(
    of tree: PackageTree, by uploader: ContentUploader
  ) async throws(CycleFailure) -> ContentVersion {
    let catalog = coordinator.catalog
    let known = unannounced
    var chunks: [ChunkReference] = []
    for part in PackageArchive.parts(of: tree) {
      switch part {
      case .content(let manifest): chunks += manifest.chunks
      case .frame(let pieces):
        chunks += try await remotely { () throws(RemoteError) in
          try await uploader.add(pieces: pieces) { ids in
            try catalog.usableChunks(ids).union(known.lazy.map(\.chunk.id))
          }
        }
      }
    }
    let manifest = Manifest(chunks: chunks)
    return ContentVersion(
      id: tree.id, parent: nil, device: tree.device, modified: tree.modified, size: manifest.size,
      manifest: manifest)
  }

  /// A package's version without the files of which a part is nowhere any more, and the chunks that
  /// are new of it. Nil: nothing of it can be read.
  func salvage(
    _ version: ContentVersion, _ remote: RemoteContainer
  ) async throws(CycleFailure) -> (version: ContentVersion, chunks: [ChunkLocation])? {
    guard let manifest = version.manifest else { return nil }
    let catalog = coordinator.catalog
    let ids = manifest.chunks.map(\.id)
    var (places, usable) = try local { () throws(Errno) in
      (try catalog.chunkLocations(ids), try catalog.usableChunks(ids))
    }
    for sent in unannounced {
      places[sent.chunk.id] = sent
      usable.insert(sent.chunk.id)
    }
    guard let entries = try await entries(of: manifest, places, remote) else { return nil }
    let rest = entries.filter { entry in
      entry.content?.chunks.allSatisfy { usable.contains($0.id) } ?? true
    }
    guard rest.contains(where: { $0.content?.chunks.isEmpty == false }) else { return nil }
    let tree = PackageTree(rest, device: version.device, modified: version.modified)
    let uploader = remote.makeUploader()
    let made = try await sendArchive(of: tree, by: uploader)
    let new = try await remotely { () throws(RemoteError) in try await uploader.finish() }
    unannounced += new
    return (made, new)
  }

  /// Nil: its headers are damaged, or nowhere any more.
  private func entries(
    of archive: Manifest, _ places: [ChunkID: ChunkLocation], _ remote: RemoteContainer
  ) async throws(CycleFailure) -> [PackageTree.Entry]? {
    do {
      return try await PackageArchive.entries(of: archive) { chunk in
        guard let place = places[chunk.id], let bytes = try await remote.read([place]).first else {
          throw PackageArchive.Damage(description: "the log has no location for its headers")
        }
        return bytes.array
      }
    } catch let error as RemoteError {
      switch error {
      case .damaged: return nil
      case .packMissing:
        let listed = Set(try await remotely { () throws(RemoteError) in try await remote.packs() })
        let packs = archive.chunks.compactMap { places[$0.id]?.pack }
        guard !listed.isSuperset(of: packs) else { throw .remote(error) }
        // A store that was set back just now has lost nothing for good.
        try await confirmHead(remote)
        return nil
      default: throw .remote(error)
      }
    } catch {
      guard !Task.isCancelled else { throw .cancelled }
      return nil
    }
  }
}
