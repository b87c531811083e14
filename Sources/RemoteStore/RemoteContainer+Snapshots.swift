internal import Backend
package import Model
internal import RecordFormat

/// What a log folds to, in the backend: for devices that are new, or were away for longer than the
/// log is kept. A snapshot is there when its index is, which is put last and binds its parts.
extension RemoteContainer {
  package func writeSnapshot(at position: LogPosition, from origin: LogOrigin) -> SnapshotWriter {
    SnapshotWriter(self, position, origin)
  }

  /// Up to which segments there are snapshots with an index, the newest first. One list request in
  /// most cases; none of them was opened yet.
  package func snapshots(beyond sequence: UInt64) async throws(RemoteError) -> [UInt64] {
    try await snapshotKeys().filter(\.isIndex).map(\.sequence).filter { $0 > sequence }
      .sorted(by: >)
  }

  /// The index of the snapshot up to a segment.
  package func snapshot(_ sequence: UInt64) async throws(RemoteError) -> SnapshotIndex {
    let name = ObjectName.snapshotIndex(incarnation, sequence)
    let stored = try await snapshotObject(name, limit: RemoteLimits.snapshotIndex)
    let opened = try await openIndex(stored, name, sequence)
    guard keys.isValid(opened.signature) else {
      // For readers it is as good as damaged: an older snapshot or the log will do.
      throw .damaged(
        object: name, reason: "it is not signed by a member of the account")
    }
    let index: SnapshotIndex
    do throws(RecordError) { index = try SnapshotIndex(decoding: opened.body) } catch {
      throw Self.damage(name, error)
    }
    guard index.position.sequence == sequence else {
      throw .damaged(object: name, reason: "it has the index of another snapshot")
    }
    return index
  }

  func openIndex(_ stored: [UInt8], _ name: String, _ sequence: UInt64)
    async throws(RemoteError) -> SignedObject
  {
    try await memberLog.reading { () throws(RemoteError) in
      try keys.openSigned(
        stored, .recoveredIndex, associated("snapshot index", sequence), name,
        limit: RemoteLimits.snapshotIndex)
    }
  }

  /// One part of a snapshot, verified against its index.
  package func part(_ number: Int, of index: SnapshotIndex) async throws(RemoteError)
    -> SnapshotPart
  {
    let name = ObjectName.snapshotPart(
      incarnation, index.position.sequence, writer: index.writer, number)
    let stored = try await snapshotObject(name, limit: RemoteLimits.snapshotPart)
    guard index.parts.indices.contains(number), Self.hash(stored) == index.parts[number].hash else {
      throw .damaged(object: name, reason: "it is not the snapshot part that its index names")
    }
    let (sealed, epoch) = try ObjectHeader.snapshotPart.sealed(of: stored, object: name)
    let keys = try await memberLog.reading { () throws(RemoteError) in
      try self.keys.keys(of: epoch ?? 1, name)
    }
    do {
      let plain = try keys.log.open(
        sealed, associated(index.position.sequence, index.writer, number), epoch: epoch,
        limit: RemoteLimits.snapshotPartBody)
      return try SnapshotPart(decoding: plain)
    } catch {
      throw Self.damage(name, error)
    }
  }

  func associated(_ sequence: UInt64, _ writer: PackID, _ number: Int) -> AssociatedData {
    var result = associated("snapshot part", sequence)
    result.append([0] + writer.bytes)
    result.append(UInt32(number))
    return result
  }

  private func snapshotObject(_ name: String, limit: Int) async throws(RemoteError) -> [UInt8] {
    let bytes: [UInt8]
    do throws(StoreError) {
      bytes = try await store.get(name, range: 0..<UInt64(limit) + 1)
    } catch .notFound {
      throw .damaged(object: name, reason: "it is missing")
    } catch {
      throw RemoteError(error)
    }
    guard bytes.count <= limit else { throw .damaged(object: name, reason: "it is too long") }
    return bytes
  }

  static func damage(_ name: String, _ error: any Error) -> RemoteError {
    .damaged(object: name, reason: (error as? SealError)?.reason ?? "\(error)")
  }

  struct SnapshotKey {
    let sequence: UInt64
    let key: String
    let isIndex: Bool
  }

