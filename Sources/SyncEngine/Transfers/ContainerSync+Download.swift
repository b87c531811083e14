internal import Catalog
internal import ContentStore
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// A newer content that is here whole, beside the one that is shown.
struct Staging {
  let version: VersionID
  let generation: UInt64
}

/// A newer content on its way.
struct ArrivingContent {
  let version: VersionID
  let task: Task<Void, Never>
}

/// Why one did not come.
struct ArrivalFailure {
  let item: ItemID
  let number: InodeNumber
  let version: VersionID
  let failure: CycleFailure
  /// Of the log, as far as it was known then.
  let position: LogPosition
}

/// Content that comes without being opened: newer versions of what is local, and what is pinned or
/// wanted greedily.
extension ContainerSync {
  /// Brings the newer content of files whose older one is here, beside it, so that the mount goes
  /// from one whole content to the other and a device that loses its backend has the older one.
  ///
  /// Gives the generation of each that is ready; what was brought is kept for the next round when
  /// the plan could not be applied. Nil: plan again. A newer content is damaged in the backend: the
  /// older one stays, says so, and holds up no other; or a program wrote to the older one
  /// meanwhile.
  func stageReplacements(_ plan: Plan, _ remote: RemoteContainer) async throws(CycleFailure)
    -> [ItemID: UInt64]?
  {
    var result: [ItemID: UInt64] = [:]
    var isWaiting = false
    // The cycle waits for no more than this, however many files are replaced.
    var left = settings.longReplacement
    for item in plan.replaced {
      guard let found = try local({ () throws(Errno) in try coordinator.catalog.local(item) }),
        found.inode.kind == .file, found.inode.content == .local,
        let wanted = plan.record(of: item)?.content, let manifest = wanted.manifest,
        manifest.size > 0
      else { continue }
      // A file with a name that does not sync is always here.
      let stays = try local { () throws(Errno) in
        try coordinator.catalog.hasExcludedName(found.inode.number)
      }
      // Its older content goes instead, and the newer one comes when somebody reads it.
      let givesWay = found.inode.size == 0 || coordinator.keeping(of: found.inode).givesWayUnread
      if givesWay, !stays { continue }
      if let ready = stagings[item], ready.version == wanted.id {
        result[item] = ready.generation
        continue
      }
      guard manifest.size <= left else {
        bring(item, found, wanted.id, manifest, remote)
        isWaiting = true
        continue
      }
      left -= manifest.size
      let generation = coordinator.catalog.nextGeneration()
      let key = ContentKey(item: item, generation: generation)
      let room = await coordinator.reserve(manifest.size)
      defer { room?.end() }
      do throws(CycleFailure) {
        try await fill(key, with: manifest, from: found, remote)
        guard try isUntouched(found) else {
          // Chunks were copied from a file that was being written: they may be neither version's.
          try? coordinator.content.remove(key)
          return nil
        }
        result[item] = generation
        // What was brought before is of a version that is no longer wanted.
        if let old = stagings[item] {
          try? coordinator.content.remove(ContentKey(item: item, generation: old.generation))
        }
        stagings[item] = Staging(version: wanted.id, generation: generation)
        transfers.ended(found.inode.number)
      } catch {
        try? coordinator.content.remove(key)
        let object: String
        let reason: String
        switch error {
        case .remote(.damaged(let name, let text)): (object, reason) = (name, text)
        case .remote(.packMissing(let name)):
          // The log may have gone on since, and say where it was brought.
          let before = try local { () throws(Errno) in try coordinator.catalog.position() }
          try await pull(remote)
          let now = try local { () throws(Errno) in try coordinator.catalog.position() }
          guard now == before else { return nil }
          (object, reason) = (name, "it is missing")
        default: throw error
        }
        let text = "the newer content in the object \"\(object)\" is damaged: \(reason)"
        logger.error("item \(found.inode.number): \(text)")
        transfers.ended(found.inode.number, error: text)
        damaged[item] = wanted.id
        // The rest is planned anew around it: it stays where it is, and so does what it is in.
        return nil
      }
    }
    dropStagings(except: try local { () throws(Errno) in try wantedStagings(plan) })
    // The others are planned anew without those that are on their way.
    return isWaiting ? nil : result
  }

  // MARK: Large newer contents

  private static let mostArriving = 3

  /// Whether this version of an item's content is on its way, so that the item is left alone.
  func isArriving(_ item: ItemID, _ version: VersionID?) -> Bool {
    guard let version else { return false }
    return arriving[item]?.version == version || arrivingLater[item] == version
  }

