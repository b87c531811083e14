import Backend
import Model
import Platform
import RemoteStore
import Testing

/// A device that is a member of an account in a memory store.
struct MemberDevice {
  let identity: DeviceIdentity
  let memory: KeptMemory
  let account: RemoteAccount
  /// Its way to the store, for a test to break.
  let way: HookedStore

  var id: DeviceID { identity.device }
  var origin: LogOrigin { LogOrigin(device: id, time: Timestamp(nanoseconds: 7)) }

  static let container = try! ContainerID("iCloud.com.example.notes")

  init(
    _ name: String, in store: MemoryStore, secret: String = Fixture.secret,
    identity: DeviceIdentity? = nil, memory: KeptMemory = KeptMemory()
  ) async throws {
    let identity = identity ?? DeviceIdentity(device: .random(), name: name)
    self.identity = identity
    self.memory = memory
    way = HookedStore(store)
    account = try await RemoteAccount.open(
      store: way, secret: AccountSecret(secret), createIfMissing: true, device: identity,
      memory: memory)
  }

  /// The next run of the same device, which asks the backend for nothing to open the account.
  init(after other: MemberDevice, in store: MemoryStore, secret: String = Fixture.secret) throws {
    let keys = other.identity.privateKeys
    let identity = try #require(
      DeviceIdentity(device: other.id, name: other.identity.name, privateKeys: keys))
    self.identity = identity
    memory = other.memory
    way = HookedStore(store)
    account = try RemoteAccount(
      store: way, secret: AccountSecret(secret), format: other.account.format, device: identity,
      memory: memory)
  }

  /// Made by the first device that asks.
  func container() async throws -> RemoteContainer {
    if let container = try await account.container(Self.container) { return container }
    return try await account.createContainer(
      Self.container, device: id, time: Timestamp(nanoseconds: 7))
  }

  /// The log from its start: its position, and the names of directories in it in their order.
  func log() async throws -> (head: LogPosition, names: [String], segments: [LogSegment]) {
    let container = try await container()
    var position = LogPosition.start
    var all: [LogSegment] = []
    while true {
      let segments = try await container.segments(after: position)
      guard let last = segments.last else { break }
      position = last.position
      all += segments
    }
    let names = all.flatMap { $0.changes.upserts.compactMap { $0.links.first?.name.description } }
    return (position, names.filter { $0 != "Documents" }, all)
  }

  /// Puts a segment that makes a directory after what it has read.
  @discardableResult
  func write(_ name: String, low: UInt64, after head: LogPosition? = nil) async throws
    -> LogPosition?
  {
    var position = head
    if position == nil { position = try await log().head }
    return try await container().commit(
      Fixture.changes(name, low: low), after: position!, from: origin)
  }
}

extension RemoteContainer {
  /// Uploads a file, and gives its chunks in their order.
  func upload(_ bytes: [UInt8]) async throws -> [ChunkLocation] {
    let uploader = makeUploader()
    _ = try await uploader.add(file: temporaryFile(bytes), size: UInt64(bytes.count))
    return try await uploader.finish()
  }
}

/// What a state directory keeps, for the next run.
final class KeptMemory: AccountMemory {
  private let parts = Lock<[AccountMemoryPart: [UInt8]]>([:])

  func load(_ part: AccountMemoryPart) -> [UInt8]? { parts.withLock { $0[part] } }
  func save(_ part: AccountMemoryPart, _ bytes: [UInt8]) { parts.withLock { $0[part] = bytes } }
}

/// A store whose calls a test stops or changes.
final class HookedStore: ObjectStore {
  struct Hooks {
    /// How many writes are done before all further calls fail; nil: all.
    var writes: Int?
    /// Whether an object is shown.
    var shows: @Sendable (String) -> Bool = { _ in true }
  }

  let hooks = Lock(Hooks())
  private let store: MemoryStore

  init(_ store: MemoryStore) { self.store = store }

  var description: String { "hooked memory" }

  private func countWrite() throws(StoreError) {
    let isDone = hooks.withLock { hooks in
      guard let left = hooks.writes else { return false }
      hooks.writes = left - 1
      return left <= 0
    }
    if isDone { throw .unavailable("the device ended here") }
  }

  private func countRead() throws(StoreError) {
    if hooks.withLock({ ($0.writes ?? 1) < 0 }) { throw .unavailable("the device ended here") }
  }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try countRead()
    guard hooks.withLock({ $0.shows })(key) else { throw .notFound(key) }
    return try await store.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try countWrite()
    return try await store.putIfAbsent(key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try countWrite()
    try await store.replace(key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try countRead()
    let shows = hooks.withLock { $0.shows }
    return try await store.list(prefix: prefix, after: after, limit: limit).filter(shows)
  }

  func delete(_ key: String) async throws(StoreError) {
    try countWrite()
    try await store.delete(key)
  }

  func news(prefix: String) -> AsyncStream<Void> { AsyncStream { $0.finish() } }
}
