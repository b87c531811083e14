internal import Catalog
internal import ContentStore
internal import Coordination
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Sends the contents of some files, from a reading claim: never of a file that is being written.
struct UploadRun: Sendable {
  struct Content {
    let inode: Catalog.Inode
    let manifest: Manifest
    /// It was copied while programs had the file open.
    let isSnapshot: Bool
  }

  struct Outcome {
    /// Durable in the backend. None of a run that failed or was cancelled.
    var contents: [Content] = []
    /// Files that were not read: a program writes to them, or their rows are not as they are.
    var skipped: [UploadIdentity] = []
    /// Open files of which the disk has no room for a copy.
    var withoutRoom: [ItemID] = []
    /// Durable in the backend, whatever stopped the rest.
    var chunks: [ChunkLocation] = []
    var failure: RemoteError?
  }

  private let coordinator: ContainerCoordinator
  private let transfers: TransferBoard
  private let quiet: QuietFiles
  private let uploader: ContentUploader
  private let stored = Lock<[ChunkLocation]>([])
  private let skipped = Lock<[UploadIdentity]>([])
  private let withoutRoom = Lock<[ItemID]>([])
  private let isKnown: @Sendable ([ChunkID]) throws -> Set<ChunkID>
  private let failed: @Sendable (Catalog.Inode, String) -> Void

  init(
    coordinator: ContainerCoordinator, transfers: TransferBoard, quiet: QuietFiles,
    remote: RemoteContainer, packs: Int, turn: UploadTurn, known: Set<ChunkID>, times: PackTimes,
    failed: @escaping @Sendable (Catalog.Inode, String) -> Void
  ) {
    self.coordinator = coordinator
    self.transfers = transfers
    self.failed = failed
    self.quiet = quiet
    let (catalog, stored) = (coordinator.catalog, stored)
    uploader = remote.makeUploader(packs: packs, turn: turn) { chunks in
      stored.withLock { $0 += chunks }
      times.note(chunks)
      try? catalog.noteSent(chunks)
    }
    isKnown = { ids in try catalog.usableChunks(ids).union(ids.filter(known.contains)) }
  }

  /// Sends up to `batches` at a time. `next` gives each batch before a file of it is opened, to the
  /// place that it gets among them, and nil at the end. A cancelled call ends at once, even while
  /// packs wait for their turn.
  func send(
    batches: Int, _ next: @escaping @Sendable (_ place: Int) -> UploadBatch?
  ) async -> Outcome {
    let uploader = uploader
    let result = await withTaskCancellationHandler {
      await sendAll(batches, next)
    } onCancel: {
      Task { await uploader.abandon() }
    }
    var outcome = Outcome()
    switch result {
    case .success(let contents):
      outcome.contents = contents
      FaultPoint.reach("sync.uploaded")
    case .failure(let failure):
      await uploader.abandon()
      if failure != .cancelled { outcome.failure = failure }
    }
    outcome.chunks = stored.withLock { $0 }
    outcome.skipped = skipped.withLock { $0 }
    outcome.withoutRoom = withoutRoom.withLock { $0 }
    return outcome
  }

  private func sendAll(
    _ batches: Int, _ next: @escaping @Sendable (Int) -> UploadBatch?
  ) async -> Result<[Content], RemoteError> {
    let sent = await withTaskGroup(of: Result<[Content], RemoteError>.self) { group in
      for place in 0..<batches {
        group.addTask { await self.sendInTurn { next(place) } }
      }
      var result: Result<[Content], RemoteError> = .success([])
      for await contents in group {
        switch (result, contents) {
        case (.success(let all), .success(let more)): result = .success(all + more)
        case (.success, .failure):
          result = contents
          group.cancelAll()
        // This place was cancelled for the first failure.
        case (.failure, _): break
        }
      }
      return result
    }
    do throws(RemoteError) {
      let done = try sent.get()
      if Task.isCancelled { throw .cancelled }
      _ = try await uploader.finish()
      return .success(done)
    } catch {
      return .failure(error)
    }
  }

  private func sendInTurn(
    _ next: @Sendable () -> UploadBatch?
  ) async -> Result<[Content], RemoteError> {
    var done: [Content] = []
    do throws(RemoteError) {
      while !Task.isCancelled, let batch = next() {
        for (inode, manifest) in try await send(batch) {
          done.append(Content(inode: inode, manifest: manifest, isSnapshot: batch.isSnapshot))
        }
      }
      return .success(done)
    } catch {
      return .failure(error)
    }
  }

  /// Of each file that did not change while it was read, its content.
  private func send(_ batch: UploadBatch) async throws(RemoteError)
    -> [(inode: Catalog.Inode, manifest: Manifest)]
  {
    for inode in batch.files {
      transfers.began(inode.number, size: inode.size)
      coordinator.tellStatus(inode.number)
      coordinator.opened(inode.number, forWriting: false)
    }
    var errors: [InodeNumber: String] = [:]
    defer {
      for inode in batch.files {
        transfers.ended(inode.number, error: errors[inode.number])
        coordinator.closed(inode.number, forWriting: false)
        coordinator.reclaim(inode.number)
        coordinator.tellStatus(inode.number)
      }
    }
    let manifests =
      batch.isSmall
      ? try await sendSmall(batch.files)
      : [
        try await ofOneFile { () throws(RemoteError) in
          try await sendLarge(batch.files[0], isSnapshot: batch.isSnapshot)
        }
      ]
    FaultPoint.reach("sync.content-durable")
    var result: [(inode: Catalog.Inode, manifest: Manifest)] = []
    for (inode, manifest) in zip(batch.files, manifests) {
      switch manifest {
      case .success(let manifest?): result.append((inode, manifest))
      case .success(nil): skipped.withLock { $0.append(UploadIdentity(inode)) }
      case .failure(let errno):
        // One file that can't be read holds up no other.
        let text = "cannot read its local content: \(errno)"
        failed(inode, text)
        errors[inode.number] = text
      }
    }
    return result
  }

