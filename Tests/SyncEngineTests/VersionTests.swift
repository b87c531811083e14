import Backend
import Model
import Platform
import RemoteStore
import SyncEngine
import Testing

/// What becomes of contents that lost a conflict.
@Suite(.serialized) struct VersionTests {
  /// A content that loses is in the backend, and the log says so, before what wins takes its place.
  @Test func whatLosesIsUpBeforeItIsReplaced() async throws {
    let shared = MemoryStore()
    let closing = ClosingStore(shared)
    let secret = AccountSecret.generate()
    let first = try EngineDevice(store: closing, secret: secret)
    let second = try EngineDevice(store: shared, secret: secret)
    try second.write("Documents/f", Array("base".utf8))
    try await settle(second, first)
    _ = try await first.read("Documents/f")
    try first.write("Documents/f", Array("loser".utf8))
    try second.write("Documents/f", Array("winner".utf8))
    try await second.sync.sync()

    // The log of the winner arrives, the loser cannot be sent: nothing is replaced, after a restart
    // too.
    closing.packsLeft.withLock { $0 = 0 }
    await #expect(throws: SyncFailure.self) { try await first.sync.sync() }
    #expect(try await first.read("Documents/f") == Array("loser".utf8))
    await first.stop()
    let again = try EngineDevice(store: closing, secret: secret, after: first)
    await #expect(throws: SyncFailure.self) { try await again.sync.sync() }
    #expect(try await again.read("Documents/f") == Array("loser".utf8))

    closing.packsLeft.withLock { $0 = .max }
    try await settle(again, second)
    for device in [again, second] {
      #expect(try await device.read("Documents/f") == Array("winner".utf8))
      #expect(try await device.conflicts("Documents/f") == ["loser"])
    }
    await again.end()
    await second.end()
  }

  @Test func whatIsRemovedGoesAndTheOthersStay() async throws {
    try await withDevices { first, second in
      try first.write("Documents/f", Array("base".utf8))
      try await settle(first, second)
      for round in 1...2 {
        for device in [first, second] { _ = try await device.read("Documents/f") }
        try first.write("Documents/f", Array("loser \(round)".utf8))
        try second.write("Documents/f", Array("winner \(round)".utf8))
        try await settle(second, first)
      }
      #expect(try await first.conflicts("Documents/f") == ["loser 1", "loser 2"])
      let number = try #require(try first.find("Documents/f")).number
      let versions = try first.sync.versions(of: number)
      let current = try #require(versions.first { $0.isCurrent })
      // The newest first.
      let losers = versions.filter(\.isConflict).map(\.id)
      await #expect(throws: VersionFailure.isCurrent) {
        try await first.sync.remove([losers[0], current.id], of: number)
      }
      await #expect(throws: VersionFailure.notFound) {
        try await first.sync.remove([losers[0], .random()], of: number)
      }
      #expect(try await first.conflicts("Documents/f") == ["loser 1", "loser 2"])
      // An edit that another device makes meanwhile does not bring it back.
      _ = try await second.read("Documents/f")
      try second.write("Documents/f", Array("edited".utf8))
      try await first.sync.remove([losers[1]], of: number)
      try await settle(second, first)
      for device in [first, second] {
        #expect(try await device.conflicts("Documents/f") == ["loser 2"])
        #expect(try await device.read("Documents/f") == Array("edited".utf8))
        #expect(try device.catalog.conflictBytes() == 7)
      }
      try await first.sync.remove([losers[0]], of: number)
      try await settle(first, second)
      #expect(try second.catalog.conflictCount() == 0)
      #expect(try second.catalog.conflictBytes() == 0)
    }
  }
}
