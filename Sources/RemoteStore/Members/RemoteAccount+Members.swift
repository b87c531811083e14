internal import Backend
package import Model
internal import Platform
package import RecordFormat

/// Devices that join and leave, and new keys.
extension RemoteAccount {
  /// As far as this device has read the member log; none in an account of the first format.
  package var members: [Member] { keys.membership.members }

  /// What a further device signs in with now.
  package var secret: AccountSecret { keys.newestSecret }

  /// Nil, or the device that removed this one.
  package var remover: DeviceID? {
    keys.identity.flatMap { keys.membership.remover(of: $0.device) }
  }

  /// The number of the last entry of the member log that this device has read.
  package var memberEntry: UInt64 { keys.membership.number }

  /// Reads what is new in the member log. Fails with `.removed` if this device is no member any
  /// more, and with `.damaged` if the backend does not hold what this device has read there.
  package func refreshMembers() async throws(RemoteError) {
    do throws(RemoteError) { try await memberLog.refresh(checksKnown: true) } catch .epochUnknown {
      try keys.requireNotRemoved()
      throw .secretChanged
    }
    try keys.requireNotRemoved()
  }

  /// Makes this device a member, if it is none; it is done before its first write in any case.
  /// `name`: what others call it, if it is to be another one than its keys were made with.
  package func join(as name: String? = nil) async throws(RemoteError) {
    try await memberLog.join(as: name)
  }

  /// Hints that the member log may have grown; none where they would have to be looked for.
  package func memberNews() -> AsyncStream<Void> {
    store.looksForNews ? AsyncStream { $0.finish() } : store.news(prefix: ObjectName.members)
  }

  /// Begins a new epoch: new keys and a new secret for the members that stay. Gives whether it did:
  /// if another device removed all of these devices meanwhile, nothing is left to do.
  ///
  /// Order of the steps, each of which may be the last one that is done:
  /// 1. What is to outlive the removed devices' word is signed by this device too.
  /// 2. The entry of the member log: from here on the devices are removed, and the members have the
  ///    new key.
  /// 3. `format`, so that the new secret opens the account.
  /// 4. An empty segment in each log: what the removed devices put after it is void.
  ///
  /// Any member does 3 and 4 if this device does not come to it (`settleMembers`).
  package func rotate(removing devices: Set<DeviceID> = [], secret: AccountSecret)
    async throws(RemoteError) -> Bool
  {
    try await memberLog.join()
    try await refreshMembers()
    let kept = try await countersign(leaving: devices)
    FaultPoint.reach("members.countersigned")
    let isOurs = try await memberLog.append { membership throws(RemoteError) in
      try keys.requireNotRemoved()
      try keys.requireHere()
      guard let identity = keys.identity else { throw .notMember }
      let left = devices.filter { membership.isMember($0) }
      guard devices.isEmpty || !left.isEmpty else { return nil }
      return try membership.rotation(
        removing: left, secret: secret, by: identity, time: MemberLog.now)
    }
    FaultPoint.reach("members.rotated")
    try await settleMembers()
    try await restore(kept)
    for device in devices {
      let store = store
      try await storing { () async throws(StoreError) in
        try await store.delete(ObjectName.device(device))
      }
    }
    return isOurs
  }

  /// Completes the last rotation or move, which its device may have left unfinished: puts `format`,
  /// and puts a segment into each log that names the entry. Segments of removed devices after that
  /// one are void. No device can put a segment after it without reading the entry.
  ///
  /// Any member may call it at any time. It lists the containers once in a process.
  package func settleMembers() async throws(RemoteError) {
    try await memberLog.keepFormat()
    let last = keys.membership.lastNotice
    guard last > 0, let identity = keys.identity, !keys.isSettled(last) else { return }
    for (id, incarnation) in try await incarnations() {
      try await container(id, incarnation: incarnation)
        .announceMembers(from: LogOrigin(device: identity.device, time: MemberLog.now))
      FaultPoint.reach("members.announced")
    }
    keys.settled(last)
  }

  // MARK: - Countersigning

  private struct Kept {
    let place: AccountRecords.Place
    let body: [UInt8]
    let isRecord: Bool
  }

