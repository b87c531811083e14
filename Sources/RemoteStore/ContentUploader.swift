internal import Backend
package import Model
package import Platform

extension RemoteContainer {
  /// `stored` is told of chunks as soon as they are in the backend, long before `finish`. At most
  /// `packs` packs are on their way at once; the store lets through as many as are worth it. No
  /// pack begins to be stored while `turn` is closed.
  package func makeUploader(
    packs: Int = 4, turn: UploadTurn = UploadTurn(),
    stored: @escaping @Sendable ([ChunkLocation]) -> Void = { _ in }
  ) -> ContentUploader {
    ContentUploader(self, packs: packs, turn: turn, stored: stored)
  }
}

/// Sends the contents of files, each chunk once, in packs that files share.
///
/// Several files may be added at the same time. At most about 70 MiB are in memory, and 8 MiB more
/// for each further file at the same time. After a pack failed to be stored, every call fails with
/// the same error: what was added is not in the backend, and the uploader is to be thrown away.
package actor ContentUploader {
  private let container: RemoteContainer
  private let tellStored: @Sendable ([ChunkLocation]) -> Void
  private let memory: UploadMemory
  private var room: PackRoom
  private var pack: PackBuilder
  /// What is in this uploader's packs, or on its way into one.
  private var claimed: Set<ChunkID> = []
  private var stored: [ChunkLocation] = []
  private var sending: [Int: Task<Result<[ChunkLocation], RemoteError>, Never>] = [:]
  private var nextSending = 0
  /// Each is a pack in memory.
  private let parallelPuts: Int
  private let turn: UploadTurn
  private var failure: RemoteError?

  /// Files up to this may be added many at once.
  package static let smallFile = UInt64(Chunker.whole)
  /// What is added at once is together at most this long.
  package static let batchBytes = UInt64(ReadBuffer.capacity)

  init(
    _ container: RemoteContainer, packs: Int = 4, turn: UploadTurn,
    stored: @escaping @Sendable ([ChunkLocation]) -> Void
  ) {
    self.container = container
    parallelPuts = packs
    self.turn = turn
    tellStored = stored
    memory = UploadMemory()
    room = memory.takePack()
    pack = PackBuilder(in: room)
  }

  deinit { for task in sending.values { task.cancel() } }

  /// Reads `size` bytes of a file and sends what of them is new. Gives the content's chunks; they
  /// are durable when `finish` returns.
  ///
  /// `isKnown` answers which of some chunks the container holds already; it is called before the
  /// chunks are claimed, on the uploader, and must not call it back. `progress` is told how many of
  /// the file's bytes are dealt with, several times, from 0 to `size`.
  ///
  /// Fails with `.changedWhileReading` when the file has got shorter, `.file`, `.lookup`,
  /// `.cancelled`, or with what the backend said. Bytes that change while they are read give some
  /// mixture of old and new: who needs one or the other checks the file afterwards.
  package func add(
    file: OpenFile, size: UInt64,
    isKnown: @Sendable ([ChunkID]) throws -> Set<ChunkID> = { _ in [] },
    progress: @Sendable (UInt64) -> Void = { _ in }
  ) async throws(RemoteError) -> Manifest {
    let keys = container.keys
    var references: [ChunkReference] = []
    var done: UInt64 = 0
    if size > 0 {
      let chunks = FileChunks(file: file, size: size, keys: keys, memory: memory)
      var next = await Self.next(chunks)
      while let batch = try next.get() {
        try await check()
        // It is read and cut by one processor, and sealing the one before leaves some.
        async let following = Self.next(chunks)
        references += batch.references
        let wanted = try claim(batch.references, isKnown)
        if !wanted.isEmpty {
          await seal(wanted, of: batch)
          try await settle(leaving: parallelPuts)
        }
        done += batch.references.reduce(0) { $0 + UInt64($1.length) }
        progress(done)
        next = await following
      }
    }
    return Manifest(chunks: references)
  }

  private static func next(_ chunks: FileChunks) async -> Result<ChunkBatch?, RemoteError> {
    await BlockingWork.run {
      do throws(RemoteError) { return .success(try chunks.next()) } catch { return .failure(error) }
    }
  }

  /// The same of small files, many at once: each one's content, or why it has none. Fails as a
  /// whole with what is no single file's fault.
  package func add(
    small files: [SmallFile], isKnown: @Sendable ([ChunkID]) throws -> Set<ChunkID> = { _ in [] }
  ) async throws(RemoteError) -> [Result<Manifest, RemoteError>] {
    try await check()
    let keys = container.keys
    let memory = memory
    let read = await BlockingWork.run { SmallFiles(files, keys: keys, memory: memory) }
    await seal(try claim(read.batch.references, isKnown), of: read.batch)
    await read.synchronize()
    try await settle(leaving: parallelPuts)
    return read.results
  }

  /// Nothing here fails or is cancelled: what is claimed gets into a pack.
  private func seal(_ wanted: [Int], of batch: ChunkBatch) async {
    guard !wanted.isEmpty else { return }
    let keys = container.keys
    let memory = memory
    let sealed = await BlockingWork.run {
      concurrently(wanted.count) { index in
        let chunk = wanted[index]
        return memory.withCompressor {
          keys.seal(batch.bytes[chunk], as: batch.references[chunk], with: $0)
        }
      }
    }
    for (index, bytes) in zip(wanted, sealed) { append(bytes, batch.references[index]) }
  }

  /// The same for bytes in memory, each element a chunk of its own of at most 1 MiB.
  package func add(
    pieces: [[UInt8]], isKnown: @Sendable ([ChunkID]) throws -> Set<ChunkID> = { _ in [] }
  ) async throws(RemoteError) -> [ChunkReference] {
    try await check()
    let keys = container.keys
    let references = pieces.map { bytes in
      bytes.withUnsafeBytes {
        ChunkReference(id: keys.chunkID($0), length: UInt32($0.count))
      }
    }
    let memory = memory
    for index in try claim(references, isKnown) {
      let sealed = pieces[index].withUnsafeBytes { bytes in
        memory.withCompressor { keys.seal(bytes, as: references[index], with: $0) }
      }
      append(sealed, references[index])
    }
    try await settle(leaving: parallelPuts)
    return references
  }

  /// Sends chunks that are in memory, whether the container holds them elsewhere or not.
  package func add(_ chunks: [(reference: ChunkReference, bytes: [UInt8])])
    async throws(RemoteError)
  {
    try await check()
    let keys = container.keys
    for chunk in chunks where claimed.insert(chunk.reference.id).inserted {
      let sealed = chunk.bytes.withUnsafeBytes { bytes in
        memory.withCompressor { keys.seal(bytes, as: chunk.reference, with: $0) }
      }
      append(sealed, chunk.reference)
      try await settle(leaving: parallelPuts)
    }
  }

  /// Sends what is left and gives the places of all new chunks since the last `finish`. When it
  /// returns, they are durable: only then may a segment name them. Not to be called while a file is
  /// being added. The uploader may be used again, and asks `isKnown` about everything anew.
  package func finish() async throws(RemoteError) -> [ChunkLocation] {
    try await check()
    send()
    try await settle(leaving: 0)
    defer {
      stored = []
      claimed = []
    }
    return stored
  }

  /// Ends what is on its way, one way or the other: nothing is told to be stored afterwards. Calls
  /// that wait for it fail with `.cancelled`.
  package func abandon() async {
    // From here on no call starts to store a pack.
    failure = failure ?? .cancelled
    for task in sending.values { task.cancel() }
    for task in sending.values { _ = await task.value }
    sending = [:]
  }

  private func check() async throws(RemoteError) {
    // Only then it suspends, before the rest is looked at.
    if container.keys.isLeaving { try await container.memberLog.requireHere() }
    if let failure { throw failure }
    if Task.isCancelled { throw .cancelled }
  }

  /// Which chunks of the batch are to be sent; each is from now on this call's to send. Runs
  /// without a break, so that of two calls with the same chunk one sends it.
  private func claim(
    _ references: [ChunkReference], _ isKnown: ([ChunkID]) throws -> Set<ChunkID>
  ) throws(RemoteError) -> [Int] {
    var seen: Set<ChunkID> = []
    let new = references.indices.filter { index in
      let id = references[index].id
      return !claimed.contains(id) && seen.insert(id).inserted
    }
    guard !new.isEmpty else { return [] }
    let known: Set<ChunkID>
    do {
      known = try isKnown(new.map { references[$0].id })
    } catch {
      throw .lookup("\(error)")
    }
    let wanted = new.filter { !known.contains(references[$0].id) }
    for index in wanted { claimed.insert(references[index].id) }
    return wanted
  }

  private func append(_ sealed: SealedBytes, _ chunk: ChunkReference) {
    pack.append(sealed, chunk)
    if pack.isFull { send() }
  }

  /// Starts storing the pack at hand. After a failure the pack is dropped: no call would wait for
  /// it, or end it.
  private func send() {
    guard !pack.isEmpty else { return }
    guard failure == nil else {
      pack = PackBuilder(in: room)
      return
    }
    let full = room
    let (id, locations) = (pack.id, pack.locations)
    pack.finish(container.keys)
    room = memory.takePack()
    pack = PackBuilder(in: room)
    nextSending += 1
    let (container, memory, tellStored, turn) = (container, memory, tellStored, turn)
    sending[nextSending] = Task {
      let name = ObjectName.pack(container.incarnation, id)
      let result = await turn.run { () async -> Result<Void, RemoteError> in
        do throws(RemoteError) {
          guard try await container.putOnce(name, full.bytes, readBack: full.bytes.count) else {
            throw .damaged(object: name, reason: "another object is stored under its name")
          }
          return .success(())
        } catch {
          return .failure(error)
        }
      }
      return result.map { _ in
        memory.giveBack(full)
        tellStored(locations)
        return locations
      }
    }
  }

  /// Waits until at most `count` packs are on their way, the oldest first.
  private func settle(leaving count: Int) async throws(RemoteError) {
    while sending.count > count, let oldest = sending.keys.min(), let task = sending[oldest] {
      // Not cancelled with this call: the pack may hold other files' chunks.
      let result = await task.value
      // Another call may have waited for the same pack and taken its result.
      guard sending.removeValue(forKey: oldest) != nil else { continue }
      switch result {
      case .success(let locations): stored += locations
      case .failure(let error): failure = error
      }
    }
    try await check()
  }
}
