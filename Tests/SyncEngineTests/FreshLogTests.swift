import Backend
import RemoteStore
import Testing

@testable import SyncEngine

/// A device that read or put a segment a moment ago sends a change without reading the log again.
/// These tests run the cycle that the engine runs after a change on this device.
@Suite(.serialized) struct FreshLogTests {
  /// A store that has to be asked for news.
  private struct Bucket: PassingStore {
    let store: any ObjectStore

    func pass<Answer: Sendable>(
      _ call: StoreCall, received: @Sendable (Answer) -> Int,
      _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
    ) async throws(StoreError) -> Answer { try await body(store) }

    var looksForNews: Bool { true }
    func news(prefix: String) -> AsyncStream<Void> { AsyncStream { $0.finish() } }
  }

  private func sendChanges(_ device: EngineDevice) async -> ContainerSync.CycleResult {
    while true {
      let result = await device.sync.runCycle(freshly: true, readsLog: false)
      // On a busy machine a small upload may take longer than a round waits for it.
      guard case .uploading = result else { return result }
      await device.sync.uploads.waitForEnd(atMost: .seconds(10))
    }
  }

  private func isFresh(_ device: EngineDevice) async throws -> Bool {
    await device.sync.isLogFresh(at: try device.catalog.position())
  }

  private func isSettled(_ result: ContainerSync.CycleResult) -> Bool {
    if case .settled = result { true } else { false }
  }

  /// A busy machine may hold a device up for longer than the log stays fresh.
  private static let tries = 20

  @Test("a change right after another one is sent without a list")
  func withoutList() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try device.write("Documents/0", [1])
      try await device.sync.sync()
      var lists: [UInt64] = []
      for number in 1...Self.tries where lists.last != 0 {
        try device.write("Documents/\(number)", [UInt8(number)])
        let before = house.lists(of: device)
        #expect(isSettled(await sendChanges(device)))
        #expect(try device.isUploaded("Documents/\(number)"))
        lists.append(house.lists(of: device) - before)
      }
      #expect(lists.last == 0)
    }
  }

  @Test("a segment that another device put meanwhile is read after the put is refused")
  func anotherWasFirst() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await settle(first, second)
      var wasFresh = false
      for number in 0..<Self.tries where number < 5 || !wasFresh {
        try first.write("Documents/first\(number)", [1])
        try await first.sync.sync()
        try second.write("Documents/second\(number)", [2])
        if try await isFresh(second) { wasFresh = true }
        #expect(isSettled(await sendChanges(second)))
        #expect(try second.find("Documents/first\(number)") != nil)
        try await settle(first, second)
      }
      #expect(wasFresh)
    }
  }

  /// A store that is asked for news does not tell of a segment that a list had.
  @Test("a segment that another look at the log has shown is read by the next cycle")
  func anotherLook() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device(through: Bucket(store: house.store))
      try await settle(first, second)
      let remote = try await second.sync.link.container()
      #expect(remote.looksForNews)
      for number in 0..<3 {
        try first.write("Documents/\(number)", [1])
        try await first.sync.sync()
        try await second.sync.confirmHead(remote)
        #expect(isSettled(await sendChanges(second)))
        #expect(try second.find("Documents/\(number)") != nil)
      }
      // The next segment is got beside the list.
      try first.write("Documents/last", [1])
      try await first.sync.sync()
      await second.sync.hearNews()
      #expect(isSettled(await sendChanges(second)))
      #expect(try second.find("Documents/last") != nil)
      // There is none.
      await second.sync.hearNews()
      #expect(isSettled(await sendChanges(second)))
      try second.write("Documents/own", [1])
      #expect(isSettled(await sendChanges(second)))
      #expect(try second.isUploaded("Documents/own"))
    }
  }

  @Test("news are read although the log was read a moment ago")
  func news() async throws {
    try await withRestorableStore { house in
      let first = try house.device()
      let second = try house.device()
      try await settle(first, second)
      for number in 0..<3 {
        try first.write("Documents/\(number)", [1])
        try await first.sync.sync()
        second.sync.signals.look()
        #expect(isSettled(await sendChanges(second)))
        #expect(try second.find("Documents/\(number)") != nil)
      }
    }
  }

  @Test("a store that was set back a moment ago keeps no segment of this device")
  func setBack() async throws {
    try await withRestorableStore { house in
      let device = try house.device()
      try device.write("Documents/0", [1])
      try await device.sync.sync()
      let (earlier, log) = (try await house.copy(), try await house.log())
      for number in 1...3 {
        try device.write("Documents/\(number)", [1])
        try await device.sync.sync()
      }
      let newest = try await house.copy()
      try await house.restore(earlier)
      try device.write("Documents/new", [7])
      #expect(!isSettled(await sendChanges(device)))
      #expect(!device.sync.condition.isNormal)
      #expect(try await house.log() == log)
      for name in ["0", "1", "2", "3", "new"] {
        #expect(try device.find("Documents/\(name)")?.content == .local)
      }
      try await house.restore(newest)
      try await device.sync.sync()
      #expect(try device.isUploaded("Documents/new"))
    }
  }
}
