import Backend
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// A store that loses the object with the name of a container, and nothing else.
@Suite(.serialized) struct LostNameTests {
  enum Finder: CaseIterable, Sendable {
    case comparison, verification, recovery
  }

  private func loseName(_ house: RestorableHousehold) async throws -> String {
    let names = try await house.store.list(prefix: "names/", after: nil, limit: 10)
    try #require(names.count == 1)
    try await house.store.delete(names[0])
    return names[0]
  }

  @Test(
    "a device puts a lost name there again, and a new device finds the container",
    arguments: Finder.allCases)
  func lostName(_ finder: Finder) async throws {
    try await withRestorableStore { house in
      let (first, second, _) = try await house.pair()
      let name = try await loseName(house)
      switch finder {
      case .comparison: try await first.sync.compareHeads()
      case .verification:
        let report = try await first.sync.verify(VerifyOptions())
        #expect(report.isWell)
        #expect(report.repaired == 1)
      case .recovery: _ = try await first.sync.recoverStore()
      }
      #expect(try await house.store.list(prefix: "names/", after: nil, limit: 10) == [name])
      #expect(first.sync.condition.isNormal)
      let third = try house.device()
      try await settle(first, second, third)
      #expect(try await third.read("Documents/old") == [1])
    }
  }

  @Test("a device whose container's name another one got sends nothing until the name is back")
  func foreignName() async throws {
    try await withRestorableStore { house in
      let (first, _, _) = try await house.pair()
      let name = try await loseName(house)
      let stranger = try house.device()
      try await stranger.sync.sync(timeout: .seconds(240))
      #expect(try stranger.find("Documents/old") == nil)

      await #expect(throws: SyncFailure.self) { try await first.sync.compareHeads() }
      #expect(!first.sync.condition.isNormal)
      #expect(await first.sync.status().errors.contains { $0.contains("set-aside add") })
      await #expect(throws: Errno.resourceBusy) { try await first.evict("Documents/old") }
      let before = try await house.copy()
      try first.write("Documents/new", [2])
      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .seconds(240))
      }
      #expect(try await house.copy() == before)
      let report = try? await first.sync.verify(VerifyOptions())
      #expect(report?.isWell != true)

