package import Catalog
internal import ContentStore
package import Coordination
package import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// One content that a file has or had, as users see it. Source: NSFileVersion.
package struct FileVersion: Sendable, Hashable {
  package let id: VersionID
  package let isCurrent: Bool
  package let isConflict: Bool
  package let isResolved: Bool
  package let device: Model.DeviceID
  package let modified: Timestamp
  package let size: UInt64
  package let hasLocalContents: Bool
}

/// The versions that the caller of `resolve` has seen.
package struct ShownVersions: Sendable, Hashable {
  /// The current one that the caller means. Nil: the one that is current at the call.
  package var current: VersionID?
  /// Nil: those that there are at the call.
  package var all: Set<VersionID>?

  package init(current: VersionID? = nil, all: Set<VersionID>? = nil) {
    self.current = current
    self.all = all
  }
}

package enum VersionFailure: Error, Sendable, Hashable {
  case notFound
  /// What was to be removed is what the item shows.
  case isCurrent
  /// There are other versions than the caller was shown; the text says which.
  case conflict(String)
  case offline
  case unreachable(String)
  case failed(String)
}

extension ContainerSync {
  /// The current version first, then the conflict versions, newest first.
  package nonisolated func versions(of number: InodeNumber) throws(VersionFailure) -> [FileVersion]
  {
    do throws(Errno) {
      let inode = try coordinator.catalog.inode(number)
      if inode.kind == .directory { return try packageVersions(of: inode) }
      guard inode.kind == .file else { throw Errno.invalidArgument }
      let record = try coordinator.catalog.remote(inode.item)
      var result: [FileVersion] = []
      if let current = record?.content {
        result.append(
          FileVersion(
            id: current.id, isCurrent: true, isConflict: false, isResolved: true,
            device: current.device, modified: current.modified, size: current.size,
            hasLocalContents: inode.content == .local && inode.version == current.id))
      }
      return result + Self.conflicts(of: record, on: inode)
    } catch .noSuchFileOrDirectory {
      throw .notFound
    } catch {
      throw .failed("cannot read the versions of the item: \(error)")
    }
  }

  /// One that has just lost is here until what won takes its place.
  nonisolated static func conflicts(of record: ItemRecord?, on inode: Catalog.Inode)
    -> [FileVersion]
  {
    (record?.conflicts ?? []).sorted { $0.modified > $1.modified }.map { version in
      FileVersion(
        id: version.id, isCurrent: false, isConflict: true, isResolved: version.isResolved,
        device: version.device, modified: version.modified, size: version.size,
        hasLocalContents: inode.content == .local && inode.version == version.id)
    }
  }

  /// Hands the bytes of a version to `receive`, in order, a few megabytes at a time.
  package nonisolated func read(
    _ version: VersionID, of number: InodeNumber, cause: DownloadCause = DownloadCause(.command),
    receive: @Sendable ([UInt8]) async throws -> Void
  ) async throws {
    let inode = try coordinator.catalog.inode(number)
    let record = try coordinator.catalog.remote(inode.item)
    guard let found = record?.contents.first(where: { $0.id == version }) else {
      throw VersionFailure.notFound
    }
    guard let manifest = found.manifest else {
      throw VersionFailure.failed("the device that saved this content has not uploaded it yet")
    }
    try link.check()
    let remote = try await link.container()
    var rest = manifest.chunks[...]
    while !rest.isEmpty {
      let batch = Array(rest.prefix(4))
      rest = rest.dropFirst(batch.count)
      for bytes in try await contents(of: batch, remote) {
        coordinator.noteFetched(UInt64(bytes.count), of: number, for: cause)
        try await receive(bytes.array)
      }
    }
  }

  private nonisolated func contents(of chunks: [ChunkReference], _ remote: RemoteContainer)
    async throws(RemoteError) -> [OpenedBytes]
  {
    let wanted = try places(of: chunks)
    do throws(RemoteError) {
      return try await remote.read(wanted)
    } catch {
      guard case .packMissing = error else { throw error }
      // The log may have more, and say where it was brought since.
      await link.catchUp()
      return try await remote.read(try places(of: chunks))
    }
  }

