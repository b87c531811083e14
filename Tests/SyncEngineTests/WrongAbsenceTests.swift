import Backend
import Catalog
import Model
import Platform
import SyncEngine
import Testing

/// A store that answers one request as if nothing were there, though all is. Absence alone proves
/// nothing: no device drops, replaces or removes anything for it.
@Suite(.serialized) struct WrongAbsenceTests {
  @Test(
    "one wrong 404 of the log, at any request of a sync, changes nothing",
    arguments: [StoreCall.Kind.get, .list], 0..<4)
  func log(_ kind: StoreCall.Kind, after requests: Int) async throws {
    try await withRestorableStore { house in
      let store = OneWrongAnswer(house.store)
      let first = try house.device()
      let second = try house.device(through: store)
      try first.write("Documents/0", [0])
      try second.write("Documents/1", [1])
      try await settle(first, second)
      // Both have something for the other one.
      try first.write("Documents/2", [2])
      try await first.sync.sync(timeout: .seconds(240))
      try second.write("Documents/3", [3])
      let before = try await house.copy()

      store.answerWrongly(kind, "/log/", after: requests)
      // The sync with the wrong answer may fail.
      for _ in 0..<4 { try? await second.sync.sync(timeout: .seconds(240)) }
      #expect(store.hasAnsweredWrongly)
      let after = try await house.copy()
      #expect(before.allSatisfy { after[$0.key] == $0.value })
      #expect(second.sync.condition.isNormal)
      try await settle(first, second)
      for device in [first, second] {
        for number in 0..<4 {
          #expect(try await device.read("Documents/\(number)") == [UInt8(number)])
          #expect(try device.find("Documents/\(number) 2") == nil)
        }
        #expect(await device.sync.status().errors == [])
        #expect(await device.sync.status().conflicts == 0)
      }
    }
  }

  @Test(
    "`store verify` asks for segments that one list does not show, and reports none of them",
    arguments: 0..<6)
  func listInVerification(after requests: Int) async throws {
    try await withRestorableStore { house in
      let store = OneWrongAnswer(house.store)
      let device = try house.device(through: store)
      for number in 0..<3 {
        try device.write("Documents/\(number)", [UInt8(number)])
        try await settle(device)
      }
      store.answerWrongly(.list, "/log/", after: requests)
      let report = try await device.sync.verify(VerifyOptions())
      #expect(report.isWell, "\(report.missing) \(report.damaged)")
      #expect(device.sync.condition.isNormal)
    }
  }

  @Test("`store verify` does not ask for the numbers that a recovery passed over")
  func verificationAfterARecovery() async throws {
    try await withRestorableStore { house in
      let (first, second, earlier) = try await house.pair()
      try first.write("Documents/lost", [2])
      try await settle(first, second)
      try await house.restore(earlier)
      await #expect(throws: SyncFailure.self) { try await first.sync.sync(timeout: .seconds(240)) }
      _ = try await first.sync.recoverStore()
      try await settle(first, second)
      let before = house.requests(of: second)
      let report = try await second.sync.verify(VerifyOptions())
      #expect(report.isWell, "\(report.missing.prefix(3)) \(report.damaged.prefix(3))")
      #expect(house.requests(of: second) - before < 100)
    }
  }

  @Test("an eviction asks for packs that one list does not show, and uploads nothing again")
  func listOfPacks() async throws {
    try await withRestorableStore { house in
      let store = OneWrongAnswer(house.store)
      let device = try house.device(through: store)
      try device.write("Documents/f", [1, 2, 3])
      try await settle(device)
      let before = try await house.copy()
      store.answerWrongly(.list, "/packs/")
      try await device.evict("Documents/f")
      #expect(store.hasAnsweredWrongly)
      #expect(try device.find("Documents/f")?.content == .remote)
      try await settle(device)
      #expect(try await house.copy() == before)
      #expect(try await device.read("Documents/f") == [1, 2, 3])
    }
  }

  @Test("a file whose pack gets one wrong 404 is readable afterwards")
  func pack() async throws {
    try await withRestorableStore { house in
      let store = OneWrongAnswer(house.store)
      let first = try house.device()
      let second = try house.device(through: store)
      try first.write("Documents/f", [1, 2, 3])
      try await settle(first, second)
      let before = try await house.copy()
      store.answerWrongly(.get, "/packs/")
      _ = try? await second.read("Documents/f")
      #expect(store.hasAnsweredWrongly)
      #expect(try await second.read("Documents/f") == [1, 2, 3])
      try await settle(first, second)
      #expect(try await house.copy() == before)
    }
  }

  @Test("a check that gets one wrong 404 for a pack reports it, and the next one finds it whole")
  func check() async throws {
    try await withRestorableStore { house in
      let store = OneWrongAnswer(house.store)
      let first = try house.device()
      let second = try house.device(through: store)
      try first.write("Documents/f", [1, 2, 3])
      try await settle(first, second)
      let before = try await house.copy()
      let whole = VerifyOptions(readsData: true)
      store.answerWrongly(.get, "/packs/")
      #expect(try await second.sync.verify(whole).missing.count == 1)
      #expect(store.hasAnsweredWrongly)
      #expect(try await second.sync.verify(whole).isWell)
      #expect(try await house.copy() == before)
      #expect(try await second.read("Documents/f") == [1, 2, 3])
    }
  }

  @Test(
    "a new device that gets one wrong 404 for a snapshot becomes complete all the same",
    arguments: [(StoreCall.Kind.list, 0), (StoreCall.Kind.get, 0), (StoreCall.Kind.get, 1)])
  func snapshot(_ kind: StoreCall.Kind, after requests: Int) async throws {
    try await withRestorableStore { house in
      let first = try house.device(settings: SyncSettings(compaction: .eager))
      for number in 0..<4 {
        try first.write("Documents/\(number)", [UInt8(number)])
        try await first.sync.sync(timeout: .seconds(240))
      }
      try await first.sync.compact()
      let before = try await house.copy()
      let store = OneWrongAnswer(house.store)
      let second = try house.device(through: store)
      store.answerWrongly(kind, "/snapshots/", after: requests)
      for _ in 0..<2 { try? await second.sync.sync(timeout: .seconds(240)) }
      #expect(store.hasAnsweredWrongly)
      try await settle(first, second)
      #expect(second.sync.condition.isNormal)
      #expect(try await house.copy() == before)
      for number in 0..<4 {
        #expect(try await second.read("Documents/\(number)") == [UInt8(number)])
      }
    }
  }
}

/// Answers one request as an empty store does, and all others rightly.
private final class OneWrongAnswer: PassingStore {
  private struct Target {
    let kind: StoreCall.Kind
    let place: String
    var requestsBefore: Int
  }

  let store: any ObjectStore
  private let empty: any ObjectStore = MemoryStore()
  private let target = Lock<Target?>(nil)

  init(_ store: any ObjectStore) { self.store = store }

  var hasAnsweredWrongly: Bool { target.withLock { $0 == nil } }

  /// The next request of a kind for something in `place` gets the wrong answer, or one of those
  /// after it.
  func answerWrongly(_ kind: StoreCall.Kind, _ place: String, after requests: Int = 0) {
    target.withLock { $0 = Target(kind: kind, place: place, requestsBefore: requests) }
  }

  private func isWrong(_ call: StoreCall) -> Bool {
    target.withLock { target in
      guard var next = target, next.kind == call.kind, call.key.contains(next.place) else {
        return false
      }
      next.requestsBefore -= 1
      let isDue = next.requestsBefore < 0
      target = isDue ? nil : next
      return isDue
    }
  }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    try await body(isWrong(call) ? empty : store)
  }
}
