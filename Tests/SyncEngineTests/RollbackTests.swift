import Backend
import Catalog
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

/// Devices of one account on a store that can be copied and set back to a copy.
final class RestorableHousehold {
  let store = MemoryStore()
  let secret = AccountSecret.generate()
  private(set) var devices: [EngineDevice] = []
  private(set) var meters: [MeteredStore] = []

  /// `through`: how it reaches the store, if not directly.
  func device(
    settings: SyncSettings = SyncSettings(), after former: EngineDevice? = nil,
    through: (any ObjectStore)? = nil
  ) throws -> EngineDevice {
    let meter = MeteredStore(through ?? store)
    let made = try EngineDevice(store: meter, secret: secret, settings: settings, after: former)
    devices.append(made)
    meters.append(meter)
    return made
  }

  /// Two devices that have `Documents/old`, and a copy of the store as it is then.
  func pair() async throws -> (EngineDevice, EngineDevice, earlier: [String: [UInt8]]) {
    let (first, second) = (try device(), try device())
    try first.write("Documents/old", [1])
    try await settle(first, second)
    return (first, second, try await copy())
  }

  func requests(of device: EngineDevice) -> UInt64 {
    devices.firstIndex { $0 === device }.map { meters[$0].traffic.requests } ?? 0
  }

  func lists(of device: EngineDevice) -> UInt64 {
    devices.firstIndex { $0 === device }.map { meters[$0].traffic.lists } ?? 0
  }

  func copy() async throws -> [String: [UInt8]] {
    var result: [String: [UInt8]] = [:]
    for key in try await store.list(prefix: "", after: nil, limit: .max) {
      result[key] = try await store.get(key, range: nil)
    }
    return result
  }

  func restore(_ copy: [String: [UInt8]]) async throws {
    for key in try await store.list(prefix: "", after: nil, limit: .max) where copy[key] == nil {
      try await store.delete(key)
    }
    for (key, bytes) in copy {
      let there = try? await store.get(key, range: nil)
      if there != bytes { try await store.replace(key, bytes) }
    }
  }

  func log() async throws -> [UInt64] {
    try await store.list(prefix: "containers/", after: nil, limit: .max)
      .filter { $0.contains("/log/") }.compactMap { UInt64($0.split(separator: "/").last ?? "") }
  }
}

func withRestorableStore(_ body: (RestorableHousehold) async throws -> Void) async throws {
  let household = RestorableHousehold()
  let result: Result<Void, any Error>
  do { result = .success(try await body(household)) } catch { result = .failure(error) }
  for device in household.devices { await device.end() }
  try result.get()
}

extension EngineDevice {
  func isUploaded(_ path: String) throws -> Bool {
    let found = try #require(try find(path))
    return try coordinator.status(of: found.number).isUploaded
  }

  func evict(_ path: String) async throws {
    let found = try #require(try find(path))
    try await coordinator.evictAfterLook(found.number)
  }
}

/// A store that goes back to an earlier state is noticed before it costs anything.
@Suite(.serialized) struct RollbackTests {
  @Test("content that a rolled back store lost is not evicted")
  func lostContentStays() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try await device.sync.sync()
      let earlier = try await house.copy()
      try device.write("Documents/only", [1, 2, 3])
      try await device.sync.sync()
      #expect(try device.isUploaded("Documents/only"))