  private nonisolated func places(of chunks: [ChunkReference]) throws(RemoteError)
    -> [ChunkLocation]
  {
    do {
      let locations = try coordinator.catalog.chunkLocations(chunks.map(\.id))
      let wanted = chunks.compactMap { locations[$0.id] }
      guard wanted.count == chunks.count else {
        throw RemoteError.lookup("the log has no location for the content of the version")
      }
      return wanted
    } catch let error as RemoteError {
      throw error
    } catch {
      throw .lookup("the catalog of this device cannot be used: \(error)")
    }
  }

  /// Ends a file's conflict on every device: of the conflict versions those in `keep` become files
  /// beside it (`name 2.ext`), the others go to the trash. When `keep` does not name the current
  /// version, the first one that it names becomes current, and the one before goes to the trash.
  ///
  /// Fails with `.conflict`, with nothing done, if there are versions that `shown` does not have.
  package nonisolated func resolve(
    _ number: InodeNumber, keep: [VersionID], shown: ShownVersions? = nil
  ) async throws(VersionFailure) {
    // Before anything is waited for, the engine included: a version that comes from now on was not
    // shown to anybody.
    let now = try versions(of: number)
    let known = ShownVersions(
      current: shown?.current ?? now.first { $0.isCurrent }?.id,
      all: shown?.all ?? Set(now.map(\.id)))
    try await resolve(number, keep: keep, known)
  }

  private func resolve(_ number: InodeNumber, keep: [VersionID], _ shown: ShownVersions)
    async throws(VersionFailure)
  {
    try await changeVersions(of: number) { record, remote in
      // Of a package, what it holds is its current version.
      let package = record.kind == .file ? nil : try self.currentPackage(record.id)
      if !PlantedMistake.resolvesUnseenVersions.isPlanted {
        try Self.check(
          shown, keep, against: record, current: record.content?.id ?? package?.id)
      }
      return record.kind == .file
        ? try self.resolution(of: record, keep: keep)
        : try await self.packageResolution(of: record, keep: keep, remote)
    }
  }

  private static func check(
    _ shown: ShownVersions, _ keep: [VersionID], against record: ItemRecord, current: VersionID?
  ) throws(VersionFailure) {
    // A caller that names the current version has seen it.
    if let current, let expected = shown.current, current != expected, !keep.contains(current) {
      throw .conflict(
        "the current version is now \(current), not \(expected); check it with `ubiquityfs "
          + "versions list`, then resolve the conflict again, with `--current \(current)` if that "
          + "version may be dropped")
    }
    guard let all = shown.all else { return }
    let seen = all.union(keep).union([shown.current].compactMap(\.self))
    if let other = record.conflicts.first(where: { !seen.contains($0.id) }) {
      throw .conflict(
        "the item has another conflict version now, \(other.id); check it with `ubiquityfs "
          + "versions list`, then resolve the conflict again")
    }
  }

  /// Drops conflict versions of a file or package on every device; those that are not named stay to
  /// be resolved. What the item itself shows is not dropped this way.
  package func remove(_ versions: [VersionID], of number: InodeNumber)
    async throws(VersionFailure)
  {
    let gone = Set(versions)
    try await changeVersions(of: number, settles: false) { record, _ in
      let current =
        try record.kind == .file ? record.content?.id : self.currentPackage(record.id)?.id
      if let current, gone.contains(current) { throw VersionFailure.isCurrent }
      guard gone.isSubset(of: record.conflicts.map(\.id)) else { throw VersionFailure.notFound }
      var less = record
      less.conflicts.removeAll { gone.contains($0.id) }
      return less == record ? LogChanges() : LogChanges(upserts: [less])
    }
  }

  /// Marks conflict versions on every device as ones that nobody has to look at any more, or that
  /// somebody has: they stay as they are. `isResolved` of what is gone already has no effect.
  package func mark(_ versions: [VersionID], isResolved: Bool, of number: InodeNumber)
    async throws(VersionFailure)
  {
    let named = Set(versions)
    try await changeVersions(of: number, settles: false) { record, _ in
      let there = Set(record.conflicts.map(\.id))
      guard isResolved || named.isSubset(of: there) else { throw VersionFailure.notFound }
      var marked = record
      for index in marked.conflicts.indices where named.contains(marked.conflicts[index].id) {
        marked.conflicts[index].isResolved = isResolved
      }
      return marked == record ? LogChanges() : LogChanges(upserts: [marked])
    }
  }

