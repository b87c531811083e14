import Catalog
import Model
import SyncEngine
import TestWaiting
import Testing

/// An edit that was made while the store was set back is the successor of what it was made of,
/// whatever a recovery leaves of that in the log.
@Suite(.serialized) struct RecoveredLineageTests {
  private let file = "Documents/a"

  private func expectOneVersion(_ bytes: [UInt8], _ path: String, _ devices: EngineDevice...)
    async throws
  {
    for device in devices {
      #expect(try await device.read(path) == bytes)
      let item = try #require(try device.find(path)).item
      #expect(try device.catalog.remote(item)?.conflicts == [])
    }
  }

  /// `other` goes on in the log to which the store was set back, and recovers it after the store
  /// was set back again. `away` does something in the log that is lost.
  private func forked(
    _ house: RestorableHousehold, _ away: EngineDevice, _ other: EngineDevice,
    _ act: () throws -> Void
  ) async throws {
    other.offline.set(offline: true)
    let earlier = try await house.copy()
    try act()
    try await away.sync.sync()
    away.offline.set(offline: true)
    try await house.restore(earlier)
    other.offline.set(offline: false)
    try other.write("Documents/n", [9])
    try await other.sync.sync()
    try await house.restore(earlier)
    await #expect(throws: SyncFailure.self) { try await other.sync.sync() }
    _ = try await other.sync.recoverStore()
  }

  @Test("an edit of a file that was renamed in the lost log is no conflict")
  func renamedInTheLostLog() async throws {
    try await withRestorableStore { house in
      let (away, other) = (try house.device(), try house.device())
      try away.write(file, [1])
      try await settle(away, other)
      try await forked(house, away, other) { try away.rename(file, "Documents/b") }
      try away.write("Documents/b", [2, 2])
      away.offline.set(offline: false)
      try await settle(away, other)
      let path = try away.find(file) == nil ? "Documents/b" : file
      try await expectOneVersion([2, 2], path, away, other)
    }
  }

  @Test("an edit of a content that the recovered log lacks is no conflict with the content before")
  func editedAfterTheLostContent() async throws {
    try await withRestorableStore { house in
      let (away, other) = (try house.device(), try house.device())
      try away.write(file, [1])
      try await settle(away, other)
      try await forked(house, away, other) { try away.write(file, [2, 2]) }
      try away.write(file, [3, 3, 3])
      away.offline.set(offline: false)
      try await settle(away, other)
      try await expectOneVersion([3, 3, 3], file, away, other)
    }
  }

  /// `isFork`: the log goes on in another way after the store was set back. Else the writer's log
  /// is only longer than the recovered one.
  @Test(
    "a content that only a reader has is no conflict with an edit of it",
    arguments: [false, true], [false, true])
  func readersOfTheLostContent(isReaderFirst: Bool, isFork: Bool) async throws {
    try await withRestorableStore { house in
      let (writer, reader, other) = (try house.device(), try house.device(), try house.device())
      try writer.write(file, [1])
      try await settle(writer, reader, other)
      let earlier = try await house.copy()
      if !isFork {
        try writer.write("Documents/n", [9])
        try await settle(writer, other)
      }
      other.offline.set(offline: true)
      try writer.write(file, [2, 2])
      try await settle(writer, reader)
      #expect(try await reader.read(file) == [2, 2])
      for device in [writer, reader] { device.offline.set(offline: true) }
      try writer.write(file, [3, 3, 3])
      try await house.restore(earlier)
      other.offline.set(offline: false)
      if isFork {
        try other.write("Documents/n", [9])
        try await other.sync.sync()
        try await house.restore(earlier)
      }
      await #expect(throws: SyncFailure.self) { try await other.sync.sync() }
      _ = try await other.sync.recoverStore()
      for device in isReaderFirst ? [reader, writer] : [writer, reader] {
        device.offline.set(offline: false)
        try await settle(device, other)
      }
      try await settle(writer, reader, other)
      try await expectOneVersion([3, 3, 3], file, writer, reader, other)
    }
  }

  @Test("an edit of a content that waits to be supplied is no conflict with the content before")
  func editedBeforeItIsSupplied() async throws {
    try await withRestorableStore { house in
      let (away, other) = (try house.device(), try house.device())
      try away.write(file, [1])
      try await settle(away, other)
      try await forked(house, away, other) { try away.write(file, [2, 2]) }
      // While a program has it open, its content waits; the recovered log is read.
      let number = try #require(try away.find(file)).number
      away.coordinator.opened(number, forWriting: true)
      away.offline.set(offline: false)
      try await eventually("the recovered log is read") {
        try? await away.sync.sync(timeout: .milliseconds(500))
        return try away.find("Documents/n") != nil
      }
      try away.write(file, [3, 3, 3])
      away.coordinator.closed(number, forWriting: true)
      try await settle(away, other)
      try await expectOneVersion([3, 3, 3], file, away, other)
    }
  }
}
