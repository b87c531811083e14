internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// Sends contents again whose packs are condemned, or that the store lost.
extension ContainerSync {
  /// Whether there was an upload to forget.
  func forgetUploaded(_ item: ItemID) -> Bool {
    let known = [
      staged.removeValue(forKey: item), snapshots.removeValue(forKey: item),
      committedSnapshots.removeValue(forKey: item),
    ]
    return known.contains { $0 != nil }
  }

  func isLocal(_ item: ItemID) throws(Errno) -> Bool {
    try coordinator.catalog.local(item)?.inode.content == .local
  }

  /// Sends a content again that was uploaded and whose packs are condemned, or gone: from the local
  /// file, or from those packs.
  func renew(
    _ item: ItemID, _ content: ContentVersion, _ absent: inout Set<PackID>,
    _ remote: RemoteContainer
  ) async throws(CycleFailure) {
    let catalog = coordinator.catalog
    if try local({ () throws(Errno) in try catalog.forgetVersion(of: item) }) { return }
    if try await sendAgain(content.manifest, &absent, isPart: false, remote) { return }
    try giveUp(item)
  }

  /// The same for all of a package that is to be kept as `tree`. False: nothing of it is left to
  /// send again or to give up, so another plan would be the same.
  func renewPackage(
    _ root: ItemID, _ tree: PackageTree, _ absent: inout Set<PackID>, _ remote: RemoteContainer
  ) async throws(CycleFailure) -> Bool {
    let catalog = coordinator.catalog
    let sent = Set(unannounced.map(\.chunk.id))
    func isUsable(_ manifest: Manifest) throws(CycleFailure) -> Bool {
      let ids = Set(manifest.chunks.map(\.id)).subtracting(sent)
      return try local { () throws(Errno) in
        try catalog.usableChunks(Array(ids)).isSuperset(of: ids)
      }
    }
    var contents: [(ItemID, ContentVersion)] = []
    var isRenewed = false
    for file in try local({ () throws(Errno) in try files(of: root) }) {
      let content = try local { () throws(Errno) in try catalog.shownContent(of: file.number) }
      guard let manifest = content?.manifest ?? staged[file.item]?.manifest,
        try !isUsable(manifest)
      else { continue }
      guard let content else {
        // An edit that began before they were condemned, and found some of its chunks there.
        if forgetUploaded(file.item) { isRenewed = true }
        continue
      }
      // A placeholder that is as the log has it cannot become that. If the log has its version by
      // name only, the placeholder still has to forget its chunks.
      let isAsInLog = try local { () throws(Errno) in
        guard file.content == .remote, let logged = try catalog.remote(file.item)?.content else {
          return false
        }
        return logged.id == content.id && (logged.manifest != nil || content.manifest == nil)
      }
      if !isAsInLog { contents.append((file.item, content)) }
    }
    for (item, content) in contents { try await renew(item, content, &absent, remote) }
    guard contents.isEmpty, !isRenewed else { return true }
    // Such placeholders, the other device's files, and conflict versions of files.
    for case let content? in tree.entries.map(\.content) {
      if try !isUsable(content), try await sendAgain(content, &absent, isPart: true, remote) {
        isRenewed = true
      }
    }
    return isRenewed
  }

  func files(of root: ItemID) throws(Errno) -> [Catalog.Inode] {
    guard let number = try coordinator.catalog.inodeNumber(of: root) else { return [] }
    var result: [Catalog.Inode] = []
    try coordinator.forEachBelow(number) { child in
      if child.kind == .file, !child.isExcluded { result.append(child) }
    }
    return result
  }

  /// Gives a placeholder whose bytes are nowhere the record that the log has. The store lost them,
  /// or somebody removed the file long ago while this device was away, and the file was to come
  /// back with its package. If the log has this version by name only, the placeholder forgets where
  /// its bytes were: a device that has them may still supply the version.
  private func giveUp(_ item: ItemID) throws(CycleFailure) {
    let coordinator = coordinator
    let catalog = coordinator.catalog
    _ = forgetUploaded(item)
    if try local({ () throws(Errno) in try catalog.forgetChunks(of: item) }) {
      return logger.warning("item \(item): its content is neither in the backend nor local")
    }
    let operation = try local { () throws(Errno) -> LocalOperation? in
      let stamp = try catalog.dirtyStamp(item)
      guard let remote = try catalog.remote(item) else { return .remove(item, stamp: stamp) }
      // It was removed here meanwhile: that is still to be told.
      guard let local = try catalog.local(item)?.record else { return nil }
      // Where it is stays to be settled, and what else was changed here is still a change.
      var record = Merge(device: device).attributes(
        local: LocalSide(record: local, stamp: stamp), base: try catalog.base(item), remote: remote)
      record.links = local.links
      record.modified = remote.modified
      return .upsert(record, content: .placeholder, stamp: stamp)
    }
    guard let operation,
      let claim = try local({ () throws(Errno) in try holdForApplying([operation]) })
    else { return }
    defer { claims.table.release(claim) }
    do throws(ApplyFailure) {
      let result = try coordinator.changeNames { () throws(ApplyFailure) in
        let result = try catalog.apply(
          [operation], isOpen: { coordinator.isOpen($0) },
          isOpenForWriting: { coordinator.isOpenForWriting($0) })
        return (result, result.invalidations)
      }
      coordinator.tell(result.changes, by: { writers[$0] })
      discard(result.obsolete)
    } catch .changed, .busy {
      return
    } catch {
      throw .local(
        "the content of item \(item) is neither in the backend nor local, and the item cannot be "
          + "changed: \(error)")
    }
    logger.warning(
      """
      item \(item) was changed to match the log, or removed as in the log: its content is neither \
      in the backend nor local
      """)
  }

  /// Stores a content's chunks anew, from the condemned packs that they are still in: no local file
  /// has them. False when a chunk is in no pack any more, or in a pack that the store neither gives
  /// nor lists: those are added to `absent`.
  ///
  /// `isPart`: of a package's version, which is kept though a chunk is damaged.
  func sendAgain(
    _ manifest: Manifest?, _ absent: inout Set<PackID>, isPart: Bool, _ remote: RemoteContainer
  ) async throws(CycleFailure) -> Bool {
    let catalog = coordinator.catalog
    let ids = (manifest?.chunks ?? []).map(\.id)
    let sent = Set(unannounced.map(\.chunk.id))
    let (usable, places) = try local { () throws(Errno) in
      (try catalog.usableChunks(ids).union(sent), try catalog.chunkLocations(ids))
    }
    var missing: [ChunkLocation] = []
    for id in Set(ids).subtracting(usable).sorted() {
      guard let place = places[id] ?? condemnedPlaces[id], !absent.contains(place.pack) else {
        return false
      }
      missing.append(place)
    }
    do throws(CycleFailure) {
      unannounced += try await storeAnew(missing, remote)
      return true
    } catch .remote(.packMissing(let object)) {
      let listed = Set(try await remotely { () throws(RemoteError) in try await remote.packs() })
      let gone = Set(missing.map(\.pack)).subtracting(listed)
      guard !gone.isEmpty else { throw .remote(.packMissing(object: object)) }
      // A store that was set back just now has lost nothing for good.
      try await confirmHead(remote)
      absent.formUnion(gone)
      return false
    } catch .remote(.damaged) where isPart {
      return false
    }
  }

  /// Reads chunks from their packs and stores them in new ones, which are durable when it returns.
  /// The log does not know them yet.
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
