internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import RemoteStore
internal import SystemPackage

/// The part of a segment that can be put.
struct UsableChanges {
  var changes: LogChanges
  /// Versions of packages of which the store has lost some content.
  var incomplete: Set<VersionID> = []
  /// Versions in whose place the segment has the rest of them.
  var salvaged: [ItemID: Set<VersionID>] = [:]
}

/// Contents that a segment is to name and that are in packs which are about to go.
extension ContainerSync {
  /// The part of a segment that can be put. Nil: some of the content that was sent is in packs that
  /// have been condemned since. It is sent again, and planned anew.
  ///
  /// `archives`: the packages that the segment keeps as versions.
  func usable(
    _ changes: LogChanges, _ archives: [ItemID: PackageTree], _ remote: RemoteContainer
  ) async throws(CycleFailure) -> UsableChanges? {
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
    guard !unusable.isEmpty else { return UsableChanges(changes: changes) }
    // Their chunks can be copied while the packs are there, and no log may say where they are.
    let lost = unannounced.filter { unusable.packs.contains($0.pack) }
    for place in lost { condemnedPlaces[place.chunk.id] = place }
    unannounced.removeAll { unusable.packs.contains($0.pack) }
    var result = UsableChanges(changes: changes)
    var isWhole = lost.isEmpty
    var absent: Set<PackID> = []
    for (index, record) in changes.upserts.enumerated() {
      guard let versions = unusable.versions[record.id] else { continue }
      let own = staged[record.id]?.version
      for version in record.conflicts where versions.contains(version.id) && version.id != own {
        let tree = archives[record.id].flatMap { $0.id == version.id ? $0 : nil }
        if try await sendAgain(version.manifest, &absent, isPart: tree != nil, remote) {
          isWhole = false
        } else if let tree, try await renewPackage(record.id, tree, &absent, remote) {
          isWhole = false
        } else if record.kind == .directory,
          try local({ () throws(Errno) in
            try isInLog(version, of: record.id, changes)
          })
        {
          // Another device may have the lost content, and upload it again.
          result.incomplete.insert(version.id)
          logger.warning(
            """
            item \(record.id): some content of the package version \(version.id) is missing in the \
            backend and not local
            """)
        } else if tree != nil {
          // Its headers come with the next plan.
          isWhole = false
        } else if record.kind == .directory, let rest = try await salvage(version, remote) {
          logger.warning(
            """
            item \(record.id): some content of the package version \(version.id) is lost; the rest \
            is kept as version \(rest.version.id)
            """)
          result.changes.chunks += rest.chunks
          result.changes.upserts[index].conflicts.removeAll { $0.id == version.id }
          result.changes.upserts[index].supply([rest.version])
          result.salvaged[record.id, default: []].insert(version.id)
        } else {
          // It went with the item, when that was removed elsewhere and all of it was forgotten, and
          // its packs are gone: it is nowhere any more.
          logger.warning(
            "item \(record.id): the conflict version \(version.id) is lost")
          result.changes.upserts[index].conflicts.removeAll { $0.id == version.id }
          try local { () throws(Errno) in
            try catalog.dropKeptConflicts([version.id], of: record.id)
          }
        }
      }
      let isOurs = record.conflicts.contains { $0.id == own && versions.contains($0.id) }
      guard isOurs || record.content.map({ versions.contains($0.id) }) ?? false else { continue }
      isWhole = false
      let wasUploaded = forgetUploaded(record.id)
      // A local file is read again, also where a snapshot of the open file was uploaded.
      if wasUploaded, try local({ () throws(Errno) in try isLocal(record.id) }) { continue }
      let mine = isOurs ? record.conflicts.first { $0.id == own } : record.content
      guard let mine else { continue }
      try await renew(record.id, mine, &absent, remote)
    }
    return isWhole ? result : nil
  }

  /// Whether all chunks of a version are in packs that the log has and keeps. The store may have
  /// lost them.
  private func isInLog(
    _ version: ContentVersion, of item: ItemID, _ changes: LogChanges
  ) throws(Errno) -> Bool {
    var one = LogChanges(chunks: changes.chunks)
    one.upserts = changes.upserts.filter { $0.id == item }
    let nowhere = try coordinator.catalog.unusable(in: one, incomplete: [version.id])
    return nowhere.versions[item]?.contains(version.id) != true
  }
}
