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
  func usable(_ changes: LogChanges, _ remote: RemoteContainer) async throws(CycleFailure)
    -> LogChanges?
  {
    let catalog = coordinator.catalog
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
        } else {
          // It went with the item, when that was removed elsewhere and all of it was forgotten, and its
          // packs are gone: it is nowhere any more.
          logger.warning(
            "item \(record.id): the conflict version \(version.id) is nowhere any more")
          result.upserts[index].conflicts.removeAll { $0.id == version.id }
        }
      }
      let isOurs = record.conflicts.contains { $0.id == own && versions.contains($0.id) }
      guard isOurs || record.content.map({ versions.contains($0.id) }) ?? false else { continue }
      isWhole = false
      if staged.removeValue(forKey: record.id) != nil { continue }
      guard try local({ () throws(Errno) in try catalog.forgetVersion(of: record.id) }) else {
        throw .local("the content of item \(record.id) is no longer in the backend, nor here")
      }
    }
    return isWhole ? result : nil
  }

  /// Stores a conflict version's chunks anew, from the condemned packs that they are still in: no file
  /// here has them. False when some are in no pack any more.
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
    unannounced += try await storeAnew(missing, remote)
    return true
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
        try await uploader.add(zip(batch.map(\.chunk), contents).map { ($0, $1) })
      }
    }
    return try await remotely { () throws(RemoteError) in try await uploader.finish() }
  }
}