  /// Signs what nobody would believe once these devices are gone: what they signed, and what nobody
  /// signed, as far as it counts now. Gives all of it.
  private func countersign(leaving devices: Set<DeviceID>) async throws(RemoteError) -> [Kept] {
    var result: [Kept] = []
    for (place, isRecord) in try await signedPlaces() {
      guard let stored = try await object(place.object),
        let opened = try? await records.open(stored, place), keys.isValid(opened.signature)
      else { continue }
      if case .genuine(let signer, _) = opened.signature, !devices.contains(signer) { continue }
      // An older version that the backend shows again is not to become the newest one.
      if isRecord, let seen = keys.seen[place.object], seen.version > opened.version { continue }
      let kept = Kept(place: place, body: opened.body, isRecord: isRecord)
      try await write(kept)
      result.append(kept)
    }
    return result
  }

  /// The same objects again, where a removed device has put its own in between.
  private func restore(_ kept: [Kept]) async throws(RemoteError) {
    for kept in kept {
      guard let stored = try await object(kept.place.object) else { continue }
      if let opened = try? await records.open(stored, kept.place), keys.isValid(opened.signature) {
        continue
      }
      try await write(kept)
    }
  }

  private func write(_ kept: Kept) async throws(RemoteError) {
    guard !kept.isRecord else { return try await records.replace(kept.body, kept.place) }
    let bytes = try keys.sealSigned(kept.body, kept.place.header, kept.place.associated).bytes
    let (store, object) = (store, kept.place.object)
    try await storing { () async throws(StoreError) in try await store.replace(object, bytes) }
  }

  /// Every object outside of logs that counts by its signature and is not a device's own.
  private func signedPlaces() async throws(RemoteError) -> [(
    place: AccountRecords.Place, isRecord: Bool
  )] {
    var result: [(place: AccountRecords.Place, isRecord: Bool)] = [(.quota, true)]
    for (_, key) in try await store.ownKeys(ObjectName.names) {
      if case .name(let code) = key { result.append((.name(code), true)) }
    }
    for (_, key) in try await store.ownKeys(ObjectName.deletions) {
      if case .deletion(let id) = key { result.append((.deletion(id), true)) }
    }
    for (id, incarnation) in try await incarnations() {
      let container = container(id, incarnation: incarnation)
      for sequence in try await container.snapshots(beyond: 0) {
        result.append((container.indexPlace(sequence), false))
      }
    }
    return result
  }

  /// Nil: it is not there.
  private func object(_ name: String) async throws(RemoteError) -> [UInt8]? {
    do throws(StoreError) {
      return try await store.get(name, range: 0..<UInt64(RemoteLimits.snapshotIndex))
    } catch .notFound {
      return nil
    } catch {
      throw RemoteError(error)
    }
  }
}

extension RemoteContainer {
  func indexPlace(_ sequence: UInt64) -> AccountRecords.Place {
    AccountRecords.Place(
      object: ObjectName.snapshotIndex(incarnation, sequence), header: .recoveredIndex,
      associated: associated("snapshot index", sequence))
  }

  /// The position of a segment of which nothing is known but its number.
  package func position(of sequence: UInt64) async throws(RemoteError) -> LogPosition {
    let name = ObjectName.segment(incarnation, sequence)
    guard let stored = try await segmentBytes(name) else { throw .logRemoved(object: name) }
    return LogPosition(sequence: sequence, hash: Self.hash(stored))
  }

  /// Whether the log up to a position says nothing yet of the last devices that were removed.
  package func lacksMembers(at position: LogPosition) -> Bool {
    guard keys.isMember, position.sequence > 0 else { return false }
    return position.members < keys.membership.lastRotation
  }

  private static var mostAttempts: Int { 50 }

  /// Puts a segment without changes that names the newest entry of the member log, unless the last
  /// segment names it or a later one. What a removed device puts after it is void.
  func announceMembers(from origin: LogOrigin) async throws(RemoteError) {
    for _ in 0..<Self.mostAttempts {
      var last: UInt64 = 0
      while let next = try await segmentNumbers(after: last, limit: 1000).last { last = next }
      // A container without a segment is not made yet.
      guard last > 0 else { return }
      let name = ObjectName.segment(incarnation, last)
      guard let stored = try await segmentBytes(name) else { continue }
      if ObjectHeader.deletion.isMagic(of: stored) {
        guard try await deletion() == nil else { return }
      } else {
        let opened = try await openSegment(stored, name: name, sequence: last)
        if case .genuine(_, let members) = opened.signature, keys.isValid(opened.signature),
          members >= keys.membership.lastNotice
        {
          return
        }
      }
      let position = LogPosition(sequence: last, hash: Self.hash(stored))
      if try await commit(LogChanges(), after: position, from: origin, isNotice: true) != nil {
        return
      }
    }
    throw .store(.unavailable("other devices keep changing the container; try again"))
  }
}