  private func bring(
    _ item: ItemID, _ found: LocalItem, _ version: VersionID, _ manifest: Manifest,
    _ remote: RemoteContainer
  ) {
    if let other = arriving[item] {
      // Of an older version: it ends, and this one begins then.
      other.task.cancel()
    }
    guard arriving[item] == nil, arriving.count < Self.mostArriving else {
      arrivingLater[item] = version
      return
    }
    let key = ContentKey(item: item, generation: coordinator.catalog.nextGeneration())
    let task = Task {
      let room = await coordinator.reserve(manifest.size)
      defer { room?.end() }
      var failure: CycleFailure?
      do throws(CycleFailure) {
        try await fill(key, with: manifest, from: found, remote)
      } catch {
        failure = error
      }
      arrived(key, found, version, failure)
    }
    arriving[item] = ArrivingContent(version: version, task: task)
  }

  private func arrived(
    _ key: ContentKey, _ found: LocalItem, _ version: VersionID, _ failure: CycleFailure?
  ) {
    arriving[key.item] = nil
    arrivingLater = [:]
    defer { signals.look() }
    // Chunks may have been copied from a file that was being written.
    guard failure == nil, !Task.isCancelled, (try? isUntouched(found)) == true else {
      try? coordinator.content.remove(key)
      if let failure, let position = try? coordinator.catalog.position() {
        arrivalFailures.append(
          ArrivalFailure(
            item: key.item, number: found.inode.number, version: version, failure: failure,
            position: position))
      }
      return
    }
    if let old = stagings[key.item] {
      try? coordinator.content.remove(ContentKey(item: key.item, generation: old.generation))
    }
    stagings[key.item] = Staging(version: version, generation: key.generation)
    transfers.ended(found.inode.number)
  }

  /// Notes what is damaged in the backend, and throws what else ended a download since the last
  /// round. After a look at the log.
  func checkArrivals() throws(CycleFailure) {
    let failures = arrivalFailures
    arrivalFailures = []
    for ended in failures {
      let object: String
      let reason: String
      switch ended.failure {
      case .remote(.damaged(let name, let text)): (object, reason) = (name, text)
      case .remote(.packMissing(let name)):
        // The log may have gone on, and say where it was brought.
        let now = try local { () throws(Errno) in try coordinator.catalog.position() }
        guard now == ended.position else { continue }
        (object, reason) = (name, "it is missing")
      case .remote(.store(.offline)), .remote(.store(.unreachable)), .remote(.cancelled),
        .cancelled:
        continue
      default: throw ended.failure
      }
      let text = "the newer content in the object \"\(object)\" is damaged: \(reason)"
      logger.error("item \(ended.number): \(text)")
      transfers.ended(ended.number, error: text)
      damaged[ended.item] = ended.version
    }
  }

  /// Whether nothing can have written to the file since it was looked at. Who wrote and closed
  /// moved its change time; who has not closed yet is still counted.
  private func isUntouched(_ found: LocalItem) throws(CycleFailure) -> Bool {
    guard !coordinator.isOpenForWriting(found.inode.number) else { return false }
    let now = try local { () throws(Errno) in try coordinator.catalog.local(found.inode.item) }
    return now?.inode.changed == found.inode.changed
      && now?.inode.generation == found.inode.generation
  }

  /// Items whose staged content the plan replaces, or a later one will: a package waits for all of
  /// its files.
  private func wantedStagings(_ plan: Plan) throws(Errno) -> Set<ItemID> {
    var result = Set(plan.replaced)
    for (item, staging) in stagings where !result.contains(item) {
      guard try coordinator.catalog.remote(item)?.content?.id == staging.version,
        let inode = try coordinator.catalog.local(item)?.inode, inode.content == .local,
        inode.version != nil, inode.version != staging.version
      else { continue }
      result.insert(item)
    }
    return result
  }

  /// Removes contents that were brought and are not wanted any more.
  func dropStagings(except wanted: Set<ItemID>) {
    for (item, staging) in stagings where !wanted.contains(item) {
      try? coordinator.content.remove(ContentKey(item: item, generation: staging.generation))
      stagings[item] = nil
    }
  }

  /// Removes newer contents that are here, and ends those on their way: no cycle will apply them.
  func dropArrivals() {
    for arrival in arriving.values { arrival.task.cancel() }
    arrivingLater = [:]
    dropStagings(except: [])
  }

