import Backend
import Catalog
import Coordination
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

/// A container that another device deletes while this one works on it.
@Suite struct DeletedContainerTests {
  private struct Setting {
    let store = MemoryStore()
    let meter: MeteredStore
    let secret = AccountSecret.generate()
    let account: RemoteAccount
    let incarnation: IncarnationID

    init() async throws {
      meter = MeteredStore(store)
      account = try await RemoteAccount.open(
        store: store, secret: secret, createIfMissing: true)
      incarnation = try await account.createContainer(
        EngineDevice.container, device: .random(), time: Timestamp(nanoseconds: 1)
      ).incarnation
    }

    func delete() async throws {
      try await account.deleteContainer(
        EngineDevice.container,
        by: ContainerDeletion(
          device: Model.DeviceID(high: 1, low: 2), time: Timestamp(nanoseconds: 3)))
    }

    /// As the daemon opens it: it knows the incarnation, and makes no other one.
    func device(after former: EngineDevice? = nil) throws -> EngineDevice {
      try EngineDevice(
        store: meter, secret: secret, incarnation: incarnation, format: account.format,
        after: former)
    }
  }

  @Test("a device that is in sync hears of the deletion, keeps its files and asks for nothing more")
  func deletion() async throws {
    let setting = try await Setting()
    let device = try setting.device()
    await device.sync.start()
    try device.write("Documents/kept", [1, 2, 3])
    try await device.sync.sync(timeout: .seconds(240))
    try await setting.delete()
    // A look while objects go may fail otherwise, and is repeated.
    try await eventually("the status says that the container was deleted") {
      await device.sync.status().errors.contains { $0.contains("was deleted on") }
    }
    await #expect(throws: SyncFailure.self) { try await device.sync.sync(timeout: .seconds(5)) }
    let before = setting.meter.traffic.requests
    try device.write("Documents/new", [4])
    // Nothing tells that a request does not happen.
    try await Task.sleep(for: .seconds(1))
    #expect(setting.meter.traffic.requests == before)
    #expect(try await device.read("Documents/kept") == [1, 2, 3])
    #expect(try await device.read("Documents/new") == [4])
    let kept = try #require(try device.find("Documents/kept"))
    #expect(throws: Errno.resourceBusy) { try device.coordinator.evict(kept.number) }
    // It waits for ever, and is not forgotten.
    #expect(try device.catalog.dirtyCount() > 0)
    await device.end()
  }

  @Test("a deletion is found after a stop, however far the device was behind, and is remembered")
  func deletionWhileStopped() async throws {
    let setting = try await Setting()
    var device = try setting.device()
    let other = try setting.device()
    try device.write("Documents/kept", [1, 2, 3])
    try await device.sync.sync(timeout: .seconds(240))
    try await other.sync.sync(timeout: .seconds(240))
    await device.stop()
    for index in 0..<3 {
      try other.write("Documents/\(index)", [UInt8(index)])
      try await other.sync.sync(timeout: .seconds(240))
    }
    try await setting.delete()
    device = try setting.device(after: device)
    try device.write("Documents/edited here", [9])
    await #expect {
      try await device.sync.sync(timeout: .seconds(10))
    } throws: { error in
      if case .deleted? = error as? SyncFailure { true } else { false }
    }
    #expect(setting.meter.traffic.requests < 100)
    await device.stop()
    device = try setting.device(after: device)
    let before = setting.meter.traffic.requests
    await device.sync.start()
    #expect(await device.sync.status().errors.contains { $0.contains("was deleted on") })
    await #expect(throws: SyncFailure.self) { try await device.sync.sync(timeout: .seconds(5)) }
    #expect(setting.meter.traffic.requests == before)
    await device.end()
    await other.end()
  }

  @Test("a placeholder of a deleted container says that it was deleted")
  func placeholder() async throws {
    let setting = try await Setting()
    let device = try setting.device()
    let other = try setting.device()
    try other.write("Documents/far", Array(repeating: 7, count: 1000))
    try await other.sync.sync(timeout: .seconds(240))
    try await device.sync.sync(timeout: .seconds(240))
    try await setting.delete()
    await #expect(throws: SyncFailure.self) { try await device.sync.sync(timeout: .seconds(5)) }
    await #expect {
      _ = try await device.read("Documents/far")
    } throws: { error in
      guard let failure = error as? FetchFailure else { return false }
      return failure.errno == .ioError && failure.description.contains("was deleted on")
    }
    await device.end()
    await other.end()
  }

  @Test("a store that shows nothing of a container is an error, and no deletion")
  func absence() async throws {
    let setting = try await Setting()
    let device = try setting.device()
    try device.write("Documents/kept", [1, 2, 3])
    try await device.sync.sync(timeout: .seconds(240))
    var hidden: [String: [UInt8]] = [:]
    for key in try await setting.store.list(prefix: "", after: nil, limit: 1000)
    where key.hasPrefix("containers/") || key.hasPrefix("names/") {
      hidden[key] = try await setting.store.get(key)
      try await setting.store.delete(key)
    }
    try device.write("Documents/new", [4])
    let before = setting.meter.traffic.requests
    await #expect {
      try await device.sync.sync(timeout: .seconds(10))
    } throws: { error in
      if case .failed? = error as? SyncFailure { true } else { false }
    }
    #expect(setting.meter.traffic.requests - before < 60)
    let kept = try #require(try device.find("Documents/kept"))
    #expect(kept.content == .local)
    for (key, bytes) in hidden { try await setting.store.replace(key, bytes) }
    try await device.sync.sync(timeout: .seconds(240))
    #expect(try device.catalog.dirtyCount() == 0)
    await device.end()
  }
}
