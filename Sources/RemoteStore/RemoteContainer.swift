internal import Backend
internal import Crypto
package import Model
internal import Platform
internal import RecordFormat

/// One segment of a container's log, verified.
package struct LogSegment: Equatable, Sendable {
  package let position: LogPosition
  /// Of a void segment no device.
  package let origin: LogOrigin
  /// Nothing in a void segment: a device put it that was no member any more.
  package let changes: LogChanges

  package init(position: LogPosition, origin: LogOrigin, changes: LogChanges) {
    self.position = position
    self.origin = origin
    self.changes = changes
  }
}

/// The segments that one look at a log gave.
package struct LogBatch: Sendable {
  package var segments: [LogSegment] = []
  /// Whether the log had no more than these when it was listed.
  package var isLast = true
}

/// One container in the backend: its log, and the chunks of its files.
///
/// Safe from any task; it holds no state but names and keys.
package final class RemoteContainer: Sendable {
  package let id: ContainerID
  /// Keep it: with it `RemoteAccount.container(_:incarnation:)` needs no backend.
  package let incarnation: IncarnationID
  let store: any ObjectStore
  let keys: AccountState
  /// Of the newest long segment that was read or put. A leaf.
  let beginning = Lock<SegmentBeginning?>(nil)

  /// `segments` gives so many at a time, if there are.
  package static let batchSegments = 64
  /// Of them as stored. Records that were read take about ten times as much.
  private static let batchBytes = 2 << 20
  /// At most; the store lets through what is worth it.
  private static let parallelGets = 8
  /// Of each segment that is read beside others. What is longer comes after them, one at a time.
  private static let parallelBytes = 4 << 20

  init(id: ContainerID, incarnation: IncarnationID, store: any ObjectStore, keys: AccountState) {
    self.id = id
    self.incarnation = incarnation
    self.store = store
    self.keys = keys
  }

  // MARK: - Reading the log

  /// The segments after a position, in order, verified against it and each other; none at the head.
  /// There may be more than are given, as the batch says: ask again after the last of them.
  ///
  /// One that fails its check ends the batch; when it is the first, its error is thrown. So what is
  /// given is always whole and in order, and a damaged segment is never passed over.
  ///
  /// The list begins some segments before the position, so each look also checks that the store
  /// still has the last ones that this device read: `looksBack` of them, without a gap, as far as
  /// no snapshot has them. The last one alone would not do: a device that puts a segment while the
  /// store is set back leaves it there behind a gap. `readsHead`: compares the hash of the last one
  /// too, by one more request beside the list. `readsNext`: the log most likely has one more
  /// segment, which is read beside the list; that is one more request too.
  ///
  /// Fails with `.logRemoved` when the log goes on only later than at the next segment, and with
  /// `.rolledBack` when the segment at the position, and everything after it, is missing or is
  /// another.
  package func batch(
    after position: LogPosition, readsHead: Bool = false, looksBack: Int = 16,
    readsNext: Bool = false
  ) async throws(RemoteError) -> LogBatch {
    try keys.requireNotRemoved()
    let log = ObjectName.log(incarnation)
    let head = ObjectName.segment(incarnation, position.sequence)
    async let checked = readsHead ? headState(position) : HeadState.unknown
    async let next = readsNext ? nextSegment(after: position) : nil
    let found: [String]
    do throws(RemoteError) {
      found = try await checkedForGaps(
        try await listed(from: position, looksBack: looksBack), upTo: position,
        from: position.sequence - Self.reach(looksBack, from: position), isThorough: readsHead)
    } catch {
      // Cancelled requests cost their connections.
      _ = await (checked, next)
      throw error
    }
    let (state, nextBytes) = await (checked, next)
    var names = found[...]
    if position.sequence > 0 {
      if names.first == head {
        names = names.dropFirst()
        switch state {
        case .other: throw .rolledBack(object: head)
        case .failed(let error): throw error
        case .missing:
          throw .store(.unavailable("the backend lists \"\(head)\" but does not return it"))
        case .same, .unknown: break
        }
        // A list may be older than the news; the object itself decides.
        if names.isEmpty, nextBytes != nil {
          names = [ObjectName.segment(incarnation, position.sequence + 1)]
        }
      } else if names.isEmpty {
        // A list may be older than this device's last look; the object itself decides, as it is
        // after the list: what was read beside it may be from before the store went back.
        switch state == .unknown || state == .same ? await headState(position) : state {
        case .same: return LogBatch()
        case .failed(let error): throw error
        case .missing, .other, .unknown: throw .rolledBack(object: head)
        }
      }
    }
    guard let first = names.first else { return LogBatch() }
    if let sequence = ObjectName.sequence(first.dropFirst(log.count)),
      sequence > position.sequence
    {
      guard sequence - position.sequence == 1 else { throw .logRemoved(object: first) }
      // Old log goes only when a snapshot has it.
      if position.sequence > 0, found.first != head {
        guard let newest = try await snapshots(beyond: position.sequence - 1).first else {
          if let stored = try await segmentBytes(first),
            let deletion = try await endOfLog(stored, name: first, after: position)
          {
            throw .deleted(deletion)
          }
          throw .rolledBack(object: head)
        }
        // A device that was away may have put this segment where the log had been removed.
        if newest > position.sequence { throw .logRemoved(object: first) }
      }
    }
    let segments = try await read(names, after: position, first: nextBytes)
    let isLast = segments.count == names.count && names.count < Self.batchSegments
    return LogBatch(segments: segments, isLast: isLast)
  }

  /// The segments of a batch.
  package func segments(
    after position: LogPosition, readsHead: Bool = false, looksBack: Int = 16
  ) async throws(RemoteError) -> [LogSegment] {
    try await batch(after: position, readsHead: readsHead, looksBack: looksBack).segments
  }

  /// The keys from some segments before a position on; of those after it a batch.
  private func listed(
    from position: LogPosition, looksBack: Int
  ) async throws(RemoteError) -> [String] {
    let back = Self.reach(looksBack, from: position)
    return try await segmentKeys(
      after: position.sequence - back, limit: Self.batchSegments + Int(back))
  }

  /// How many segments before the position are listed, with the one at it.
  private static func reach(_ looksBack: Int, from position: LogPosition) -> UInt64 {
    min(position.sequence, UInt64(max(0, looksBack)) + 1)
  }

  /// Those from the position on. Throws `.rolledBack` when one is missing before it that no
  /// snapshot has: old log goes only when a snapshot has it. A list may be wrong; the object itself
  /// decides. The names are those after `start`. A gap may reach beyond it: a thorough look asks
  /// for a snapshot also where no segment is listed below the gap.
  private func checkedForGaps(
    _ names: [String], upTo position: LogPosition, from start: UInt64, isThorough: Bool
  ) async throws(RemoteError) -> [String] {
    let log = ObjectName.log(incarnation)
    let sequences = names.map { ObjectName.sequence($0.dropFirst(log.count)) ?? .max }
    let before = sequences.prefix { $0 < position.sequence }
    let rest = Array(names.dropFirst(before.count))
    guard sequences.dropFirst(before.count).first == position.sequence else { return rest }
    var next = position.sequence
    for sequence in before.reversed() {
      guard sequence == next - 1 else { break }
      next = sequence
    }
    guard next > start + 1, isThorough || before.first.map({ $0 < next }) ?? false else {
      return rest
    }
    let missing = ObjectName.segment(incarnation, next - 1)
    guard try await snapshots(beyond: next - 2).isEmpty,
      try await segmentBytes(missing) == nil
    else { return rest }
    throw .rolledBack(object: missing)
  }

  /// Nil: it is not there, or cannot be read now.
  private func nextSegment(after position: LogPosition) async -> [UInt8]? {
    let (sequence, overflow) = position.sequence.addingReportingOverflow(1)
    guard !overflow else { return nil }
    return try? await segmentBytes(ObjectName.segment(incarnation, sequence))
  }

  /// `first`: the first of them, if it was read.
  private func read(
    _ names: ArraySlice<String>, after start: LogPosition, first: [UInt8]?
  ) async throws(RemoteError) -> [LogSegment] {
    var result: [LogSegment] = []
    var position = start
    var size = 0
    var next = names
    if let first, let name = next.popFirst() {
      let segment = try await open(first, name: name, after: position)
      size += first.count
      position = segment.position
      result.append(segment)
    }
    while !next.isEmpty, size < Self.batchBytes {
      let names = next.prefix(Self.parallelGets)
      next = next.dropFirst(names.count)
      let stored = await segmentBytes(Array(names))
      for (name, beginning) in zip(names, stored) {
        do throws(RemoteError) {
          var bytes = try beginning.get()
          if bytes.count > Self.parallelBytes {
            // A long one comes alone. One that does not even begin as a segment does not come.
            _ = try ObjectHeader.segment.body(of: bytes, object: name)
            bytes = try await listedSegment(name)
          }
          let segment = try await open(bytes, name: name, after: position)
          size += bytes.count
          position = segment.position
          result.append(segment)
        } catch {
          guard result.isEmpty else { return result }
          throw error
        }
      }
    }
    return result
  }

  /// Whether the account still has this container, in this life of it.
  package func exists() async throws(RemoteError) -> Bool {
    let name = ObjectName.name(keys.objectName(of: id))
    let store = store
    let isNamed = try await storing { () async throws(StoreError) in
      try await store.list(prefix: name, after: nil, limit: 1).first == name
    }
    guard isNamed else { return false }
    return try await hasBegun()
  }

  /// Hints that the log may have grown.
  package func news() -> AsyncStream<Void> { store.news(prefix: ObjectName.log(incarnation)) }

  /// Whether `news` are found by looking at the log, so that nobody else need do it.
  package var looksForNews: Bool { store.looksForNews }

  func hasBegun() async throws(RemoteError) -> Bool {
    try await !segmentKeys(after: 0, limit: 1).isEmpty
  }

  private func listedSegment(
    _ name: String, limit: Int = RemoteLimits.segment
  ) async throws(RemoteError) -> [UInt8] {
    guard let bytes = try await segmentBytes(name, limit: limit) else {
      throw .logRemoved(object: name)
    }
    return bytes
  }

  /// The segments, or where one has more than `parallelBytes` so many and one more of it.
  private func segmentBytes(_ names: [String]) async -> [Result<[UInt8], RemoteError>] {
    await withTaskGroup(of: (Int, Result<[UInt8], RemoteError>).self) { group in
      for (index, name) in names.enumerated() {
        group.addTask {
          do throws(RemoteError) {
            let bytes = try await self.listedSegment(name, limit: Self.parallelBytes)
            return (index, .success(bytes))
          } catch {
            return (index, .failure(error))
          }
        }
      }
      var result = Array(
        repeating: Result<[UInt8], RemoteError>.failure(.cancelled), count: names.count)
      for await (index, bytes) in group { result[index] = bytes }
      return result
    }
  }

  /// `limit`: of a longer one only so many bytes and one more are given.
  func segmentBytes(
    _ name: String, limit: Int = RemoteLimits.segment
  ) async throws(RemoteError) -> [UInt8]? {
    let bytes: [UInt8]
    do throws(StoreError) {
      bytes = try await store.get(name, range: 0..<UInt64(limit) + 1)
    } catch .notFound {
      return nil
    } catch {
      throw RemoteError(error)
    }
    guard bytes.count <= RemoteLimits.segment else {
      throw .damaged(object: name, reason: "it is too long")
    }
    return bytes
  }

  // MARK: - Writing the log

  /// Puts changes as the segment after `position`, all of them or nothing; nil when another device
  /// was first. The chunks that they name must be durable before.
  ///
  /// When the backend does not answer, what it holds is looked at; only if that fails too is it
  /// unknown whether the segment is there. Then read the log: a segment of one's own device after
  /// `position` is this one.
  package func commit(
    _ changes: LogChanges, after position: LogPosition, from origin: LogOrigin,
    isNotice: Bool = false
  ) async throws(RemoteError) -> LogPosition? {
    let (sequence, overflow) = position.sequence.addingReportingOverflow(1)
    guard !overflow else { throw .tooLarge("the log") }
    let count =
      changes.upserts.count + changes.removals.count + changes.forgotten.count
      + changes.condemned.count + changes.deleted.count
    guard count <= RecordLimits.records else { throw .tooLarge("a change of \(count) items") }
    let (stored, members) = try await sealedSegment(
      changes, at: sequence, after: position, from: origin, isNotice: isNotice)
    let name = ObjectName.segment(incarnation, sequence)
    guard try await putOnce(name, stored, readBack: RemoteLimits.segment) else { return nil }
    let committed = LogPosition(
      sequence: sequence, hash: Self.hash(stored), members: max(members, position.members))
    guard try await isInLog(committed, after: position) else { return nil }
    remember(stored, at: committed)
    return committed
  }

  /// Puts an object that nobody else can make byte for byte, and finds out whether it is there even
  /// when the store's answer was lost, or was given to a repeated call.
  func putOnce(_ name: String, _ bytes: [UInt8], readBack limit: Int)
    async throws(RemoteError) -> Bool
  {
    var failure: RemoteError?
    do throws(StoreError) {
      if try await store.putIfAbsent(name, bytes) { return true }
    } catch .unavailable(let text) {
      failure = .store(.unavailable(text))
    } catch {
      throw RemoteError(error)
    }
    if PlantedMistake.believesEveryPut.isPlanted { return true }
    do throws(StoreError) {
      return try await store.get(name, range: 0..<UInt64(limit) + 1) == bytes
    } catch {
      throw failure ?? RemoteError(error)
    }
  }

  /// Of what belongs to one place of this container's log.
  func associated(_ label: String, _ sequence: UInt64) -> AssociatedData {
    var result = AssociatedData(label)
    result.append(incarnation.bytes)
    result.append(sequence)
    result.append(Array(id.description.utf8))
    return result
  }

  static func hash(_ stored: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: stored)) }
}
