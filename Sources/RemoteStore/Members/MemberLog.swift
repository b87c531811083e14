internal import Backend
internal import Model
internal import Platform
internal import RecordFormat

/// The way to the member log in the backend.
///
/// Only `putIfAbsent` adds an entry. So of two devices that add one at the same time one is first,
/// and the other reads it and tries again.
struct MemberLog: Sendable {
  let store: any ObjectStore
  let state: AccountState

  private static let mostAttempts = 50

  /// Reads the entries that this device does not know. `checksKnown`: and that the backend still
  /// has the last one that it does know.
  func refresh(checksKnown: Bool = false) async throws(RemoteError) {
    let before = state.membership
    if checksKnown, before.number > 0 {
      try await keepEntries()
    }
    while true {
      let number = state.membership.number
      let after = number == 0 ? nil : ObjectName.member(number)
      let page = 256
      let store = store
      let listed = try await storing { () async throws(StoreError) in
        try await store.list(prefix: ObjectName.members, after: after, limit: page)
      }
      for name in listed {
        guard case .member(let number)? = ObjectKey(name), number > state.membership.number
        else { continue }
        let next = state.membership.number + 1
        guard number == next else {
          throw .damaged(object: ObjectName.member(next), reason: "it is missing")
        }
        guard let stored = try await RemoteAccount.small(name, in: store) else {
          throw .store(.unavailable("the backend lists \"\(name)\" but does not return it"))
        }
        try state.fold(stored, number: number)
      }
      guard listed.count == page else { return }
    }
  }

  /// Puts entries again that this device has read and a backend that went back lacks: without them
  /// no device can tell who signed what. Fails with `.damaged` if it holds another one in the place
  /// of the last: then a device joined while it was set back.
  func keepEntries() async throws(RemoteError) {
    let known = state.membership
    var number = known.number
    while number > 0 {
      let object = ObjectName.member(number)
      let found = try await RemoteAccount.small(object, in: store)
      guard found ?? known.stored[Int(number - 1)] == known.stored[Int(number - 1)] else {
        throw .damaged(
          object: object, reason: "it differs from the entry that this device read there")
      }
      if found != nil { break }
      number -= 1
    }
    while number < known.number {
      number += 1
      guard try await putOnce(ObjectName.member(number), known.stored[Int(number - 1)]) else {
        throw .damaged(
          object: ObjectName.member(number),
          reason: "it differs from the entry that this device read there")
      }
    }
  }

  /// Does something that may need a newer member log than this device knows: reads that log and
  /// does it again.
  func reading<Value>(_ body: () throws(RemoteError) -> Value) async throws(RemoteError) -> Value {
    do throws(RemoteError) {
      return try body()
    } catch {
      switch error {
      case .membersBehind, .epochUnknown: break
      default: throw error
      }
    }
    do throws(RemoteError) {
      try await refresh()
    } catch .epochUnknown(let object) {
      // The entries after the one that removed this device.
      try state.requireNotRemoved()
      throw .epochUnknown(object: object)
    }
    try state.requireNotRemoved()
    return try body()
  }

  /// To be called before anything is written: makes this device a member, if it is none.
  func join(as name: String? = nil) async throws(RemoteError) {
    try state.requireNotRemoved()
    try await requireHere()
    guard let identity = state.identity, !state.isMember else { return }
    try await prepare()
    try state.requireHere()
    guard !state.isMember else { return }
    var member = identity.member
    if let name { member.name = name }
    let first = try await firstFormat()
    try await append { membership throws(RemoteError) in
      try state.requireNotRemoved()
      try state.requireHere()
      guard !membership.isMember(identity.device) else { return nil }
      guard membership.epochs[membership.epoch] != nil else { throw .secretChanged }
      return MemberEntry(
        previous: membership.hash, signer: identity.device, time: Self.now,
        added: member, format: membership.number == 0 ? first : [])
    }
    FaultPoint.reach("members.joined")
    try await keepFormat()
  }

