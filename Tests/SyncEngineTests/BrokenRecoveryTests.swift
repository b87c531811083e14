import Backend
import SyncEngine
import Testing

/// Recoveries of which the store lost something.
@Suite(.serialized) struct BrokenRecoveryTests {
  /// As when the store is set back once more in the midst of a recovery.
  @Test("any device recovers anew when the snapshot of a recovery lost a part")
  func aPartIsLost() async throws {
    try await withRestorableStore { house in
      let (first, second, earlier) = try await house.pair()
      try first.write("Documents/mine", [2])
      try second.write("Documents/yours", [3])
      try await settle(first, second)
      try await house.restore(earlier)
      for device in [first, second] {
        await #expect(throws: SyncFailure.self) { try await device.sync.sync() }
      }
      _ = try await first.sync.recoverStore()
      let recovered = try await house.copy()
      for key in recovered.keys where key.contains("/snapshots/") && !key.hasSuffix("/index") {
        try await house.store.delete(key)
      }
      await #expect(throws: SyncFailure.self) { try await second.sync.sync() }
      #expect(!second.sync.condition.isNormal)
      #expect(await second.sync.status().errors.contains { $0.contains("store recover") })

      _ = try await second.sync.recoverStore()
      try await settle(first, second)
      let third = try house.device()
      try await settle(first, second, third)
      for device in [first, second, third] {
        #expect(device.sync.condition.isNormal)
        #expect(try await device.read("Documents/old") == [1])
        #expect(try await device.read("Documents/mine") == [2])
        #expect(try await device.read("Documents/yours") == [3])
      }
    }
  }
}
