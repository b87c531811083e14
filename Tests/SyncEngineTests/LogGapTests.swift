import Backend
import SyncEngine
import Testing

/// Logs that lack segments before the last one.
@Suite(.serialized) struct LogGapTests {
  /// As a restore that goes on while a device writes: what it puts meanwhile stays behind the gap.
  @Test(
    "a gap before the last segment of a device is noticed, and any device recovers from it",
    arguments: [0, 1], [1, 20])
  func aSegmentBehindAGap(recovering: Int, strays: Int) async throws {
    try await withRestorableStore { house in
      let (first, second, earlier) = try await house.pair()
      for number in 0..<3 {
        try first.write("Documents/lost-\(number)", [UInt8(number)])
        try await settle(first, second)
      }
      let gap = try await house.copy().keys.filter { earlier[$0] == nil }
      for number in 0..<strays {
        try first.write("Documents/stray-\(number)", [UInt8(number), 1])
        try await first.sync.sync(timeout: .seconds(240))
      }
      for key in gap { try await house.store.delete(key) }

      let devices = [first, second]
      for device in devices {
        await #expect(throws: SyncFailure.self) {
          try await device.sync.sync(timeout: .seconds(240))
        }
        #expect(!device.sync.condition.isNormal)
      }
      _ = try await devices[recovering].sync.recoverStore()
      try await settle(first, second)
      let third = try house.device()
      try await settle(first, second, third)
      for device in [first, second, third] {
        #expect(device.sync.condition.isNormal)
        for number in 0..<3 {
          #expect(try await device.read("Documents/lost-\(number)") == [UInt8(number)])
        }
        for number in 0..<strays {
          #expect(try await device.read("Documents/stray-\(number)") == [UInt8(number), 1])
        }
      }
    }
  }
}