  /// Chunks that the older content has are copied from it; only the others are fetched.
  private nonisolated func fill(
    _ key: ContentKey, with manifest: Manifest, from old: LocalItem, _ remote: RemoteContainer
  ) async throws(CycleFailure) {
    let content = coordinator.content
    let oldKey = ContentKey(item: old.inode.item, generation: old.inode.generation)
    var here: [ChunkID: (offset: UInt64, length: UInt32)] = [:]
    if !old.isEdited, let chunks = old.record.content?.manifest?.chunks {
      var offset: UInt64 = 0
      for chunk in chunks {
        here[chunk.id] = (offset, chunk.length)
        offset += UInt64(chunk.length)
      }
    }
    let partial: PartialContent
    let source: OpenFile?
    do throws(Errno) {
      partial = try content.partial(key, size: manifest.size)
      source = here.isEmpty ? nil : try content.open(oldKey, writable: false)
    } catch {
      throw .local("cannot store the newer content of item \(old.inode.number): \(error)")
    }
    var offset: UInt64 = 0
    var missing: [(chunk: ChunkReference, offset: UInt64)] = []
    for chunk in manifest.chunks {
      defer { offset += UInt64(chunk.length) }
      if let source, let place = here[chunk.id], place.length == chunk.length,
        let bytes = try? source.read(count: Int(chunk.length), at: place.offset),
        bytes.count == Int(chunk.length)
      {
        do throws(Errno) { try partial.write(bytes, at: offset) } catch {
          throw .local("cannot store the newer content of item \(old.inode.number): \(error)")
        }
      } else {
        missing.append((chunk, offset))
      }
    }
    while !missing.isEmpty {
      if Task.isCancelled { throw .cancelled }
      let batch = Array(missing.prefix(8))
      missing.removeFirst(batch.count)
      let locations = try local { () throws(Errno) in
        try coordinator.catalog.chunkLocations(batch.map(\.chunk.id))
      }
      let wanted = batch.compactMap { locations[$0.chunk.id] }
      guard wanted.count == batch.count else {
        throw .local("the log has no location for the content of item \(old.inode.number)")
      }
      let contents: [OpenedBytes]
      do throws(RemoteError) { contents = try await remote.read(wanted) } catch {
        throw .remote(error)
      }
      for (part, bytes) in zip(batch, contents) {
        do throws(Errno) {
          try bytes.withUnsafeBytes { bytes throws(Errno) in
            try partial.write(bytes, at: part.offset)
          }
        } catch {
          throw .local("cannot store the newer content of item \(old.inode.number): \(error)")
        }
        coordinator.noteFetched(
          UInt64(bytes.count), of: old.inode.number, for: DownloadCause(.update))
      }
    }
    do throws(Errno) {
      try content.synchronize(partial)
      FaultPoint.reach("sync.staged")
    } catch {
      throw .local("cannot store the newer content of item \(old.inode.number): \(error)")
    }
    content.dropPartial(key)
  }

  /// Starts to bring what has just arrived, where it is wanted before it is opened; and what was
  /// moved to where it is.
  func fetchArrivals(_ operations: [LocalOperation], _ changes: [ItemChange]) {
    let isGreedy = policy == .greedy
    fetcher.holdBacklog()
    defer { fetcher.releaseBacklog() }
    for case .upsert(let record, content: .placeholder, _) in operations where record.kind == .file
    {
      guard let number = (try? coordinator.catalog.inodeNumber(of: record.id)) ?? nil else {
        continue
      }
      try? coordinator.startWanted(number, isGreedy: isGreedy)
    }
    for change in changes {
      guard case .moved = change.what, let inode = try? coordinator.catalog.inode(change.number)
      else { continue }
      coordinator.noteArrival(of: inode)
    }
  }

  /// Asks again for what is wanted here and did not come: at rest, so at most once a look.
  func fetchMissed() {
    guard fetcher.takeMissedBackground() else { return }
    fetchEverything()
  }

  /// Everything that is wanted here before it is opened.
  func fetchEverything() {
    fetcher.holdBacklog()
    defer { fetcher.releaseBacklog() }
    do throws(Errno) {
      try coordinator.startWanted(.root, isGreedy: policy == .greedy)
    } catch {
      logger.debug("cannot download all files now: \(error)")
    }
  }
}

extension Plan {
  /// The record that the plan gives an item here.
  func record(of item: ItemID) -> ItemRecord? {
    for case .upsert(let record, _, _) in local where record.id == item { return record }
    return nil
  }
}
