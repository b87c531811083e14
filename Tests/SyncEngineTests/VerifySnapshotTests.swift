import Backend
import Model
import Platform
import Testing

@testable import SyncEngine

/// `store verify` on a store whose newest snapshot is damaged or incomplete. The log before it is
/// removed, so that no new device can do without it.
@Suite(.serialized) struct VerifySnapshotTests {
  enum Damage: CaseIterable, Sendable {
    case missingIndex
    case missingPart
    case shortPart
    case changedIndex
    case changedPart

    var isOfIndex: Bool { self == .missingIndex || self == .changedIndex }
    var isMissing: Bool { self == .missingIndex || self == .missingPart }
  }

  /// Has a device upload files and write the snapshot that is the only one.
  private func makeSnapshot(with device: EngineDevice, of house: RestorableHousehold) async throws {
    for number in 0..<4 {
      try device.write("Documents/\(number)", [UInt8(number), 7])
      try await device.sync.sync(timeout: .seconds(240))
    }
    try await device.sync.compact()
    #expect(try await house.snapshotObjects().count == 2)
    let beginning = try #require(try await house.log().min())
    #expect(beginning > 1)
  }

  /// Damages the index or the part of the snapshot. Gives the key of the object.
  private func inflict(_ damage: Damage, on house: RestorableHousehold) async throws -> String {
    let objects = try await house.snapshotObjects()
    let key = try #require(objects.first { $0.hasSuffix("/index") == damage.isOfIndex })
    if damage.isMissing {
      try await house.store.delete(key)
      return key
    }
    var bytes = try await house.store.get(key)
    if damage == .shortPart { bytes.removeLast() } else { bytes[bytes.count - 1] ^= 1 }
    try await house.store.replace(key, bytes)
    return key
  }

  @Test(
    "a newer snapshot takes the place of one that lost an object or a byte, at any time",
    arguments: Damage.allCases, [(false, false), (true, false), (true, true)])
  func replaced(damage: Damage, how: (readsData: Bool, isLater: Bool)) async throws {
    let readsData = how.readsData
    try await withRestorableStore { house in
      let device = try house.device(settings: SyncSettings(compaction: .eager))
      try await makeSnapshot(with: device, of: house)
      let former = try #require(try await house.snapshotIndices().last)
      _ = try await inflict(damage, on: house)
      let newcomer = try house.device()
      await #expect(throws: SyncFailure.self) {
        try await newcomer.sync.sync(timeout: .seconds(5))
      }

      if how.isLater {
        let seen = monotonicNanoseconds() - 2 * StoreHealth.putLimit
        device.sync.health.confirm(try device.catalog.position(), at: seen)
      }
      let report = try await device.sync.verify(VerifyOptions(readsData: readsData))
      #expect(report.isWell)
      // A list does not show a changed byte of a part.
      let repairs: UInt64 = readsData || damage != .changedPart ? 1 : 0
      #expect(report.repaired == repairs)
      let next = try await device.sync.verify(VerifyOptions(readsData: true))
      #expect(next.isWell)
      #expect(next.repaired == 1 - repairs)

      let newest = try #require(try await house.snapshotIndices().last)
      #expect(newest > former)
      try await settle(device, newcomer)
      for number in 0..<4 {
        #expect(try await newcomer.read("Documents/\(number)") == [UInt8(number), 7])
      }
    }
  }

  /// A device put a segment while the store was set back: its head is there, behind a gap. With a
  /// snapshot of that head no device would see the gap any more. A device that had put another
  /// segment meanwhile would take its own items for removed.
  @Test("no snapshot is written into a store that was set back", arguments: [false, true])
  func gapAfterTheSnapshot(isLater: Bool) async throws {
    try await withRestorableStore { house in
      let device = try house.device(settings: SyncSettings(compaction: .eager))
      try await makeSnapshot(with: device, of: house)
      // More than an ordinary look lists.
      for number in 0..<StoreHealth.look + 4 {
        try device.write("Documents/0", [UInt8(number)])
        try await device.sync.sync(timeout: .seconds(240))
      }
      let log = try await house.store.list(prefix: "containers/", after: nil, limit: .max)
        .filter { $0.contains("/log/") }
      #expect(log.count > StoreHealth.look + 2)
      for key in log.dropLast() { try await house.store.delete(key) }
      _ = try await inflict(.missingIndex, on: house)
      let position = try device.catalog.position()
      let age = isLater ? 2 * StoreHealth.putLimit : 0
      device.sync.health.confirm(position, at: monotonicNanoseconds() - age)
      let before = try await house.copy()

      let report = try await device.sync.verify(VerifyOptions())
      #expect(!report.isWell)
      #expect(report.repaired == 0)
      #expect(try await house.copy() == before)
    }
  }

  @Test(
    "a damaged snapshot that cannot be written again is reported by the name of its object",
    arguments: Damage.allCases)
  func reported(damage: Damage) async throws {
    try await withRestorableStore { house in
      let store = CallRefusingStore(house.store)
      let device = try house.device(
        settings: SyncSettings(compaction: .eager), through: store)
      try await makeSnapshot(with: device, of: house)
      let key = try await inflict(damage, on: house)
      store.refuse { call in
        call.kind == .put && call.key.contains("/snapshots/") ? .noSpace("it is full") : nil
      }
      let before = try await house.copy()

      let report = try await device.sync.verify(VerifyOptions(readsData: true))
      #expect(!report.isWell)
      #expect(report.repaired == 0)
      let problems = report.missing + report.damaged
      #expect(problems.count == 1)
      guard case .object(let name, reason: let reason)? = problems.first else {
        Issue.record("\(problems)")
        return
      }
      #expect(name == key)
      #expect((reason == "it is missing") == damage.isMissing, "\(reason)")
      #expect(try await house.copy() == before)

      store.refuse()
      let next = try await device.sync.verify(VerifyOptions(readsData: true))
      #expect(next.isWell)
      #expect(next.repaired == 1)
    }
  }
}

extension RestorableHousehold {
  /// The keys of all snapshots' indices and parts.
  fileprivate func snapshotObjects() async throws -> [String] {
    try await store.list(prefix: "containers/", after: nil, limit: .max)
      .filter { $0.contains("/snapshots/") }
  }

  /// The keys of the indices, the oldest first.
  fileprivate func snapshotIndices() async throws -> [String] {
    try await snapshotObjects().filter { $0.hasSuffix("/index") }
  }
}
