import Backend
import Model
import RemoteStore

/// An account of the cloud: its devices have the same files, and it has nothing of another's.
final class SimulatedAccount {
  let index: Int
  /// Where in the cloud it is.
  let prefix: String
  let secret: AccountSecret
  let ledger: Ledger
  /// What it may take until the faults end; nil: there is no limit.
  var quota: UInt64?
  /// Opened once, since the secret is dear to open with; devices go to it each by a way of its own.
  let opened: RemoteAccount
  /// By a way without faults.
  let container: RemoteContainer
  /// By one that shows the whole log, what was removed of it too.
  var history: RemoteContainer {
    opened.by(PlainStore(cloud, prefix: prefix, showsRemovedLog: true))
      .container(DeviceLife.container, incarnation: container.incarnation)
  }
  private let cloud: Cloud

  init(index: Int, seed: UInt64, cloud: Cloud, scheduler: Scheduler) throws {
    self.index = index
    self.cloud = cloud
    prefix = index == 0 ? "" : "account\(index)/"
    ledger = Ledger(seed: seed &+ UInt64(index) &* 7919)
    let secret = AccountSecret.generate()
    self.secret = secret
    let store = PlainStore(cloud, prefix: prefix)
    (opened, container) = try scheduler.wait { () async throws in
      let account = try await RemoteAccount.open(
        store: store, secret: secret, createIfMissing: true)
      let container = try await account.createContainer(
        DeviceLife.container, device: DeviceID(high: 1, low: 1), time: Timestamp(nanoseconds: 1))
      return (account, container)
    }
  }
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
  private let cloud: Cloud
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
