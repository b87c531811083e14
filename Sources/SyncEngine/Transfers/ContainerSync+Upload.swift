internal import Backend
internal import Catalog
internal import Coordination
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// What a cycle has uploaded beside it. The rules of what may go are asked here; `UploadQueue`
/// sends.
extension ContainerSync {
  enum UploadOutcome {
    /// Contents are up, so there is something to commit.
    case staged
    /// Small files are on their way; their end wakes the engine.
    case underWay
    case nothing
  }

  /// How long a round waits for small files, so that a single save is announced and committed in
  /// one cycle.
  static let shortWait = Duration.milliseconds(100)

  /// Has the contents of these items uploaded, and waits a moment for those that are small.
  func upload(
    _ items: [ItemID], to remote: RemoteContainer, waiting limit: Duration = shortWait
  ) async throws(CycleFailure) -> UploadOutcome {
    guard !Task.isCancelled else { throw .cancelled }
    let ready = try local { () throws(Errno) in try self.ready(items) }
    uploads.want(
      ready.closed, open: ready.open, to: remote, known: Set(unannounced.map(\.chunk.id)))
    await uploads.waitForEnd(in: [.express, .small], atMost: limit)
    guard !Task.isCancelled else { throw .cancelled }
    if try collectUploads() { return .staged }
    return uploads.isBusyWithSmall ? .underWay : .nothing
  }

  /// Takes over what was uploaded. Gives whether any content was staged, and so whether there is
  /// something to commit.
  func collectUploads() throws(CycleFailure) -> Bool {
    let results = uploads.takeResults()
    if !results.chunks.isEmpty {
      var known = Set(unannounced.map(\.chunk.id))
      let new = results.chunks.filter { known.insert($0.chunk.id).inserted }
      unannounced += new
      try awaitContent(of: new)
    }
    var hasStaged = false
    for result in results.contents {
      if let content = stage(result.inode, result.manifest) {
        staged[result.inode.item] = content
      } else if result.isSnapshot, let content = stageSnapshot(result.inode, result.manifest) {
        snapshots[result.inode.item] = content
      } else {
        continue
      }
      hasStaged = true
    }
    if hasStaged { hasMoved = true }
    switch results.failure {
    case nil: return hasStaged
    // The link knows, and says so, for as long as it lasts.
    case .store(.offline), .store(.unreachable): return hasStaged
    case let failure?: throw .remote(failure)
    }
  }

  private struct ReadyFiles {
    var closed: [Catalog.Inode] = []
    /// That programs have open, and to which nothing has written for a while.
    var open: [Catalog.Inode] = []
  }

  /// The files whose content can go now.
  private func ready(_ items: [ItemID]) throws(Errno) -> ReadyFiles {
    var result = ReadyFiles()
    // Until somebody asks for it, or it costs nothing any more.
    guard !link.isMetered || hurrying > 0 else { return result }
    for item in items
    where beyondQuota[item] == nil && arriving[item] == nil && arrivingLater[item] == nil {
      guard let found = try coordinator.catalog.local(item), found.isEdited,
        found.inode.content == .local
      else { continue }
      let isPaused =
        found.record.links.first.map { turns.pause($0, at: monotonicNanoseconds()) != nil } ?? false
      if isPaused { continue }
      if !coordinator.isOpenForWriting(found.inode.number) {
        // It is up, and waits for something else.
        if let known = staged[item], known.manifest != nil, known.isStill(found.inode) { continue }
        result.closed.append(found.inode)
      } else if !isSnapshotCurrent(found.inode), snapshots[item]?.isStill(found.inode) != true,
        quiet.allows(found.inode)
      {
        result.open.append(found.inode)
      }
    }
    return result
  }

  /// Whether the log has the content of a file that is open as it is.
  func isSnapshotCurrent(_ inode: Catalog.Inode) -> Bool {
    committedSnapshots[inode.item]?.isStill(inode) ?? false
  }

  /// A content that an open file had a moment ago; it may have been written to since.
  private func stageSnapshot(_ inode: Catalog.Inode, _ manifest: Manifest) -> StagedContent? {
    guard let now = try? coordinator.catalog.inode(inode.number), !now.isOrphan,
      now.item == inode.item, now.generation == inode.generation, now.version == nil,
      coordinator.isOpenForWriting(inode.number), manifest.size == inode.size
    else { return nil }
    // Without its lineage it could be in conflict with the content that it was made of.
    do throws(Errno) {
      return StagedContent(
        version: .random(), inode: inode, manifest: manifest, lineage: try keptLineage(now))
    } catch {
      return nil
    }
  }

  /// Nil when the file is not any more what was sent: its next close brings it here again.
  private func stage(_ inode: Catalog.Inode, _ manifest: Manifest) -> StagedContent? {
    guard !coordinator.isOpenForWriting(inode.number),
      let now = try? coordinator.catalog.inode(inode.number), now.version == nil,
      UploadIdentity(now) == UploadIdentity(inode)
        || PlantedMistake.stagesChangedUploads.isPlanted && now.item == inode.item,
      now.size == manifest.size || PlantedMistake.stagesChangedUploads.isPlanted
    else { return nil }
    let known = staged[inode.item].flatMap { $0.isStill(now) ? $0 : nil }
    if let known {
      return StagedContent(
        version: known.version, inode: now, manifest: manifest, lineage: known.lineage)
    }
    do throws(Errno) {
      return StagedContent(
        version: .random(), inode: now, manifest: manifest, lineage: try keptLineage(now))
    } catch {
      return nil
    }
  }
}