  /// Puts into the log what `changes` makes of an item's record there, right after the state that
  /// it was made from.
  ///
  /// `settles`: what this device has not sent yet belongs to it, and it is done when the item here
  /// is what the log says. Without it nobody is waited for who has a claim on the item: most likely
  /// that is who asks.
  private func changeVersions(
    of number: InodeNumber, settles: Bool = true,
    _ changes: (ItemRecord, RemoteContainer) async throws -> LogChanges
  ) async throws(VersionFailure) {
    let catalog = coordinator.catalog
    do {
      let inode = try catalog.inode(number)
      // An item of which the backend lost the newer content is never done.
      let newer = try catalog.remote(inode.item)?.content?.id
      let isLost = newer != nil && damaged[inode.item] == newer
      let settles = settles && !isLost
      try link.check()
      let remote = try await link.container()
      var backoff = Backoff()
      for _ in 0..<20 {
        try await look(settles: settles)
        // Before the record: while a package's changes are made the log may go on.
        let position = try catalog.position()
        guard let record = try catalog.remote(inode.item) else { throw VersionFailure.notFound }
        let changes = try await changes(record, remote)
        guard !changes.isEmpty else { return }
        // A segment that no device could read would end the sync of all of them.
        guard try catalog.accepts(changes, after: position) else {
          throw VersionFailure.failed(
            "the requested changes do not fit the log; nothing was uploaded")
        }
        if try await put(changes, after: position, to: remote) != nil {
          // It comes back like any other device's change: nothing of it was done here.
          try await look(settles: settles)
          return
        }
        await backoff.pause()
      }
      throw VersionFailure.failed("other devices keep changing the log; try again")
    } catch let failure as VersionFailure {
      throw failure
    } catch let failure as CycleFailure {
      throw .failed(failure.asSyncFailure.description)
    } catch let failure as SyncFailure {
      switch failure {
      case .offline: throw .offline
      case .unreachable(let reason): throw .unreachable(reason)
      default: throw .failed(failure.description)
      }
    } catch {
      throw .failed("\(error)")
    }
  }

  /// Reads the log to its end.
  private func look(settles: Bool) async throws(SyncFailure) {
    guard !settles else {
      return try await sync(timeout: .seconds(60), needsRoom: false)
    }
    if case .failed(let failure) = await runCycle(freshly: true) { throw failure }
    await kernelKnows()
  }

  private func resolution(
    of record: ItemRecord, keep: [VersionID]
  ) throws -> LogChanges {
    guard let current = record.content else { throw VersionFailure.notFound }
    let kept = keep.compactMap { id in record.contents.first { $0.id == id } }
    guard kept.count == keep.count else { throw VersionFailure.notFound }
    guard !record.conflicts.isEmpty else { return LogChanges() }
    // The log has it by name only. It would take the place of a content that can be read.
    if let unsent = kept.first(where: { $0.manifest == nil && $0.id != current.id }) {
      throw VersionFailure.failed(
        "the backend does not have the content of version \(unsent.id); run `ubiquityfs sync` on "
          + "the device that saved it, or keep another version")
    }
    var winner = kept.contains(current) || kept.isEmpty ? current : kept[0]
    let lost = Set(kept.map(\.id)).subtracting([winner.id])
    winner.isResolved = false
    var resolved = record
    resolved.content = winner
    resolved.conflicts = []
    if winner != current { resolved.modified = winner.modified }
    var changes = LogChanges(upserts: [resolved])
    guard let link = record.links.first else { return changes }
    var number = 2
    for var version in kept where lost.contains(version.id) {
      version.isResolved = false
      changes.upserts.append(
        ItemRecord(
          id: .random(), kind: .file, links: [try free(beside: link, &number)],
          mode: record.mode, modified: version.modified, created: version.modified,
          attributes: record.attributes, content: version))
    }
    return changes
  }

  /// The next name beside an item that nothing has.
  func free(beside link: Link, _ number: inout Int) throws -> Link {
    while true {
      let name = link.name.numbered(number)
      number += 1
      if try coordinator.catalog.remoteChild(link.parent, name) == nil,
        try coordinator.catalog.localChild(link.parent, name) == nil
      {
        return Link(parent: link.parent, name: name)
      }
    }
  }
}