  /// As `AccountState.requireHere`, after a look at the log. A device that has just switched to the
  /// new store knows only from there that the move has ended.
  func requireHere() async throws(RemoteError) {
    guard state.isLeaving else { return }
    try await refresh()
    try state.requireHere()
  }

  /// Reads the member log before joining: whether this device can.
  func prepare() async throws(RemoteError) {
    do throws(RemoteError) { try await refresh() } catch .epochUnknown(let object) {
      try state.requireNotRemoved()
      // Entries after the epoch that the secret opens.
      throw state.isMember ? .epochUnknown(object: object) : .secretChanged
    }
    try state.requireNotRemoved()
    guard state.identity == nil || state.isMember || state.hasNewestKey else {
      throw .secretChanged
    }
  }

  /// Adds the entry that `make` gives, after all that there are. It is asked again when another
  /// device was first; nil: there is nothing left to do. Gives whether an entry was added.
  @discardableResult
  func append(_ make: (Membership) throws(RemoteError) -> MemberEntry?) async throws(RemoteError)
    -> Bool
  {
    for attempt in 0..<Self.mostAttempts {
      let membership = state.membership
      guard let identity = state.identity else { throw .notMember }
      guard let entry = try make(membership) else { return false }
      let stored = membership.sealed(entry, by: identity)
      // Every device refuses an entry that breaks a rule, and none can follow it.
      var copy = membership
      do throws(RemoteError) { try copy.fold(stored) } catch {
        throw .malformed("\(error)")
      }
      let number = membership.number + 1
      if try await putOnce(ObjectName.member(number), stored) {
        try state.fold(stored, number: number)
        return true
      }
      try await refresh()
      try? await Task.sleep(for: .milliseconds(Int.random(in: 1...20) * (attempt + 1)))
    }
    throw .store(.unavailable("other devices keep changing the account; try again"))
  }

  func putOnce(_ name: String, _ bytes: [UInt8]) async throws(RemoteError) -> Bool {
    let store = store
    do throws(RemoteError) {
      let isPut = try await storing { () async throws(StoreError) in
        try await store.putIfAbsent(name, bytes)
      }
      if isPut { return true }
    } catch .store(.unavailable(let text)) {
      guard let found = try await RemoteAccount.small(name, in: store) else {
        throw .store(.unavailable(text))
      }
      return found == bytes
    }
    // The answer may have been given to a repeated call.
    return try await RemoteAccount.small(name, in: store) == bytes
  }

  // MARK: - The object `format`

  /// The account's `format`, of the present version. Older programs stop at it, and say that a
  /// newer release is needed.
  private func firstFormat() async throws(RemoteError) -> [UInt8] {
    guard let stored = try await RemoteAccount.storedFormat(store) else {
      throw .noAccount(store.description)
    }
    var description = try RemoteAccount.read(stored)
    guard description.version <= AccountFormat.currentVersion else {
      throw .newerFormat(object: ObjectName.format, version: description.version)
    }
    description.version = AccountFormat.currentVersion
    return ObjectHeader.format.latestBytes + description.encoded()
  }

  /// Puts the `format` that the member log says, where the backend has another one: the device that
  /// began the epoch may have ended before it did.
  ///
  /// Another device may begin a still later epoch meanwhile, so the log is read again after a put.
  func keepFormat() async throws(RemoteError) {
    for _ in 0..<Self.mostAttempts {
      try await refresh()
      let wanted = state.membership.format
      guard !wanted.isEmpty, try await RemoteAccount.storedFormat(store) != wanted else { return }
      let store = store
      try await storing { () async throws(StoreError) in
        try await store.replace(ObjectName.format, wanted)
      }
      FaultPoint.reach("members.format-put")
    }
  }

  static var now: Timestamp { Timestamp(nanoseconds: SystemClock().nanoseconds()) }
}
