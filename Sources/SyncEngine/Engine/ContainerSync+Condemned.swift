internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// Contents that a segment is to name and that are in packs which are about to go.
extension ContainerSync {
  /// What of a segment can be put. Nil: some of the content that was sent is in packs that have been
  /// condemned since. It is sent again, and planned anew.
  ///
  /// `archives`: the packages that the segment keeps as versions.
  func usable(
    _ changes: LogChanges, _ archives: [ItemID: PackageTree], _ remote: RemoteContainer
  ) async throws(CycleFailure) -> LogChanges? {
    let catalog = coordinator.catalog
    var changes = changes
    let gone = try await lostPacks(of: changes.chunks, remote)
    if !gone.isEmpty {
      try local { () throws(Errno) in
        try catalog.forgetSent(unannounced.filter { gone.contains($0.pack) })
      }
      unannounced.removeAll { gone.contains($0.pack) }
      changes.chunks.removeAll { gone.contains($0.pack) }
    }
    let unusable = try local { () throws(Errno) in try catalog.unusable(in: changes) }
    guard !unusable.isEmpty else { return changes }
    let lost = unannounced.filter { unusable.packs.contains($0.pack) }
    try local { () throws(Errno) in try catalog.forgetSent(lost) }
    unannounced.removeAll { unusable.packs.contains($0.pack) }
    var result = changes
    var isWhole = lost.isEmpty
    for (index, record) in changes.upserts.enumerated() {
      guard let versions = unusable.versions[record.id] else { continue }
      let own = staged[record.id]?.version
      for version in record.conflicts where versions.contains(version.id) && version.id != own {
        if try await sendAgain(version, remote) {
          isWhole = false
        } else if archives[record.id]?.id == version.id {
          isWhole = false
          try await renewPackage(record.id, remote)
        } else {
          // It went with the item, when that was removed elsewhere and all of it was forgotten, and its
          // packs are gone: it is nowhere any more.
          logger.warning(
            "item \(record.id): the conflict version \(version.id) is nowhere any more")
          result.upserts[index].conflicts.removeAll { $0.id == version.id }
          try local { () throws(Errno) in
            try catalog.dropKeptConflicts([version.id], of: record.id)
          }
        }
      }
      let isOurs = record.conflicts.contains { $0.id == own && versions.contains($0.id) }
      guard isOurs || record.content.map({ versions.contains($0.id) }) ?? false else { continue }
      isWhole = false
      // The file is read again, also where a snapshot of the open file was uploaded.
      let uploaded = [
        staged.removeValue(forKey: record.id), snapshots.removeValue(forKey: record.id),
        committedSnapshots.removeValue(forKey: record.id),
      ]
      if uploaded.contains(where: { $0 != nil }) { continue }
      guard let content = record.content else { continue }
      try await renew(record.id, content, remote)
    }
    return isWhole ? result : nil
  }

  /// A content that was uploaded and whose packs are condemned, or gone: sent again from here if it is
  /// here, or from those packs.
  private func renew(_ item: ItemID, _ content: ContentVersion, _ remote: RemoteContainer)
    async throws(CycleFailure)
  {
    let catalog = coordinator.catalog
    if try local({ () throws(Errno) in try catalog.forgetVersion(of: item) }) { return }
    if try await sendAgain(content, remote) { return }
    try giveUp(item)
  }

  /// The same for all of a package that is to be kept as it is here.
  private func renewPackage(_ root: ItemID, _ remote: RemoteContainer) async throws(CycleFailure) {
    let catalog = coordinator.catalog
    let sent = Set(unannounced.map(\.chunk.id))
    var contents: [(ItemID, ContentVersion)] = []
    for file in try local({ () throws(Errno) in try files(of: root) }) {
      let content = try local { () throws(Errno) in try catalog.shownContent(of: file.number) }
      guard let manifest = content?.manifest ?? staged[file.item]?.manifest else { continue }
      let ids = Set(manifest.chunks.map(\.id)).subtracting(sent)
      let usable = try local { () throws(Errno) in try catalog.usableChunks(Array(ids)) }
      guard !usable.isSuperset(of: ids) else { continue }
      if let content {
        contents.append((file.item, content))
      } else {
        // An edit that began before they were condemned, and found some of its chunks there.
        staged[file.item] = nil
      }
    }
    for (item, content) in contents { try await renew(item, content, remote) }
  }

