import Backend
import Platform
import SyncEngine
import TestWaiting
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

  /// As when the container is unmounted meanwhile, and mounted again.
  @Test("a recovery that is under way when the device stops puts nothing into the store afterwards")
  func stopsMeanwhile() async throws {
    try await withRestorableStore { house in
      let parts = HeldParts(house.store)
      let device = try house.device(through: parts)
      try device.write("Documents/old", [1])
      try await device.sync.sync()
      let earlier = try await house.copy()
      try device.write("Documents/mine", [2])
      try await device.sync.sync()
      try await house.restore(earlier)
      await #expect(throws: SyncFailure.self) { try await device.sync.sync() }

      parts.isHeld.withLock { $0 = true }
      let recovery = Task { try await device.sync.recoverStore() }
      try await eventually("a part is put") { parts.asked.withLock { $0 } > 0 }
      let stop = Task { await device.stop() }
      try await eventually("the recovery is cancelled") { parts.cancelled.withLock { $0 } > 0 }
      parts.isHeld.withLock { $0 = false }
      await stop.value
      let atStop = try await house.copy()
      await #expect(throws: SyncFailure.stopped) { try await recovery.value }
      #expect(try await house.copy() == atStop)
      #expect(try await house.log().allSatisfy { $0 < 1_000_000 })

      let next = try house.device(after: device)
      await #expect(throws: SyncFailure.self) { try await next.sync.sync() }
      _ = try await next.sync.recoverStore()
      let other = try house.device()
      try await settle(next, other)
      #expect(try await other.read("Documents/mine") == [2])
    }
  }
}

/// Keeps parts of snapshots waiting while it is held.
private final class HeldParts: ForwardingStore {
  let store: any ObjectStore
  let isHeld = Lock(false)
  let asked = Lock(0)
  /// Those whose caller was cancelled while they waited.
  let cancelled = Lock(0)

  init(_ store: any ObjectStore) { self.store = store }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    if key.contains("/snapshots/") {
      asked.withLock { $0 += 1 }
      let deadline = Deadline("the test lets parts through", within: .seconds(600))
      var isTold = false
      while isHeld.withLock(\.self) {
        if deadline.isOver { throw .unavailable("\(deadline.timeout)") }
        if Task.isCancelled, !isTold {
          isTold = true
          cancelled.withLock { $0 += 1 }
        }
        await Task.yield()
        try? await Task.sleep(for: .milliseconds(5))
      }
    }
    return try await store.putIfAbsent(key, bytes)
  }
}
