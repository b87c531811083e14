internal import Catalog
internal import ContentStore
internal import Coordination
internal import Glibc
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Sends the content of edited files, from a reading claim: never of a file that is being written.
extension ContainerSync {
  /// What one round sends at most before it is committed, so that others get it bit by bit and a
  /// device that stops has little to send again.
  private static let batchBytes: UInt64 = 256 << 20
  private static let batchFiles = 2_000
  /// Of very many a part: after each round all that is left is looked at again.
  private static func mostFiles(of count: Int) -> Int { max(batchFiles, count / 4) }

  /// Gives whether any content was staged, and so whether there is something to commit.
  func upload(_ items: [ItemID], to remote: RemoteContainer) async throws(CycleFailure) -> Bool {
    let catalog = coordinator.catalog
    let stored = Lock<[ChunkLocation]>([])
    let uploader = remote.makeUploader { chunks in
      stored.withLock { $0 += chunks }
      try? catalog.noteSent(chunks)
    }
    // What is up stays up, whatever stops the rest.
    defer { unannounced += stored.withLock { $0 } }
    let announced = Set(unannounced.map(\.chunk.id))
    let sending = Sending(uploader: uploader) { ids in
      try catalog.usableChunks(ids).union(ids.filter(announced.contains))
    }
    var done: [ItemID: StagedContent] = [:]
    var bytes: UInt64 = 0
    let ready = try local { () throws(Errno) in try self.ready(items) }
    let most = Self.mostFiles(of: ready.count)
    for batch in UploadOrder.batches(ready, at: catalog.now) {
      guard !Task.isCancelled else { throw .cancelled }
      if !done.isEmpty, bytes + batch.bytes > Self.batchBytes || done.count >= most {
        break
      }
      for inode in batch.files {
        transfers.began(inode.number, size: inode.size)
        coordinator.tellStatus(inode.number)
      }
      defer { for inode in batch.files { coordinator.tellStatus(inode.number) } }
      do throws(RemoteError) {
        let results = try await upload(batch, sending)
        for (inode, result) in zip(batch.files, results) {
          switch result {
          case .success(let content?):
            done[inode.item] = content
            bytes += inode.size
            transfers.ended(inode.number)
          case .success(nil): transfers.ended(inode.number)
          case .failure(let errno): failed(inode, errno)
          }
        }
      } catch {
        for inode in batch.files { transfers.ended(inode.number) }
        await uploader.abandon()
        throw .remote(error)
      }
    }
    _ = try await remotely { () throws(RemoteError) in try await uploader.finish() }
    FaultPoint.reach("sync.uploaded")
    for (item, content) in done { staged[item] = content }
    return !done.isEmpty
  }

  /// One file that can't be read holds up no other.
  private func failed(_ inode: Catalog.Inode, _ errno: Errno) {
    let text = "its content cannot be read here: \(errno)"
    if transfers.upload(inode.number)?.lastError != text {
      logger.error("upload of item \(inode.number): \(text)")
    }
    transfers.ended(inode.number, error: text)
  }

  /// The files whose content can go now.
  private func ready(_ items: [ItemID]) throws(Errno) -> [Catalog.Inode] {
    // Until somebody asks for it, or it costs nothing any more.
    guard !link.isMetered || hurrying > 0 else { return [] }
    var result: [Catalog.Inode] = []
    for item in items where beyondQuota[item] == nil {
      guard let found = try coordinator.catalog.local(item), found.isEdited,
        !coordinator.isOpenForWriting(found.inode.number), found.inode.content == .local
      else { continue }
      let isPaused =
        found.record.links.first.map { turns.pause($0, at: monotonicNanoseconds()) != nil } ?? false
      if !isPaused { result.append(found.inode) }
    }
    return result
  }

  /// Where one round's contents go, and which of their chunks are there.
  private struct Sending {
    let uploader: ContentUploader
    let isKnown: @Sendable ([ChunkID]) throws -> Set<ChunkID>
  }

  /// Of each file its content, or nil when it changed while it was read: its next close brings it here
  /// again.
  private func upload(_ batch: UploadBatch, _ sending: Sending) async throws(RemoteError)
    -> [Result<StagedContent?, Errno>]
  {
    let coordinator = coordinator
    for inode in batch.files { coordinator.opened(inode.number, forWriting: false) }
    defer {
      for inode in batch.files {
        coordinator.closed(inode.number, forWriting: false)
        coordinator.reclaim(inode.number)
      }
    }
    let manifests =
      batch.isSmall
      ? try await sendSmall(batch.files, sending)
      : [try await ofOneFile { () throws(RemoteError) in try await send(batch.files[0], sending) }]
    FaultPoint.reach("sync.content-durable")
    return zip(batch.files, manifests).map { inode, manifest in
      switch manifest {
      case .success(let manifest): .success(manifest.flatMap { stage(inode, $0) })
      case .failure(let errno): .failure(errno)
      }
    }
  }

  /// Takes apart what is one file's fault and what stops them all.
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

  private func sendSmall(_ inodes: [Catalog.Inode], _ sending: Sending) async throws(RemoteError)
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
    var rest = try await sending.uploader.add(small: files, isKnown: sending.isKnown)[...]
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

  private func send(_ inode: Catalog.Inode, _ sending: Sending) async throws(RemoteError)
    -> Manifest
  {
    let coordinator = coordinator
    let file: OpenFile?
    do throws(Errno) {
      file = try coordinator.contentForUpload(of: inode)
    } catch {
      throw .file(error)
    }
    guard let file else { throw .changedWhileReading }
    let board = transfers
    let manifest = try await sending.uploader.add(
      file: file, size: inode.size, isKnown: sending.isKnown,
      progress: {
        board.progressed(inode.number, to: $0)
        coordinator.tellStatus(inode.number)
      })
    // The row is to say that this file is the version that is sent: after a power cut it has to be.
    do throws(Errno) {
      try await BlockingWork.run { () throws(Errno) in
        try coordinator.content.synchronize(inode.uploadKey, file)
      }
    } catch {
      throw .file(error)
    }
    return manifest
  }

  /// Nil when the file is not any more what was sent.
  private func stage(_ inode: Catalog.Inode, _ manifest: Manifest) -> StagedContent? {
    guard !coordinator.isOpenForWriting(inode.number),
      let now = try? coordinator.catalog.inode(inode.number),
      now.version == nil, now.generation == inode.generation, now.size == inode.size,
      now.modified == inode.modified, now.changed == inode.changed, now.size == manifest.size
    else { return nil }
    let version = staged[inode.item].flatMap { $0.isStill(now) ? $0.version : nil } ?? .random()
    return StagedContent(version: version, inode: now, manifest: manifest)
  }
}

extension ContainerCoordinator {
  /// Nil while a program has it open for writing, a mapping included, and when it was removed or replaced
  /// before it was opened here.
  fileprivate func contentForUpload(of inode: Catalog.Inode) throws(Errno) -> OpenFile? {
    do throws(Errno) {
      guard try !content.hasWriter(inode.uploadKey) else { return nil }
      return try content.open(inode.uploadKey, writable: false)
    } catch .noSuchFileOrDirectory {
      guard let now = try? catalog.inode(inode.number), now.generation == inode.generation,
        !now.isOrphan
      else { return nil }
      throw .noSuchFileOrDirectory
    }
  }
}

extension Catalog.Inode {
  /// Of a file, as all are that are sent.
  fileprivate var uploadKey: ContentKey { ContentKey(item: item, generation: generation) }
}
