import Catalog
import Coordination
import SyncEngine
import TestWaiting
import Testing

/// The base of a device after a recovery that knew less than the device.
@Suite(.serialized) struct RecoveredBaseTests {
  @Test(
    "a removal in a recovered log spares local bytes that this log does not have",
    arguments: [false, true])
  func removalInARecoveredLog(knowsEdit: Bool) async throws {
    try await withRestorableStore { house in
      let (holder, mover, reader) = (try house.device(), try house.device(), try house.device())
      let file = "Documents/p.pages/a"
      let other = "Documents/p.pages/open"
      try holder.makeDirectory("Documents/p.pages")
      try holder.write(other, [9])
      try await settle(holder, mover, reader)
      let earlier = try await house.copy()
      try holder.write(file, [1])
      try await settle(holder, mover, reader)
      if !knowsEdit {
        // It supplies this content; of the edit it has the name at most.
        _ = try await reader.read(file)
        reader.offline.set(offline: true)
      }
      try holder.write(file, [2, 2])
      try await holder.sync.sync(timeout: .seconds(240))
      try await settle(holder, mover)
      if knowsEdit { try await reader.sync.sync(timeout: .seconds(240)) }
      reader.offline.set(offline: true)

      // The holder reads the rename and does not apply it while a file of the package is open.
      let number = try #require(try holder.find(other)).number
      holder.coordinator.opened(number, forWriting: true)
      try mover.rename(file, "Documents/p.pages/b")
      try await mover.sync.sync(timeout: .seconds(240))
      let position = try mover.catalog.position()
      try await eventually("the holder has read the rename") {
        try? await holder.sync.sync(timeout: .milliseconds(500))
        return try holder.catalog.position() == position
      }
      #expect(try holder.find(file) != nil)
      holder.offline.set(offline: true)
      mover.offline.set(offline: true)

      try await house.restore(earlier)
      reader.offline.set(offline: false)
      await #expect(throws: SyncFailure.self) {
        try await reader.sync.sync(timeout: .seconds(240))
      }
      _ = try await reader.sync.recoverStore()
      try reader.remove(file)
      try await reader.sync.sync(timeout: .seconds(240))

      holder.coordinator.closed(number, forWriting: true)
      holder.offline.set(offline: false)
      try await settle(holder, reader)
      for device in [holder, reader] { #expect(try await device.read(file) == [2, 2]) }
    }
  }
}
