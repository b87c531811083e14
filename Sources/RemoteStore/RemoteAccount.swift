package import Backend
internal import Crypto
package import Model
internal import RecordFormat

/// An account that was opened with its secret: the containers and devices that it has.
///
/// Safe from any task. Nothing is remembered but keys: every call asks the backend.
package final class RemoteAccount: Sendable {
  package let store: any ObjectStore
  /// The account's `format` object as stored. It is no secret. With it and the secret an account is
  /// opened again without the backend.
  package let format: [UInt8]
  let keys: AccountKeys

  /// The same on every device of the account, and another for every other account. Derived from the
  /// account's key, which it says nothing of.
  package var identity: [UInt8] { keys.identity }

  /// Whether every byte of `format` is authenticated: it holds nothing but the fields that were
  /// checked with the secret, in their only form.
  package var isFormatCanonical: Bool {
    (try? Self.read(format)).map { ObjectHeader.format.bytes + $0.encoded() == format } ?? false
  }

  /// Opens an account whose `format` object is known already, without asking the backend.
  package init(store: any ObjectStore, secret: AccountSecret, format: [UInt8])
    throws(RemoteError)
  {
    let description = try Self.read(format)
    let master = try MasterKey.open(description, secret: secret)
    self.store = store
    self.format = format
    keys = AccountKeys(master: master, account: description.account)
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

  /// Opens the account in `store`, or makes it. Two devices that make it at the same time get the
  /// same one, if their secret is the same.
  ///
  /// Fails with `.wrongSecret`, `.noAccount`, `.formatMissing`, `.newerFormat`, `.damaged` or
  /// `.store`.
  package static func open(
    store: any ObjectStore, secret: AccountSecret, createIfMissing: Bool
  ) async throws(RemoteError) -> RemoteAccount {
    var stored = try await formatOrNone(store)
    if stored == nil, createIfMissing {
      let (_, description) = try MasterKey.make(secret: secret)
      let bytes = ObjectHeader.format.bytes + description.encoded()
      _ = try await storing { () async throws(StoreError) in
        try await store.putIfAbsent(ObjectName.format, bytes)
      }
      // Whoever's it is now, it is the account's.
      stored = try await storedFormat(store)
    }
    guard let stored else { throw .noAccount(store.description) }
    return try RemoteAccount(store: store, secret: secret, format: stored)
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
    do throws(RecordError) {
      return try AccountFormat(decoding: Array(body))
    } catch {
      throw .damaged(object: object, reason: error.description)
    }
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
    for (object, _) in try await store.ownKeys(ObjectName.names) {
      // One that is deleted between listing and reading is no container.
      if let info = try await info(object) { result.append((info.id, info.incarnation)) }
    }
    // The name of one whose deletion was interrupted may still be there.
    let deleted = try await deletedIncarnations()
    result.removeAll { deleted.contains($0.incarnation) }
    return result.sorted { $0.id < $1.id }
  }

  /// The container, or nil when the account has none of that name. Asks the backend at most three
  /// times.
  package func container(_ id: ContainerID) async throws(RemoteError) -> RemoteContainer? {
    guard let info = try await info(ObjectName.name(keys.objectName(of: id))) else { return nil }
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
    let code = keys.objectName(of: id)
    let object = ObjectName.name(code)
    try await finishDeletion(of: id, object)
    let new = ContainerInfo(id: id, created: time, creator: device, incarnation: .random())
    let sealed = keys.record.seal(new.encoded(), Self.associated("name", code))
    let store = store
    _ = try await storing { () async throws(StoreError) in
      try await store.putIfAbsent(object, ObjectHeader.name.bytes + sealed)
    }
    guard let info = try await info(object) else {
      throw .damaged(object: object, reason: "it was there and is gone")
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
  private func finishDeletion(of id: ContainerID, _ object: String) async throws(RemoteError) {
    guard let info = try await info(object),
      try await container(id, incarnation: info.incarnation).deletion() != nil
    else { return }
    let store = store
    try await storing { () async throws(StoreError) in try await store.delete(object) }
  }

  /// Hints that a container may have been made or deleted.
  package func news() -> AsyncStream<Void> { store.news(prefix: ObjectName.names) }

  private func info(_ object: String) async throws(RemoteError) -> ContainerInfo? {
    try await keys.containerInfo(object, in: store)
  }

  // MARK: - Devices

  /// Tells the account's other devices about one. May be done again at any time.
  package func register(_ device: DeviceRecord) async throws(RemoteError) {
    let sealed = keys.record.seal(
      device.encoded(), Self.associated("device", device.id.bytes))
    let store = store
    try await storing { () async throws(StoreError) in
      try await store.replace(
        ObjectName.device(device.id), ObjectHeader.device.bytes + sealed)
    }
  }

  package func devices() async throws(RemoteError) -> [DeviceRecord] {
    var result: [DeviceRecord] = []
    for (object, key) in try await store.ownKeys(ObjectName.devices) {
      guard case .device(let id) = key, let stored = try await Self.small(object, in: store)
      else { continue }
      let plain = try open(stored, .device, Self.associated("device", id.bytes), object)
      let device: DeviceRecord
      do throws(RecordError) {
        device = try DeviceRecord(decoding: plain)
      } catch {
        throw .damaged(object: object, reason: error.description)
      }
      guard device.id == id else {
        throw .damaged(object: object, reason: "it describes another device")
      }
      result.append(device)
    }
    return result
  }

  // MARK: -

  static func associated(_ label: String, _ identity: [UInt8]) -> AssociatedData {
    var result = AssociatedData(label)
    result.append(identity)
    return result
  }

  func open(
    _ stored: [UInt8], _ header: ObjectHeader, _ associated: AssociatedData, _ object: String
  ) throws(RemoteError) -> [UInt8] {
    try keys.open(stored, header, associated, object)
  }
}