  /// Separates the failure of one file from a failure of the whole run. Nil: the file changed.
  private func ofOneFile(_ body: () async throws(RemoteError) -> Manifest)
    async throws(RemoteError) -> Result<Manifest?, Errno>
  {
    do throws(RemoteError) {
      return .success(try await body())
    } catch .changedWhileReading {
      return .success(nil)
    } catch .file(let errno) {
      return .failure(errno)
    }
  }

  private func sendSmall(_ inodes: [Catalog.Inode]) async throws(RemoteError)
    -> [Result<Manifest?, Errno>]
  {
    let coordinator = coordinator
    let files = inodes.filter { $0.size > 0 }.map { inode in
      SmallFile(size: inode.size) { () throws(Errno) in
        try coordinator.contentForUpload(of: inode)
      } synchronize: { file throws(Errno) in
        try coordinator.content.synchronize(inode.uploadKey, file)
      }
    }
    var rest = try await uploader.add(small: files, isKnown: isKnown)[...]
    var results: [Result<Manifest?, Errno>] = []
    for inode in inodes {
      guard inode.size > 0, let next = rest.popFirst() else {
        results.append(.success(.empty))
        continue
      }
      results.append(
        try await ofOneFile { () throws(RemoteError) in try next.get() })
    }
    return results
  }

  private func sendLarge(_ inode: Catalog.Inode, isSnapshot: Bool) async throws(RemoteError)
    -> Manifest
  {
    let coordinator = coordinator
    if isSnapshot, inode.size == 0, quiet.allows(inode) { return .empty }
    let room = isSnapshot ? await reserveCopy(of: inode) : nil
    defer { room?.end() }
    guard let file = try await open(inode, isSnapshot: isSnapshot) else {
      throw .changedWhileReading
    }
    let board = transfers
    let manifest = try await uploader.add(
      file: file, size: inode.size, isKnown: isKnown,
      progress: {
        board.progressed(inode.number, to: $0)
        coordinator.tellStatus(inode.number)
      })
    // The row is to say that this file is the version that is sent: after a power cut it has to be.
    // It never says so of a snapshot while the file is open.
    if isSnapshot { return manifest }
    do throws(Errno) {
      try await BlockingWork.run { () throws(Errno) in
        try coordinator.content.synchronize(inode.uploadKey, file)
      }
    } catch {
      throw .file(error)
    }
    return manifest
  }
}

extension UploadRun {
  /// Nil: it is not to be read now.
  private func open(_ inode: Catalog.Inode, isSnapshot: Bool) async throws(RemoteError)
    -> OpenFile?
  {
    guard isSnapshot else {
      do throws(Errno) { return try coordinator.contentForUpload(of: inode) } catch {
        throw .file(error)
      }
    }
    switch await snapshot(of: inode) {
    case .success(let copy):
      if copy != nil { transfers.forgetWithoutRoom(inode.number) }
      return copy
    case .failure(.cancelled): throw .cancelled
    case .failure(.noRoom(let missing)):
      note(inode, withoutRoomFor: missing)
      return nil
    // The upload after the close tells of it.
    case .failure(.system): return nil
    }
  }

  /// A cancelled call ends after one more piece of the copy.
  private func snapshot(of inode: Catalog.Inode) async -> Result<OpenFile?, CopyFailure> {
    let quiet = quiet
    let isCancelled = Lock(false)
    return await withTaskCancellationHandler {
      await BlockingWork.run { () -> Result<OpenFile?, CopyFailure> in
        do throws(CopyFailure) {
          let copy = try quiet.snapshot(of: inode, isCancelled: { isCancelled.withLock { $0 } })
          return .success(copy)
        } catch {
          return .failure(error)
        }
      }
    } onCancel: {
      isCancelled.withLock { $0 = true }
    }
  }

  /// The file waits for its close, or for room. The log is told once.
  private func note(_ inode: Catalog.Inode, withoutRoomFor missing: UInt64) {
    withoutRoom.withLock { $0.append(inode.item) }
    let isNew = transfers.noteWithoutRoom(inode.number, missing: missing)
    if isNew { failed(inode, TransferBoard.withoutRoomText(missing: missing)) }
  }

  /// Reserves the bytes that a copy takes of the disk; nil without a budget.
  private func reserveCopy(of inode: Catalog.Inode) async -> SpaceReservation? {
    guard coordinator.hasBudget else { return nil }
    let coordinator = coordinator
    let bytes = await BlockingWork.run { () -> UInt64 in
      let file = try? coordinator.content.open(inode.uploadKey, writable: false)
      return (try? file?.dataBytes()) ?? inode.size
    }
    return await coordinator.reserve(bytes)
  }
}

extension Catalog.Inode {
  /// Of a file, as all are that are sent.
  fileprivate var uploadKey: ContentKey { ContentKey(item: item, generation: generation) }
}