      try await house.restore(earlier)
      await #expect(throws: Errno.resourceBusy) { try await device.evict("Documents/only") }
      #expect(try device.find("Documents/only")?.content == .local)
      #expect(try !device.isUploaded("Documents/only"))
      #expect(!device.sync.condition.isNormal)
      #expect(try await device.read("Documents/only") == [1, 2, 3])
      await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      #expect(await device.sync.status().errors.contains { $0.contains("store recover") })
    }
  }

  @Test("a device does not follow a log that others went on with after the store went back")
  func logOfOthers() async throws {
    try await withRestorableStore { house in
      let holder = try house.device()
      let other = try house.device(settings: SyncSettings(compaction: .eager))
      try holder.write("Documents/old", [1])
      try await settle(holder, other)
      let earlier = try await house.copy()
      other.offline.set(offline: true)
      try holder.write("Documents/only", [1, 2, 3])
      try await holder.sync.sync()
      holder.offline.set(offline: true)
      let position = try holder.catalog.position()

      // The other device has not read that, and finds nothing wrong.
      try await house.restore(earlier)
      other.offline.set(offline: false)
      for number in 0..<4 {
        try other.makeDirectory("Documents/\(number)")
        try await other.sync.sync()
      }
      for _ in 0..<4 { try await other.sync.compact() }
      let first = try await house.log().min()
      #expect(try #require(first) > position.sequence + 1)

      holder.offline.set(offline: false)
      await #expect(throws: SyncFailure.self) { try await holder.sync.sync() }
      #expect(!holder.sync.condition.isNormal)
      #expect(try holder.find("Documents/only")?.content == .local)
      _ = try await holder.sync.recoverStore()
      try await settle(holder, other)
      for device in [holder, other] {
        #expect(try await device.read("Documents/only") == [1, 2, 3])
        #expect(try device.find("Documents/3") != nil)
      }
    }
  }

  @Test("content in packs that the store lost is not evicted, though the log is whole")
  func contentOfLostPacksStays() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try device.write("Documents/only", [1, 2, 3])
      try await device.sync.sync()
      for key in try await house.store.list(prefix: "containers/", after: nil, limit: .max)
      where StoreKey.isPack(key) {
        try await house.store.delete(key)
      }
      await #expect(throws: Errno.resourceBusy) { try await device.evict("Documents/only") }
      #expect(try device.find("Documents/only")?.content == .local)
      #expect(try !device.isUploaded("Documents/only"))
      try await device.sync.sync()
      try await device.evict("Documents/only")
      #expect(try await device.read("Documents/only") == [1, 2, 3])
    }
  }

  @Test("no device appends to a long segment that another one wrote in place of its own")
  func anotherLongHeadIsSeen() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await settle(first, second)
      let earlier = try await house.copy()
      first.offline.set(offline: true)
      await second.sync.start()
      try second.makeDirectory("Documents/mine")
      try await second.sync.sync(timeout: .seconds(240))
      second.offline.set(offline: true)
      let head = try second.catalog.position().sequence
      try await house.restore(earlier)
      first.offline.set(offline: false)
      // The identities of so many items do not compress below 64 KiB.
      for number in 0..<2_000 { try first.makeDirectory("Documents/\(number)") }
      try await first.sync.sync()
      #expect(try first.catalog.position().sequence == head)
      second.offline.set(offline: false)
      try second.makeDirectory("Documents/more")
      try await eventually("the second device notices the other head") {
        !second.sync.condition.isNormal
      }
      #expect(try await house.log().max() == head)
    }
  }

  @Test("a device to which the store shows less than to another one learns it from its cursor")
  func aReplicaThatIsBehindIsSeen() async throws {
    try await withRestorableStore { house in
      let replica = ReplicaBehind(house.store)
      let first = try house.device()
      let second = try house.device(through: replica)
      try first.write("Documents/a", [1])
      try await settle(first, second)
      replica.newest.withLock { $0 = (try? second.catalog.position().sequence) ?? 0 }
      try first.write("Documents/b", [2])
      try await first.sync.sync()
      try await first.sync.compareHeads()
      try await second.sync.sync()
      #expect(second.sync.condition.isNormal)
      await #expect(throws: SyncFailure.self) { try await second.sync.compareHeads() }
      #expect(!second.sync.condition.isNormal)
      let log = try await house.log()
      try second.write("Documents/c", [3])
      await #expect(throws: SyncFailure.self) { try await second.sync.sync() }
      await #expect(throws: Errno.resourceBusy) { try await second.evict("Documents/c") }
      #expect(try await house.log() == log)

      replica.newest.withLock { $0 = .max }
      try await settle(first, second)
      #expect(try await second.read("Documents/b") == [2])
      #expect(try await first.read("Documents/c") == [3])
    }
  }

  @Test("two devices do not append to a log that lost its newest segments")
  func noDeviceAppends() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await settle(first, second)
      let earlier = try await house.copy()
      for number in 0..<5 {
        try first.write("Documents/\(number)", [UInt8(number)])
        try await settle(first, second)
      }
      try await house.restore(earlier)
      let log = try await house.log()
      try first.write("Documents/new", [9])
      await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
      try second.write("Documents/newer", [10])
      await #expect(throws: SyncFailure.self) { try await second.sync.sync() }
      #expect(try await house.log() == log)
      for device in [first, second] {
        #expect(!device.sync.condition.isNormal)
        #expect(try device.find("Documents/4") != nil)
      }
    }
  }

  @Test("a device that other devices overtook after a rollback sees that its head is another")
  func anotherHeadIsSeen() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await settle(first, second)
      let earlier = try await house.copy()
      second.offline.set(offline: true)
      for number in 0..<2 {
        try first.write("Documents/\(number)", [UInt8(number)])
        try await first.sync.sync()
      }
      let head = try first.catalog.position().sequence
      first.offline.set(offline: true)
      try await house.restore(earlier)
      second.offline.set(offline: false)
      var number = 0
      while try second.catalog.position().sequence < head {
        try second.makeDirectory("Documents/d\(number)")
        try await second.sync.sync()
        number += 1
      }
      let log = try await house.log()
      first.offline.set(offline: false)
      try first.makeDirectory("Documents/mine")
      await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
      #expect(try await house.log() == log)
      #expect(!first.sync.condition.isNormal)
    }
  }

  @Test("a new device reports a log with a gap")
  func aNewDeviceSeesTheGap() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      for number in 0..<6 {
        try first.write("Documents/\(number)", [UInt8(number)])
        try await first.sync.sync()
      }
      for key in try await house.store.list(prefix: "containers/", after: nil, limit: .max)
      where key.contains("/log/") && key.hasSuffix("5") {
        try await house.store.delete(key)
      }
      let second = try house.device()
      await #expect(throws: SyncFailure.self) { try await second.sync.sync() }
      guard case .rolledBack = second.sync.condition else {
        Issue.record("\(second.sync.condition)")
        return
      }
    }
  }

  @Test("a device with a rolled back store asks it seldom")
  func itAsksSeldom() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try await device.sync.sync()
      let earlier = try await house.copy()
      try device.write("Documents/a", [1])
      try await device.sync.sync()
      await device.sync.start()
      try await house.restore(earlier)
      try await eventually("the device notices the rollback") { !device.sync.condition.isNormal }
      // Nothing tells that more requests do not happen.
      let before = house.requests(of: device)
      let end = ContinuousClock.now + .seconds(3)
      var number = 0
      while ContinuousClock.now < end {
        try device.makeDirectory("Documents/d\(number)")
        number += 1
        try await Task.sleep(for: .milliseconds(50))
      }
      let made = house.requests(of: device) - before
      #expect(made < 20, "\(made) requests in 3 s")
    }
  }

  @Test("a store that shows its newest state again is used again")
  func aStoreThatCatchesUpIsUsedAgain() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try await device.sync.sync()
      let earlier = try await house.copy()
      try device.write("Documents/a", [1])
      try await device.sync.sync()
      let newest = try await house.copy()
      try await house.restore(earlier)
      await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      try device.write("Documents/b", [2])
      try await house.restore(newest)
      try await device.sync.sync()
      #expect(device.sync.condition.isNormal)
      try await device.evict("Documents/b")
      #expect(try await device.read("Documents/b") == [2])
    }
  }

  @Test("compaction removes nothing from a rolled back store")
  func nothingIsCompacted() async throws {
    try await withRestorableStore { house in
      let device = try house.device(settings: SyncSettings(compaction: .eager))
      for number in 0..<8 {
        try device.write("Documents/\(number)", Array(repeating: UInt8(number), count: 5_000))
        try await device.sync.sync()
      }
      for number in 0..<4 { try device.remove("Documents/\(number)") }
      try await device.sync.sync()
      try await device.sync.forget(nil)
      let earlier = try await house.copy()
      try device.write("Documents/last", [1])
      try await device.sync.sync()
      let newest = try await house.copy()

      try await house.restore(earlier)
      await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      for _ in 0..<4 { try? await device.sync.compact() }
      #expect(try await house.copy() == earlier)
      // There would have been something to do.
      try await house.restore(newest)
      try await device.sync.sync()
      for _ in 0..<4 { try await device.sync.compact() }
      let left = try await house.copy()
      #expect(newest.keys.contains { left[$0] == nil })
    }
  }

  @Test("nothing is evicted while the store cannot be asked")
  func nothingIsEvictedOffline() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try device.write("Documents/a", [1])
      try await device.sync.sync()
      device.offline.set(offline: true)
      await #expect(throws: Errno.networkDown) { try await device.evict("Documents/a") }
      device.offline.set(offline: false)
      try await device.evict("Documents/a")
      #expect(try device.find("Documents/a")?.content == .remote)
    }
  }

  @Test("another device's change is applied after one list of the log")
  func oneListFindsNews() async throws {
    try await withRestorableStore { house in
      let (first, second, _) = try await house.pair()
      try first.write("Documents/new", [1])
      try await first.sync.sync()
      let before = house.lists(of: second)
      try await second.sync.sync()
      #expect(try second.find("Documents/new") != nil)
      // The second list is of the cycle's next round, which finds nothing more to do.
      #expect(house.lists(of: second) - before == 2)
    }
  }

  @Test("a sync with nothing to do lists the log and reads its head")
  func theCheckCostsNothingWhenIdle() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try device.write("Documents/a", [1])
      try await device.sync.sync()
      let before = house.requests(of: device)
      for _ in 0..<10 { try await device.sync.sync() }
      #expect(house.requests(of: device) - before <= 20)
    }
  }
}

/// Shows the log up to a segment, as a replica does that has no more of it yet.
private final class ReplicaBehind: ForwardingStore {
  let store: any ObjectStore
  let newest = Lock(UInt64.max)

  init(_ store: any ObjectStore) { self.store = store }

  private func shows(_ key: String) -> Bool {
    guard key.contains("/log/"), let number = UInt64(key.split(separator: "/").last ?? "") else {
      return true
    }
    return number <= newest.withLock(\.self)
  }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    // A key that nothing has.
    try await store.get(shows(key) ? key : "\(key)-", range: range)
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await store.list(prefix: prefix, after: after, limit: limit).filter(shows)
  }

  func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try await store.listObjects(prefix: prefix, after: after, limit: limit)
      .filter { shows($0.key) }
  }
}
