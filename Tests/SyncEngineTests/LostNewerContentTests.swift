import Backend
import Catalog
import Coordination
import Model
import SyncEngine
import Testing

/// A device that has an older content of a file of which the store lost the newer one for good: the
/// device that wrote it evicted it before.
@Suite(.serialized) struct LostNewerContentTests {
  private static let path = "Documents/f"

  private func withLoss(
    _ body: (RestorableHousehold, EngineDevice, EngineDevice) async throws -> Void
  ) async throws {
    try await withRestorableStore { house in
      let (first, second) = (try house.device(), try house.device())
      try first.write(Self.path, Array("base".utf8))
      try await settle(first, second)
      _ = try await second.read(Self.path)
      let before = try await house.packs()
      try second.write(Self.path, Array("newer".utf8))
      try await second.sync.sync(timeout: .seconds(240))
      try await second.evict(Self.path)
      for key in try await house.packs().subtracting(before) { try await house.store.delete(key) }
      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .seconds(240))
      }
      #expect(try await text(first) == "base")
      try await body(house, first, second)
    }
  }

  private func text(_ device: EngineDevice) async throws -> String {
    String(decoding: try await device.read(Self.path), as: UTF8.self)
  }

  private func conflicts(_ device: EngineDevice) throws -> [FileVersion] {
    let number = try #require(try device.find(Self.path)).number
    return try device.sync.versions(of: number).filter(\.isConflict)
  }

  @Test("an edit does not wait for a newer content that the store lost")
  func edit() async throws {
    try await withLoss { _, first, second in
      try first.write(Self.path, Array("edit".utf8))
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await text(device) == "edit")
        #expect(try conflicts(device).count == 1)
      }
    }
  }

  /// A `sync` asks for the newer content anew. The edit is older than that by the clock of its
  /// device.
  @Test("an edit replaces a content that a check of the store found lost, whatever the clocks say")
  func editWithLateClock() async throws {
    try await withLoss { _, first, second in
      _ = try await first.sync.verify(VerifyOptions())
      try first.write(
        Self.path, Array("edit".utf8), modified: Timestamp(nanoseconds: 1_000_000_000))
      try await settle(first, second)
      for device in [first, second] { #expect(try await text(device) == "edit") }
    }
  }

  @Test("a conflict with a newer content that the store lost is resolved")
  func resolve() async throws {
    try await withLoss { _, first, second in
      _ = try await first.sync.verify(VerifyOptions())
      let older = try #require(try conflicts(first).first)
      let number = try #require(try first.find(Self.path)).number
      try await first.sync.resolve(number, keep: [older.id])
      try await settle(first, second)
      for device in [first, second] {
        #expect(try await text(device) == "base")
        #expect(try conflicts(device).isEmpty)
      }
    }
  }

  @Test("verify keeps the older content as a conflict version, once")
  func verify() async throws {
    try await withLoss { house, first, second in
      for _ in 0..<3 {
        let report = try await first.sync.verify(VerifyOptions())
        #expect(report.missing.count == 1)
        try await second.sync.sync(timeout: .seconds(240))
        for device in [first, second] {
          let version = try #require(try conflicts(device).first)
          #expect(try conflicts(device).count == 1)
          let number = try #require(try device.find(Self.path)).number
          let collected = Collected()
          try await device.sync.read(version.id, of: number) { await collected.add($0) }
          #expect(await collected.bytes == Array("base".utf8))
        }
        // It stays local: the store may have the newer content again some day.
        #expect(try await text(first) == "base")
      }
      // Nothing is put again and again.
      let objects = try await house.logAndPacks()
      await #expect(throws: SyncFailure.self) {
        try await first.sync.sync(timeout: .seconds(240))
      }
      #expect(try await house.logAndPacks() == objects)
    }
  }
}

extension RestorableHousehold {
  fileprivate func logAndPacks() async throws -> [String] {
    let keys = try await store.list(prefix: "containers/", after: nil, limit: .max)
    return keys.filter { StoreKey.isPack($0) || $0.contains("/log/") }.sorted()
  }
}