      // The user takes away what the other device made.
      try await house.store.delete(name)
      try await first.sync.sync(timeout: .seconds(240))
      #expect(first.sync.condition.isNormal)
      #expect(try first.isUploaded("Documents/new"))
      let third = try house.device()
      try await settle(first, third)
      #expect(try await third.read("Documents/new") == [2])
    }
  }

  @Test("a device that starts anew still knows that another container has the name")
  func foreignNameAfterARestart() async throws {
    try await withRestorableStore { house in
      let (first, _, _) = try await house.pair()
      let log = try #require(
        try await house.store.list(prefix: "containers/", after: nil, limit: 1).first)
      let incarnation = IncarnationID(hex: String(log.dropFirst("containers/".count).prefix(32)))
      let account = try await RemoteAccount.open(
        store: house.store, secret: house.secret, createIfMissing: false)
      let name = try await loseName(house)
      let stranger = try house.device()
      try await stranger.sync.sync(timeout: .seconds(240))
      await #expect(throws: SyncFailure.self) { try await first.sync.compareHeads() }
      await first.stop()

      let next = try EngineDevice(
        store: house.store, secret: house.secret, incarnation: #require(incarnation),
        format: account.format, after: first)
      await next.sync.start()
      #expect(!next.sync.condition.isNormal)
      await #expect(throws: Errno.resourceBusy) { try await next.evict("Documents/old") }
      try next.write("Documents/new", [2])
      await #expect(throws: SyncFailure.self) {
        try await next.sync.sync(timeout: .seconds(240))
      }
      try await house.store.delete(name)
      try await next.sync.sync(timeout: .seconds(240))
      #expect(next.sync.condition.isNormal)
      #expect(try next.isUploaded("Documents/new"))
      await next.end()
    }
  }

  @Test("a damaged name stops no comparison and no recovery, and is reported")
  func damagedName() async throws {
    try await withRestorableStore { house in
      let (first, second, _) = try await house.pair()
      let name = try #require(
        try await house.store.list(prefix: "names/", after: nil, limit: 10).first)
      var bytes = try await house.store.get(name)
      bytes[bytes.count - 1] ^= 1
      try await house.store.replace(name, bytes)
      for device in [first, second] {
        try await device.sync.compareHeads()
        _ = try await device.sync.recoverStore()
        let report = try await device.sync.verify(VerifyOptions())
        #expect(report.missing == [])
        #expect(report.damaged.count == 1)
        #expect(device.sync.condition.isNormal)
      }
    }
  }

  @Test("a store that was set back is recovered, though the name is damaged")
  func damagedNameInARecovery() async throws {
    try await withRestorableStore { house in
      let (first, second, earlier) = try await house.pair()
      try first.write("Documents/lost", [2])
      try await settle(first, second)
      try await house.restore(earlier)
      let name = try #require(
        try await house.store.list(prefix: "names/", after: nil, limit: 10).first)
      let bytes = try await house.store.get(name)
      try await house.store.replace(name, bytes.dropLast() + [bytes[bytes.count - 1] ^ 1])
      await #expect(throws: SyncFailure.self) { try await first.sync.sync(timeout: .seconds(240)) }
      _ = try await first.sync.recoverStore()
      try await settle(first, second)
      #expect(first.sync.condition.isNormal)
    }
  }

  @Test("a device that the log went on without recovers nothing when the name is lost too")
  func lostNameOfADeviceThatIsBehind() async throws {
    try await withRestorableStore { house in
      let (first, second, _) = try await house.pair()
      let position = try second.catalog.position().sequence
      for number in 0..<3 {
        try first.write("Documents/\(number)", [UInt8(number)])
        try await first.sync.sync(timeout: .seconds(240))
      }
      _ = try await loseName(house)
      let next = String(position + 1)
      let segment = try #require(
        try await house.store.list(prefix: "containers/", after: nil, limit: .max)
          .first { $0.contains("/log/") && $0.hasSuffix("0" + next) })
      var bytes = try await house.store.get(segment)
      bytes[bytes.count - 1] ^= 1
      try await house.store.replace(segment, bytes)
      let log = try await house.log()
      await #expect(throws: SyncFailure.self) { try await second.sync.recoverStore() }
      #expect(try await house.log() == log)
      _ = try? await second.sync.verify(VerifyOptions())
      await #expect(throws: SyncFailure.self) { try await second.sync.recoverStore() }
      #expect(try await house.log() == log)
    }
  }

  @Test("a store that does not show the name that was just put there is no store with another one")
  func hiddenName() async throws {
    try await withRestorableStore { house in
      let store = CallRefusingStore(house.store)
      let device = try house.device(through: store)
      try device.write("Documents/old", [1])
      try await settle(device)
      store.refuse { call in
        call.kind == .get && call.key.hasPrefix("names/") ? .notFound(call.key) : nil
      }
      await #expect(throws: SyncFailure.self) { try await device.sync.compareHeads() }
      #expect(device.sync.condition.isNormal)
      try device.write("Documents/new", [2])
      try await settle(device)
      #expect(try device.isUploaded("Documents/new"))
    }
  }

  @Test("the name of a container that was deleted is not put again")
  func deleted() async throws {
    try await withRestorableStore { house in
      let (first, _, _) = try await house.pair()
      let account = try await RemoteAccount.open(
        store: house.store, secret: house.secret, createIfMissing: false)
      let deletion = ContainerDeletion(
        device: Model.DeviceID(high: 1, low: 2), time: Timestamp(nanoseconds: 3))
      try await account.deleteContainer(EngineDevice.container, by: deletion)
      await #expect(throws: SyncFailure.self) { try await first.sync.compareHeads() }
      #expect(first.sync.isDeleted)
      #expect(try await house.store.list(prefix: "names/", after: nil, limit: 10) == [])
    }
  }

  @Test("a name that is missing with the log is not put: the store may be another one")
  func lostWithTheLog() async throws {
    try await withRestorableStore { house in
      let (first, _, _) = try await house.pair()
      for key in try await house.store.list(prefix: "", after: nil, limit: .max)
      where key.hasPrefix("names/") || key.hasPrefix("containers/") {
        try await house.store.delete(key)
      }
      await #expect(throws: SyncFailure.self) { try await first.sync.compareHeads() }
      #expect(!first.sync.condition.isNormal)
      #expect(try await house.store.list(prefix: "names/", after: nil, limit: 10) == [])
      #expect(try await first.read("Documents/old") == [1])
    }
  }
}
