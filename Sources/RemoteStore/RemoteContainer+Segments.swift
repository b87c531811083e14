package import Model
internal import RecordFormat

/// What a segment is made of, and whether it counts.
extension RemoteContainer {
  var memberLog: MemberLog { MemberLog(store: store, state: keys) }

  /// `name` is as the backend lists it, and hostile like all else. A segment of a device that was
  /// no member any more is void: it is part of the chain of hashes, and changes nothing.
  func open(_ stored: [UInt8], name: String, after position: LogPosition)
    async throws(RemoteError) -> LogSegment
  {
    let (sequence, overflow) = position.sequence.addingReportingOverflow(1)
    guard !overflow, name == ObjectName.segment(incarnation, sequence) else {
      throw .damaged(
        object: name, reason: "segment \(sequence) of the log, which comes before it, is missing")
    }
    if let deletion = try await endOfLog(stored, name: name, after: position) {
      throw .deleted(deletion)
    }
    let isEnd = ObjectHeader.deletion.isMagic(of: stored)
    let opened = isEnd ? nil : try await openSegment(stored, name: name, sequence: sequence)
    guard let opened, keys.isInForce(opened, after: position.members) else {
      let found = LogPosition(
        sequence: sequence, hash: Self.hash(stored), members: position.members)
      remember(stored, at: found)
      return LogSegment(position: found, origin: .none, changes: LogChanges())
    }
    let body = try Self.body(of: opened, name: name)
    guard body.previous == position.hash else {
      // It opened, so a device of the account wrote it here, after another past than ours.
      throw .rolledBack(object: name)
    }
    var members = position.members
    if case .genuine(let signer, let entry) = opened.signature {
      guard body.origin.device == signer else {
        throw .damaged(object: name, reason: "its signer is not the device that wrote it")
      }
      members = entry
    }
    let found = LogPosition(sequence: sequence, hash: Self.hash(stored), members: members)
    remember(stored, at: found)
    return LogSegment(position: found, origin: body.origin, changes: body.changes)
  }

  func openSegment(_ stored: [UInt8], name: String, sequence: UInt64) async throws(RemoteError)
    -> SignedObject
  {
    try await memberLog.reading { () throws(RemoteError) in
      try keys.openSigned(
        stored, .segment, associated("log", sequence), name, limit: RemoteLimits.segmentBody)
    }
  }

  static func body(of segment: SignedObject, name: String) throws(RemoteError) -> SegmentBody {
    do throws(RecordError) {
      return try SegmentBody(decoding: segment.body)
    } catch {
      throw .damaged(object: name, reason: error.description)
    }
  }

  /// Returns a sealed segment, and the entry of the member log that it names. `isNotice` allows it
  /// in a store that the account leaves: the segment only names the entry.
  func sealedSegment(
    _ changes: LogChanges, at sequence: UInt64, after position: LogPosition, from origin: LogOrigin,
    isNotice: Bool = false
  ) async throws(RemoteError) -> (bytes: [UInt8], members: UInt64) {
    if !isNotice { try await memberLog.join() }
    guard keys.identity.map({ $0.device == origin.device }) ?? true else {
      throw .malformed("device \(origin.device) is not the signing device")
    }
    let body = SegmentBody(previous: position.hash, origin: origin, changes: changes).encoded()
    guard body.count <= RemoteLimits.segmentBody else {
      throw .tooLarge("a change of \(body.count) bytes of metadata")
    }
    // All devices refuse a malformed segment, and no segment can follow it.
    do throws(RecordError) { _ = try SegmentBody(decoding: body) } catch {
      throw .malformed("\(error)")
    }
    let sealed = try keys.sealSigned(body, .segment, associated("log", sequence))
    guard sealed.bytes.count <= RemoteLimits.segment else {
      throw .tooLarge("a change of \(body.count) bytes of metadata")
    }
    return sealed
  }
}

extension LogOrigin {
  /// Of a segment that counts for nothing.
  static let none = LogOrigin(device: DeviceID(high: 0, low: 0), time: Timestamp(nanoseconds: 0))
}
