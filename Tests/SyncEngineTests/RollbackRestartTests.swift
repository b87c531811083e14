import Catalog
import SyncEngine
import SystemPackage
import TestWaiting
import Testing

/// A store that goes back to an earlier state while a device is stopped.
@Suite(.serialized) struct RollbackRestartTests {
  /// The first request of a device that starts.
  enum FirstLook: CaseIterable, Sendable {
    case watching
    case sync
    case eviction
    case compaction
  }

  @Test(
    "a device that starts after a rollback notices it before it changes anything",
    arguments: FirstLook.allCases)
  func firstLook(_ look: FirstLook) async throws {
    try await withRestorableStore { house in
      let settings = SyncSettings(compaction: .eager)
      let former = try house.device(settings: settings)
      try former.write("Documents/old", [1])
      try await former.sync.sync()
      let earlier = try await house.copy()
      try former.write("Documents/only", [1, 2, 3])
      try await former.sync.sync()
      #expect(try former.isUploaded("Documents/only"))
      try former.write("Documents/unsent", [4])
      try former.remove("Documents/old")
      await former.stop()
      try await house.restore(earlier)

      let device = try house.device(settings: settings, after: former)
      switch look {
      case .watching:
        await device.sync.start()
        try await eventually("the device notices the rollback") {
          !device.sync.condition.isNormal
        }
      case .sync:
        await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      case .eviction:
        await #expect(throws: Errno.resourceBusy) { try await device.evict("Documents/only") }
      case .compaction:
        await #expect(throws: SyncFailure.self) { try await device.sync.compact() }
      }
      await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      guard case .rolledBack = device.sync.condition else {
        Issue.record("\(device.sync.condition)")
        return
      }
      for path in ["Documents/only", "Documents/unsent"] {
        await #expect(throws: Errno.resourceBusy) { try await device.evict(path) }
        #expect(try device.find(path)?.content == .local)
        #expect(try !device.isUploaded(path))
      }
      for _ in 0..<2 { try? await device.sync.compact() }
      #expect(try await house.copy() == earlier)
      // The device does not apply the earlier log either.
      #expect(try device.find("Documents/old") == nil)

      #expect(try await device.sync.recoverStore().missing == [])
      let second = try house.device()
      try await settle(device, second)
      for each in [device, second] {
        #expect(try await each.read("Documents/only") == [1, 2, 3])
        #expect(try await each.read("Documents/unsent") == [4])
        #expect(try each.find("Documents/old") == nil)
      }
    }
  }

  @Test("a device that starts after other devices wrote its last segments anew notices that")
  func anotherHead() async throws {
    try await withRestorableStore { house in
      let former = try house.device()
      let second = try house.device()
      try await settle(former, second)
      let earlier = try await house.copy()
      for number in 0..<2 {
        try former.write("Documents/\(number)", [UInt8(number)])
        try await former.sync.sync()
      }
      let head = try former.catalog.position().sequence
      await former.stop()
      try await house.restore(earlier)
      var number = 0
      while try second.catalog.position().sequence < head {
        try second.makeDirectory("Documents/d\(number)")
        try await second.sync.sync()
        number += 1
      }
      let forked = try await house.copy()

      // It has nothing to upload: only the look on connect can notice it.
      let first = try house.device(after: former)
      await first.sync.start()
      try await eventually("the device notices the other head") {
        !first.sync.condition.isNormal
      }
      for number in 0..<2 {
        let path = "Documents/\(number)"
        await #expect(throws: Errno.resourceBusy) { try await first.evict(path) }
        #expect(try await first.read(path) == [UInt8(number)])
      }
      #expect(try first.find("Documents/d0") == nil)
      #expect(try await house.copy() == forked)
    }
  }
}