  /// Foreign names are passed over.
  func snapshotKeys() async throws(RemoteError) -> [SnapshotKey] {
    try await store.ownKeys(ObjectName.snapshots(incarnation)).compactMap { name, key in
      switch key {
      case .snapshotIndex(_, let sequence):
        SnapshotKey(sequence: sequence, key: name, isIndex: true)
      case .snapshotPart(_, let sequence, _, _):
        SnapshotKey(sequence: sequence, key: name, isIndex: false)
      default: nil
      }
    }
  }
}

/// A part of a snapshot, encoded page by page. The bytes take a tenth of the memory of their
/// records.
package struct SnapshotPartBody: Sendable {
  fileprivate private(set) var bytes: [UInt8] = []

  package init() {}

  package var count: Int { bytes.count }
  package var isEmpty: Bool { bytes.isEmpty }

  /// A part has lists alone, and the elements of a list need not be together in an encoded message
  /// (Protocol Buffers, "Encoding").
  package mutating func append(_ page: SnapshotPart) throws(RemoteError) {
    bytes += try page.checked()
  }
}

/// Puts the parts of one snapshot, then its index. Not to be used by two tasks at once.
package final class SnapshotWriter: Sendable {
  private let container: RemoteContainer
  private let position: LogPosition
  private let origin: LogOrigin
  private let writer = PackID.random()

  init(_ container: RemoteContainer, _ position: LogPosition, _ origin: LogOrigin) {
    self.container = container
    self.position = position
    self.origin = origin
  }

  /// Durable when it returns. Parts are numbered from 0 on without gaps.
  package func put(_ part: SnapshotPartBody, number: Int) async throws(RemoteError)
    -> SnapshotIndex.Part
  {
    let body = part.bytes
    // The first epoch's parts are as they were before there were others.
    let (newest, keys) = container.keys.newest
    let epoch = newest > 1 ? newest : nil
    let stored =
      (epoch.map { ObjectHeader.snapshotPart.bytes(epoch: $0) } ?? ObjectHeader.snapshotPart.bytes)
      + keys.log.seal(
        body, container.associated(position.sequence, writer, number), epoch: epoch)
    guard body.count <= RemoteLimits.snapshotPartBody, stored.count <= RemoteLimits.snapshotPart
    else { throw .tooLarge("a snapshot part of \(body.count) bytes") }
    let name = ObjectName.snapshotPart(
      container.incarnation, position.sequence, writer: writer, number)
    guard try await container.putOnce(name, stored, readBack: RemoteLimits.snapshotPart) else {
      throw .damaged(object: name, reason: "another object is stored under its name")
    }
    return SnapshotIndex.Part(
      hash: RemoteContainer.hash(stored), length: UInt64(stored.count))
  }

  /// All `parts` are in the backend. Nil when another device has put the same snapshot: it is as
  /// good.
  package func finish(
    _ parts: [SnapshotIndex.Part], items: UInt64, recovery: LogRecovery? = nil,
    known: [LogPosition] = []
  ) async throws(RemoteError) -> SnapshotMark? {
    let index = SnapshotIndex(
      position: position, origin: origin, writer: writer, parts: parts, items: items,
      recovery: recovery, known: known)
    let name = ObjectName.snapshotIndex(container.incarnation, position.sequence)
    let header = recovery == nil ? ObjectHeader.snapshotIndex : .recoveredIndex
    try await container.memberLog.join()
    let stored = try container.keys.sealSigned(
      index.checked(), header, container.associated("snapshot index", position.sequence)
    ).bytes
    guard stored.count <= RemoteLimits.snapshotIndex else {
      throw .tooLarge("the index of a snapshot")
    }
    let isOurs = try await container.putOnce(
      name, stored, readBack: RemoteLimits.snapshotIndex)
    guard isOurs else {
      await discard(parts.count)
      return nil
    }
    return SnapshotMark(
      sequence: position.sequence, bytes: parts.reduce(UInt64(stored.count)) { $0 + $1.length })
  }

  /// Removes what was put and is in no snapshot. What stays behind goes with older snapshots.
  package func discard(_ count: Int) async {
    for number in 0..<count {
      try? await container.store.delete(
        ObjectName.snapshotPart(
          container.incarnation, position.sequence, writer: writer, number))
    }
  }
}