  private func files(of root: ItemID) throws(Errno) -> [Catalog.Inode] {
    guard let number = try coordinator.catalog.inodeNumber(of: root) else { return [] }
    var result: [Catalog.Inode] = []
    try coordinator.forEachBelow(number) { child in
      if child.kind == .file, !child.isExcluded { result.append(child) }
    }
    return result
  }

  /// Of a file that somebody removed so long ago that its bytes are nowhere: it is only still shown here,
  /// never downloaded, on a device that was away for all that time, and was to come back since something
  /// else of its package was changed. It becomes what the log has of it.
  private func giveUp(_ item: ItemID) throws(CycleFailure) {
    let coordinator = coordinator
    let catalog = coordinator.catalog
    let operation = try local { () throws(Errno) -> LocalOperation in
      let stamp = try catalog.dirtyStamp(item)
      guard let remote = try catalog.remote(item) else { return .remove(item, stamp: stamp) }
      guard let local = try catalog.local(item)?.record else { return .agree(item, stamp: stamp) }
      // Where it is stays to be settled, and what else was changed here is still a change.
      var record = Merge(device: device).attributes(
        local: LocalSide(record: local, stamp: stamp), base: try catalog.base(item), remote: remote)
      record.links = local.links
      record.modified = remote.modified
      return .upsert(record, content: .placeholder, stamp: stamp)
    }
    guard let claim = try local({ () throws(Errno) in try holdForApplying([operation]) }) else {
      return
    }
    defer { claims.table.release(claim) }
    do throws(ApplyFailure) {
      let result = try catalog.apply(
        [operation], isOpen: { coordinator.isOpen($0) },
        isOpenForWriting: { coordinator.isOpenForWriting($0) })
      coordinator.invalidate(result.invalidations)
      coordinator.tell(result.changes, by: { writers[$0] })
      discard(result.obsolete)
    } catch .changed, .busy {
      return
    } catch {
      throw .local(
        "the content of item \(item) is no longer in the backend, nor here, and it stays: \(error)")
    }
    logger.warning(
      """
      item \(item) is now what the log has of it, or gone with it: the content that was to come back \
      with its package is no longer in the backend, nor here
      """)
  }

  /// Stores a conflict version's chunks anew, from the condemned packs that they are still in: no
  /// local file has them. False when a chunk is in no pack any more, or in a pack that the store
  /// neither gives nor lists.
  private func sendAgain(_ version: ContentVersion, _ remote: RemoteContainer)
    async throws(CycleFailure) -> Bool
  {
    let catalog = coordinator.catalog
    let ids = (version.manifest?.chunks ?? []).map(\.id)
    let sent = Set(unannounced.map(\.chunk.id))
    let (usable, places) = try local { () throws(Errno) in
      (try catalog.usableChunks(ids).union(sent), try catalog.chunkLocations(ids))
    }
    var missing: [ChunkLocation] = []
    for id in Set(ids).subtracting(usable).sorted() {
      guard let place = places[id] else { return false }
      missing.append(place)
    }
    do throws(CycleFailure) {
      unannounced += try await storeAnew(missing, remote)
      return true
    } catch .remote(.packMissing(let object)) {
      let listed = Set(try await remotely { () throws(RemoteError) in try await remote.packs() })
      guard missing.allSatisfy({ listed.contains($0.pack) }) else {
        // A store that was set back just now has lost nothing for good.
        try await confirmHead(remote)
        return false
      }
      throw .remote(.packMissing(object: object))
    }
  }

  /// Reads chunks from their packs and stores them in new ones, which are durable when it returns and
  /// which the log does not know yet.
  func storeAnew(_ chunks: [ChunkLocation], _ remote: RemoteContainer) async throws(CycleFailure)
    -> [ChunkLocation]
  {
    guard !chunks.isEmpty else { return [] }
    let uploader = remote.makeUploader()
    var rest = chunks[...]
    while !rest.isEmpty {
      guard !Task.isCancelled else { throw .cancelled }
      let batch = Array(rest.prefix(16))
      rest = rest.dropFirst(batch.count)
      try await remotely { () throws(RemoteError) in
        let contents = try await remote.read(batch)
        try await uploader.add(zip(batch.map(\.chunk), contents).map { ($0, $1.array) })
      }
    }
    return try await remotely { () throws(RemoteError) in try await uploader.finish() }
  }
}
