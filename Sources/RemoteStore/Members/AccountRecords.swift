internal import Backend
internal import Model
internal import RecordFormat

/// The small objects of an account: names, devices, the quota and deletions. Each is signed, and
/// has a version (`RecordVersion`) that grows with every replacement.
struct AccountRecords: Sendable {
  let store: any ObjectStore
  let state: AccountState

  struct Place {
    let object: String
    let header: ObjectHeader
    let associated: AssociatedData
  }

  /// What may be believed of an object. Nil: the backend has none.
  ///
  /// A version that is older than one that this device saw, or that nobody signed who may, counts
  /// as the one that this device saw last. Fails with `.unsigned` if there is none.
  func read(_ place: Place) async throws(RemoteError) -> [UInt8]? {
    guard let stored = try await RemoteAccount.small(place.object, in: store) else { return nil }
    let opened = try await open(stored, place)
    if state.isValid(opened.signature), state.seen.note(place.object, opened.version, stored) {
      return opened.body
    }
    if let body = try await remembered(place) { return body }
    throw Self.unsigned(place.object, opened.signature)
  }

  /// What this device saw of it, whatever the backend shows now.
  func remembered(_ place: Place) async throws(RemoteError) -> [UInt8]? {
    guard let seen = state.seen[place.object] else { return nil }
    return try await open(seen.stored, place).body
  }

  func open(_ stored: [UInt8], _ place: Place) async throws(RemoteError) -> SignedObject {
    try await log.reading { () throws(RemoteError) in
      try state.openSigned(
        stored, place.header, place.associated, place.object, limit: RemoteLimits.smallObject)
    }
  }

  private var log: MemberLog { MemberLog(store: store, state: state) }

  static func unsigned(_ object: String, _ signature: ObjectSignature) -> RemoteError {
    let reason =
      switch signature {
      case .none: "it is not signed"
      case .genuine(let signer, _): "its signer, device \(signer), was removed from the account"
      case .forged: "its signature is wrong"
      }
    return .unsigned(object: object, reason: reason)
  }

  /// An object as it is to be stored, with its version: one later than `known`.
  private func sealed(_ body: [UInt8], _ place: Place, after known: RecordVersion)
    async throws(RemoteError) -> (bytes: [UInt8], version: RecordVersion)
  {
    try await log.join()
    let (counter, overflow) = known.counter.addingReportingOverflow(1)
    guard !overflow else { throw .tooLarge("the counter of \"\(place.object)\"") }
    let (bytes, members) = try state.sealSigned(
      body, place.header, place.associated, counter: counter)
    guard members > 0 else { return (bytes, RecordVersion()) }
    return (bytes, RecordVersion(members: members, counter: counter))
  }

  /// The version that the next one follows. Of a device that knew less of the member log only that
  /// counts, so that nobody can use up the counter for good.
  private func known(_ place: Place, _ read: RecordVersion?) -> RecordVersion {
    let known = read ?? state.seen[place.object]?.version ?? RecordVersion()
    return known.members < state.membership.number ? RecordVersion() : known
  }

  /// Puts an object unless there is one.
  func put(_ body: [UInt8], _ place: Place) async throws(RemoteError) {
    let known = self.known(place, nil)
    let (store, bytes) = (store, try await sealed(body, place, after: known).bytes)
    _ = try await storing { () async throws(StoreError) in
      try await store.putIfAbsent(place.object, bytes)
    }
  }

  /// Puts the next version of an object. The present one is read first: other devices would take a
  /// version that does not follow it for an older one. `isOwn`: no other device writes this object.
  func replace(_ body: [UInt8], _ place: Place, isOwn: Bool = false) async throws(RemoteError) {
    var known = state.seen[place.object]?.version
    if known == nil || !isOwn, let stored = try await RemoteAccount.small(place.object, in: store),
      let opened = try? await open(stored, place), state.isValid(opened.signature)
    {
      known = max(known ?? RecordVersion(), opened.version)
    }
    let (bytes, version) = try await sealed(body, place, after: self.known(place, known))
    let store = store
    try await storing { () async throws(StoreError) in
      try await store.replace(place.object, bytes)
    }
    _ = state.seen.note(place.object, version, bytes)
  }
}

/// Where the records stand.
extension AccountRecords.Place {
  static func name(_ code: [UInt8]) -> Self {
    Self(
      object: ObjectName.name(code), header: .name,
      associated: RemoteAccount.associated("name", code))
  }

  static func device(_ id: DeviceID) -> Self {
    Self(
      object: ObjectName.device(id), header: .device,
      associated: RemoteAccount.associated("device", id.bytes))
  }

  static var quota: Self {
    Self(
      object: ObjectName.quota, header: .quota, associated: RemoteAccount.associated("quota", []))
  }

  static func deletion(_ id: IncarnationID) -> Self {
    Self(
      object: ObjectName.deletion(id), header: .deletion,
      associated: RemoteAccount.associated("deletion", id.bytes))
  }
}
