package import Backend
internal import Crypto
package import Model
internal import RecordFormat

/// An account that was opened with its secret: the containers and devices that it has.
///
/// Safe from any task. Nothing is remembered but keys, members, and the newest versions of small
/// objects: every call asks the backend.
package final class RemoteAccount: Sendable {
  package let store: any ObjectStore
  /// The account's `format` object as stored when it was opened. It is no secret. With it and the
  /// secret an account is opened again without the backend.
  package let format: [UInt8]
  let keys: AccountState

  /// The same on every device of the account, and another for every other account. Derived from the
  /// account's key, which it says nothing of.
  package var identity: [UInt8] { keys.identifier }

  /// Opens an account whose `format` object is known already, without asking the backend.
  ///
  /// `device`: the keys that it signs with; it joins before its first write. Without them the
  /// account can be read, and written to as by the first release, as long as it has no members.
  package init(
    store: any ObjectStore, secret: AccountSecret, format: [UInt8], device: DeviceIdentity? = nil,
    memory: any AccountMemory = NoMemory()
  ) throws(RemoteError) {
    let description = try Self.read(format)
    let masters = try MasterKey.open(description, secret: secret)
    self.store = store
    self.format = format
    keys = try AccountState(
      account: description.account, masters: masters, secret: secret, identity: device,
      memory: memory)
  }

  private init(store: any ObjectStore, like other: RemoteAccount) {
    self.store = store
    format = other.format
    keys = other.keys
  }

  /// The same account, opened already, by another way to its backend.
  package func by(_ store: any ObjectStore) -> RemoteAccount {
    RemoteAccount(store: store, like: self)
  }

  var records: AccountRecords { AccountRecords(store: store, state: keys) }
  var memberLog: MemberLog { MemberLog(store: store, state: keys) }

  /// The bytes that the first release would have stored as `format`, if each of them is
  /// authenticated: the object holds nothing but the fields that were checked with the secret, in
  /// their only form.
  package var firstFormat: [UInt8]? {
    guard var description = try? Self.read(format), description.epoch == 1 else { return nil }
    let isOld = description.version == 1
    let header = isOld ? ObjectHeader.format.bytes : ObjectHeader.format.latestBytes
    guard header + description.encoded() == format else { return nil }
    description.version = 1
    return ObjectHeader.format.bytes + description.encoded()
  }

  /// Opens the account in `store`, or makes it. Two devices that make it at the same time get the
  /// same one, if their secret is the same. With `device` this device is a member when it returns,
  /// unless `joins` is false: then it is one after `join(as:)`.
  ///
  /// Fails with `.wrongSecret`, `.secretChanged`, `.removed`, `.noAccount`, `.formatMissing`,
  /// `.newerFormat`, `.damaged` or `.store`.
  package static func open(
    store: any ObjectStore, secret: AccountSecret, createIfMissing: Bool,
    device: DeviceIdentity? = nil, memory: any AccountMemory = NoMemory(), joins: Bool = true
  ) async throws(RemoteError) -> RemoteAccount {
    var stored = try await formatOrNone(store)
    if stored == nil, createIfMissing {
      var (_, description) = try MasterKey.make(secret: secret)
      // Without keys of its own it makes an account as the first release did.
      if device == nil { description.version = 1 }
      let header = device == nil ? ObjectHeader.format.bytes : ObjectHeader.format.latestBytes
      let bytes = header + description.encoded()
      _ = try await storing { () async throws(StoreError) in
        try await store.putIfAbsent(ObjectName.format, bytes)
      }
      // Whoever's it is now, it is the account's.
      stored = try await storedFormat(store)
    }
    guard let stored else { throw .noAccount(store.description) }
    let account = try RemoteAccount(
      store: store, secret: secret, format: stored, device: device, memory: memory)
    guard device != nil else { return account }
    if joins { try await account.join() } else { try await account.memberLog.prepare() }
    return account
  }

  package static func exists(store: any ObjectStore) async throws(RemoteError) -> Bool {
    try await formatOrNone(store) != nil
  }

  static func storedFormat(_ store: any ObjectStore) async throws(RemoteError) -> [UInt8]? {
    try await small(ObjectName.format, in: store)
  }

  /// Nil: the store holds no account. A store that lists objects of an account has lost `format`.
  private static func formatOrNone(_ store: any ObjectStore)
    async throws(RemoteError) -> [UInt8]?
  {
    if let stored = try await storedFormat(store) { return stored }
    guard let object = try await anyObject(in: store) else { return nil }
    // The first answer was wrong, or another device has made the account since.
    if let stored = try await storedFormat(store) { return stored }
    throw .formatMissing(store.description, object: object)
  }

  static func read(_ stored: [UInt8]) throws(RemoteError) -> AccountFormat {
    let object = ObjectName.format
    let body = try ObjectHeader.format.body(of: stored, object: object)
    let description: AccountFormat
    do throws(RecordError) {
      description = try AccountFormat(decoding: Array(body))
    } catch {
      throw .damaged(object: object, reason: error.description)
    }
    guard UInt32(bigEndianBytes: stored[4..<8]) == description.version else {
      throw .damaged(object: object, reason: "it states two format versions")
    }
    return description
  }

  /// An object that is known to be small; nil where there is none.
  static func small(_ object: String, in store: any ObjectStore)
    async throws(RemoteError) -> [UInt8]?
  {
    let limit = UInt64(RemoteLimits.smallObject)
    let bytes: [UInt8]
    do throws(StoreError) {
      bytes = try await store.get(object, range: 0..<limit + 1)
    } catch .notFound {
      return nil
    } catch {
      throw RemoteError(error)
    }
    guard bytes.count <= limit else {
      throw .damaged(object: object, reason: "it is too long")
    }
    return bytes
  }

  // MARK: - Containers

  /// The account's containers, by name.
  package func containers() async throws(RemoteError) -> [ContainerID] {
    try await incarnations().map(\.id)
  }

  /// The same, each with what its objects are named by.
  package func incarnations() async throws(RemoteError) -> [(
    id: ContainerID, incarnation: IncarnationID
  )] {
    var result: [(id: ContainerID, incarnation: IncarnationID)] = []
    for (_, key) in try await store.ownKeys(ObjectName.names) {
      guard case .name(let code) = key else { continue }
      // One that is deleted between listing and reading is no container.
      if let info = try await records.containerInfo(.name(code)) {
        result.append((info.id, info.incarnation))
      }
    }
    // The name of one whose deletion was interrupted may still be there.
    let deleted = try await deletedIncarnations(among: result)
    result.removeAll { deleted.contains($0.incarnation) }
    return result.sorted { $0.id < $1.id }
  }

  /// The container, or nil when the account has none of that name. Asks the backend at most three
  /// times.
  package func container(_ id: ContainerID) async throws(RemoteError) -> RemoteContainer? {
    guard let info = try await records.containerInfo(.name(keys.objectName(of: id))) else {
      return nil
    }
    let container = self.container(id, incarnation: info.incarnation)
    // The maker may have ended before the container had its first segment, and the deleter before
    // its name went.
    guard try await container.hasBegun(), try await container.deletion() == nil else { return nil }
    return container
  }

  /// A container that is known already, without asking the backend.
  package func container(_ id: ContainerID, incarnation: IncarnationID) -> RemoteContainer {
    RemoteContainer(id: id, incarnation: incarnation, store: store, keys: keys)
  }

  /// Makes a container with its root and `Documents`, or completes or opens the one that there is.
  /// May be done again after any failure.
  package func createContainer(
    _ id: ContainerID, device: DeviceID, mode: UInt16 = 0o755, time: Timestamp
  ) async throws(RemoteError) -> RemoteContainer {
    let place = AccountRecords.Place.name(keys.objectName(of: id))
    try await finishDeletion(of: id, place)
    let new = ContainerInfo(id: id, created: time, creator: device, incarnation: .random())
    try await records.put(new.checked(), place)
    guard let info = try await records.containerInfo(place) else {
      throw .damaged(object: place.object, reason: "the backend lost it after it was stored")
    }
    let container = self.container(id, incarnation: info.incarnation)
    guard try await !container.hasBegun() else { return container }
    func directory(_ item: ItemID, _ links: [Link]) -> ItemRecord {
      ItemRecord(
        id: item, kind: .directory, links: links, mode: mode, modified: time, created: time)
    }
    let first = LogChanges(upserts: [
      directory(.root, []),
      directory(.documents, [Link(parent: .root, name: .documents)]),
    ])
    // Losing the race is as good: another device made the same.
    _ = try await container.commit(
      first, after: .start, from: LogOrigin(device: device, time: time))
    return container
  }

  /// Removes the name of a container that was deleted, where the deletion was interrupted before
  /// that.
  private func finishDeletion(of id: ContainerID, _ place: AccountRecords.Place)
    async throws(RemoteError)
  {
    guard let info = try await records.containerInfo(place),
      try await container(id, incarnation: info.incarnation).deletion() != nil
    else { return }
    let store = store
    try await storing { () async throws(StoreError) in try await store.delete(place.object) }
  }

  /// Hints that a container may have been made or deleted.
  package func news() -> AsyncStream<Void> { store.news(prefix: ObjectName.names) }

  // MARK: - Devices

  /// Tells the account's other devices about one. May be done again at any time.
  package func register(_ device: DeviceRecord) async throws(RemoteError) {
    try await records.replace(device.checked(), .device(device.id), isOwn: true)
  }

  /// The members, each with what it tells of itself. While the account has none, as in the first
  /// format, all devices that ever told.
  package func devices() async throws(RemoteError) -> [DeviceRecord] {
    var told: [DeviceID: DeviceRecord] = [:]
    let membership = keys.membership
    for (object, key) in try await store.ownKeys(ObjectName.devices) {
      guard case .device(let id) = key,
        membership.lastRotation == 0 || membership.isMember(id),
        let plain = try await record(of: id)
      else { continue }
      let device: DeviceRecord
      do throws(RecordError) {
        device = try DeviceRecord(decoding: plain)
      } catch {
        throw .damaged(object: object, reason: error.description)
      }
      guard device.id == id else {
        throw .damaged(object: object, reason: "it describes another device")
      }
      told[id] = device
    }
    for member in keys.membership.members where told[member.device] == nil {
      told[member.device] = DeviceRecord(
        id: member.device, name: member.name, lastSeen: Timestamp(nanoseconds: 0))
    }
    return told.values.sorted { $0.id < $1.id }
  }

  /// Nil where no device tells that may.
  private func record(of device: DeviceID) async throws(RemoteError) -> [UInt8]? {
    do throws(RemoteError) { return try await records.read(.device(device)) } catch .unsigned {
      return nil
    }
  }

  // MARK: -

  static func associated(_ label: String, _ identity: [UInt8]) -> AssociatedData {
    var result = AssociatedData(label)
    result.append(identity)
    return result
  }
}
