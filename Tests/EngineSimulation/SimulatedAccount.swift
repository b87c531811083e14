import Backend
import Model
import RemoteStore

/// An account of the cloud: its devices have the same files, and it has nothing of another's.
final class SimulatedAccount {
  let index: Int
  /// Where in the cloud it is.
  let prefix: String
  private(set) var secret: AccountSecret
  let ledger: Ledger
  /// What it may take until the faults end; nil: there is no limit.
  var quota: UInt64?
  /// Of a member that is no simulated device: it makes the account, and reads for the checks.
  let opened: RemoteAccount
  /// By a way without faults.
  let container: RemoteContainer
  /// By one that shows the whole log, what was removed of it too.
  var history: RemoteContainer {
    opened.by(PlainStore(cloud, prefix: prefix, showsRemovedLog: true))
      .container(DeviceLife.container, incarnation: container.incarnation)
  }
  let cloud: Cloud

  init(index: Int, seed: UInt64, cloud: Cloud, scheduler: Scheduler) throws {
    self.index = index
    self.cloud = cloud
    prefix = index == 0 ? "" : "account\(index)/"
    ledger = Ledger(seed: seed &+ UInt64(index) &* 7919)
    let secret = AccountSecret.generate()
    self.secret = secret
    let store = PlainStore(cloud, prefix: prefix)
    (opened, container) = try scheduler.wait { () async throws in
      let observer = DeviceIdentity(device: DeviceID(high: 1, low: 1), name: "observer")
      let account = try await RemoteAccount.open(
        store: store, secret: secret, createIfMissing: true, device: observer)
      let container = try await account.createContainer(
        DeviceLife.container, device: DeviceID(high: 1, low: 1), time: Timestamp(nanoseconds: 1))
      return (account, container)
    }
  }
}

extension SimulatedAccount {
  /// What a device signs in with now. The observer first ends what the device that made the newest
  /// epoch may have left undone.
  func credentials(_ scheduler: Scheduler) throws -> (secret: AccountSecret, format: [UInt8]) {
    let opened = opened
    try scheduler.wait {
      try await opened.refreshMembers()
      try await opened.settleMembers()
    }
    secret = opened.secret
    return (secret, cloud.objects[prefix + "format"]?.bytes(nil) ?? opened.format)
  }
}

extension SimulatedAccount {
  /// The member log goes on when the cloud goes back: somebody who has it puts it again first.
  func keepMembers(_ scheduler: Scheduler) throws {
    let opened = opened
    try scheduler.wait { try await opened.refreshMembers() }
  }

  /// Signing in is not what runs are about: it has no faults.
  func signIn(_ member: SimulatedMember, _ scheduler: Scheduler) throws {
    let store = PlainStore(cloud, prefix: prefix)
    try scheduler.wait {
      let account = try RemoteAccount(
        store: store, secret: member.secret, format: member.format, device: member.identity,
        memory: member.memory)
      try await account.join()
    }
    try keepMembers(scheduler)
  }
}

/// What a state directory keeps of the account; durable at once.
final class SimulatedMemory: AccountMemory, @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  private var parts: [AccountMemoryPart: [UInt8]] = [:]

  /// As it is now, whatever happens to this one.
  func copy() -> SimulatedMemory {
    let result = SimulatedMemory()
    result.parts = parts
    return result
  }

  func load(_ part: AccountMemoryPart) -> [UInt8]? { parts[part] }
  func save(_ part: AccountMemoryPart, _ bytes: [UInt8]) { parts[part] = bytes }
}

extension Scheduler {
  struct Stuck: Error {}

  /// Does something without an owner, as if no time passed.
  func wait<Result>(_ body: @escaping () async throws -> Result) throws -> Result {
    nonisolated(unsafe) var result: Swift.Result<Result, any Error>?
    nonisolated(unsafe) let body = body
    perform(Self.nobody) {
      _ = Task {
        do { result = .success(try await body()) } catch { result = .failure(error) }
      }
    }
    guard run(within: 3_600_000_000_000, until: { result != nil }), let result else {
      throw Stuck()
    }
    return try result.get()
  }
}

/// The cloud as it is.
struct PlainStore: ObjectStore {
  let cloud: Cloud
  private let prefix: String
  private let showsRemovedLog: Bool

  init(_ cloud: Cloud, prefix: String, showsRemovedLog: Bool = false) {
    self.cloud = cloud
    self.prefix = prefix
    self.showsRemovedLog = showsRemovedLog
  }

  var description: String { "simulated, without faults" }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    let name = prefix + key
    let removed = showsRemovedLog ? cloud.removedLog[name] : nil
    guard let object = removed ?? cloud.objects[name] else { throw .notFound(key) }
    return object.bytes(range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    cloud.putIfAbsent(prefix + key, bytes)
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    cloud.store(prefix + key, bytes)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    let root = self.prefix
    let there = cloud.list(root, prefix, after: after, limit: limit) { _ in true }
    guard showsRemovedLog else { return there }
    let removed = cloud.removedLog.keys.filter { $0.hasPrefix(root + prefix) }
      .map { String($0.dropFirst(root.count)) }
      .filter { name in after.map { keyPrecedes($0, name) } ?? true }
    return Array(Set(there + removed).sorted(by: keyPrecedes).prefix(limit))
  }

  func delete(_ key: String) async throws(StoreError) { cloud.delete(prefix + key) }

  func news(prefix: String) -> AsyncStream<Void> { AsyncStream { $0.finish() } }
}
