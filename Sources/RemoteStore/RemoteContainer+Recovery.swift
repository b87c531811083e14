internal import Backend
package import Model
internal import RecordFormat

/// What recovery asks of a container: how far anything in the store reaches, and the segment from
/// which the log goes on.
extension RemoteContainer {
  /// Sequences of all segments and snapshots that the store names. Names are hostile: one that no
  /// log ever reaches is passed over.
  package func sequences() async throws(RemoteError) -> [UInt64] {
    let log = ObjectName.log(incarnation)
    let segments = try await store.allKeys(log, limit: RemoteLimits.objects).compactMap {
      ObjectName.sequence($0.dropFirst(log.count))
    }
    let snapshots = try await snapshotKeys().map(\.sequence)
    return (segments + snapshots).filter { $0 <= RemoteLimits.lastSequence }
  }

  /// Gives the container its name again, if a store that went back lacks it. False: the name is
  /// another container's.
  package func restoreName(from origin: LogOrigin) async throws(RemoteError) -> Bool {
    let place = AccountRecords.Place.name(keys.objectName(of: id))
    let object = place.object
    if let known = try await records.containerInfo(place) {
      return known.incarnation == incarnation
    }
    let info = ContainerInfo(
      id: id, created: origin.time, creator: origin.device, incarnation: incarnation)
    try await records.put(info.checked(), place)
    guard let named = try await records.containerInfo(place) else {
      throw .store(
        .unavailable("the backend does not return \"\(object)\", which was just stored there"))
    }
    return named.incarnation == incarnation
  }

  /// A segment that changes nothing, for the place where a log goes on after a recovery. It is put
  /// with `put`.
  package func recoverySegment(
    at sequence: UInt64, after previous: LogPosition, from origin: LogOrigin
  ) async throws(RemoteError) -> (position: LogPosition, bytes: [UInt8]) {
    try await memberLog.keepEntries()
    let (stored, members) = try await sealedSegment(
      LogChanges(), at: sequence, after: previous, from: origin)
    let position = LogPosition(
      sequence: sequence, hash: Self.hash(stored), members: max(members, previous.members))
    return (position, stored)
  }

  /// False: another device has put one there.
  package func put(recovery segment: (position: LogPosition, bytes: [UInt8]))
    async throws(RemoteError) -> Bool
  {
    try await putOnce(
      ObjectName.segment(incarnation, segment.position.sequence), segment.bytes,
      readBack: segment.bytes.count)
  }
}
