internal import Backend
package import Model
internal import Platform
internal import RecordFormat

/// What is removed from a container's objects, and what devices tell each other for it.
extension RemoteContainer {
  /// Removes the segments up to a sequence number, the oldest first: what is left always reaches to
  /// the head without a gap. Gives how many there were.
  package func removeLog(upTo sequence: UInt64) async throws(RemoteError) -> Int {
    let prefix = ObjectName.log(incarnation)
    let store = store
    var count = 0
    while true {
      let found = try await segmentKeys(after: 0, limit: 256)
      let old = found.filter { key in
        (ObjectName.sequence(key.dropFirst(prefix.count)) ?? .max) <= sequence
      }
      for key in old {
        try await storing { () async throws(StoreError) in try await store.delete(key) }
        FaultPoint.reach("compact.segment-removed")
      }
      count += old.count
      guard !old.isEmpty, old.count == found.count else { return count }
    }
  }

  /// Removes the snapshots before one, each index before its parts: a snapshot that is there is
  /// whole. `spared`: one that stays.
  package func removeSnapshots(
    before sequence: UInt64, sparing spared: UInt64? = nil
  ) async throws(RemoteError) {
    let old = try await snapshotKeys().filter {
      $0.sequence < sequence && $0.sequence != spared
    }
    let store = store
    for key in (old.filter(\.isIndex) + old.filter { !$0.isIndex }).map(\.key) {
      try await storing { () async throws(StoreError) in try await store.delete(key) }
      FaultPoint.reach("compact.snapshot-removed")
    }
  }

  package func removePack(_ pack: PackID) async throws(RemoteError) {
    let store = store
    let name = ObjectName.pack(incarnation, pack)
    try await storing { () async throws(StoreError) in try await store.delete(name) }
  }

  /// Every pack that there is, whether the log knows of it or not.
  package func packs() async throws(RemoteError) -> [PackID] {
    let prefix = ObjectName.packs(incarnation)
    return try await store.ownKeys(prefix, limit: RemoteLimits.objects).compactMap { found in
      if case .pack(_, let pack) = found.key { pack } else { nil }
    }
  }

  // MARK: Cursors

  package func put(_ cursor: DeviceCursor) async throws(RemoteError) {
    try await memberLog.join()
    let bytes = try keys.sealSigned(
      cursor.checked(), .cursor, associated(cursor.device)
    ).bytes
    let store = store
    let name = ObjectName.cursor(incarnation, cursor.device)
    try await storing { () async throws(StoreError) in try await store.replace(name, bytes) }
  }

  /// Of all devices that ever told. One that is damaged fails it: it might be the one that is
  /// behind.
  package func cursors() async throws(RemoteError) -> [DeviceCursor] {
    let (cursors, damaged) = try await readableCursors()
    if let failure = damaged.first { throw failure }
    return cursors
  }

  /// The same without those that are damaged, and a failure for each of these.
  package func readableCursors() async throws(RemoteError) -> (
    cursors: [DeviceCursor], damaged: [RemoteError]
  ) {
    var result: (cursors: [DeviceCursor], damaged: [RemoteError]) = ([], [])
    for (name, key) in try await store.ownKeys(ObjectName.cursors(incarnation)) {
      // Nobody waits for a device that was removed.
      guard case .cursor(_, let device) = key, !keys.membership.isRemoved(device) else {
        continue
      }
      do throws(RemoteError) {
        result.cursors.append(try await cursor(of: device, name))
      } catch .damaged(let object, let reason) {
        result.damaged.append(.damaged(object: object, reason: reason))
      } catch .unsigned(let object, let reason) {
        result.damaged.append(.unsigned(object: object, reason: reason))
      } catch .newerFormat(let object, let version) {
        result.damaged.append(.newerFormat(object: object, version: version))
      }
    }
    return result
  }

  private func cursor(of device: DeviceID, _ name: String) async throws(RemoteError) -> DeviceCursor
  {
    let stored: [UInt8]
    do throws(StoreError) {
      stored = try await store.get(name, range: 0..<UInt64(RemoteLimits.smallObject) + 1)
    } catch .notFound {
      // Cursors are replaced and never removed: this one may be the one that is behind.
      throw .store(.unavailable("the backend lists \"\(name)\" but does not return it"))
    } catch {
      throw RemoteError(error)
    }
    let opened = try await memberLog.reading { () throws(RemoteError) in
      try keys.openSigned(
        stored, .cursor, associated(device), name, limit: RemoteLimits.smallObject)
    }
    guard keys.isValid(opened.signature) else {
      throw AccountRecords.unsigned(name, opened.signature)
    }
    let cursor: DeviceCursor
    do throws(RecordError) { cursor = try DeviceCursor(decoding: opened.body) } catch {
      throw .damaged(object: name, reason: error.description)
    }
    var isOwn = cursor.device == device
    if case .genuine(let signer, _) = opened.signature { isOwn = isOwn && signer == device }
    guard isOwn else { throw .damaged(object: name, reason: "it belongs to another device") }
    return cursor
  }

  private func associated(_ device: DeviceID) -> AssociatedData {
    var result = AssociatedData("cursor")
    result.append(incarnation.bytes)
    result.append(device.bytes)
    return result
  }
}
