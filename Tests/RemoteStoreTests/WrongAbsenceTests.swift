import Backend
import Model
import Platform
import RemoteStore
import Testing

/// One request that is answered as if nothing were there, though all is.
@Suite struct WrongAbsenceTests {
  private func contents(_ fixture: Fixture) async throws -> [String: [UInt8]] {
    var result: [String: [UInt8]] = [:]
    for key in try await fixture.keys() { result[key] = try await fixture.store.get(key) }
    return result
  }

  /// Adds segments to the log. Gives the position after the last one.
  private func extendLog(_ fixture: Fixture) async throws -> LogPosition {
    var position = try await fixture.head()
    for index in UInt64(0)..<3 {
      position = try #require(
        try await fixture.container.commit(
          Fixture.changes("n\(index)", low: index), after: position, from: Fixture.origin))
    }
    return position
  }

  @Test(
    "an account and a container that exist are not made again after one wrong 404",
    arguments: ["format", "names/", "/log/"], 0..<2)
  func nothingIsMadeAgain(place: String, requests: Int) async throws {
    let fixture = try await Fixture()
    _ = try await extendLog(fixture)
    // The place of the first segment is free, as it is after a compaction.
    #expect(try await fixture.container.removeLog(upTo: 2) == 2)
    let before = try await contents(fixture)
    let store = OneWrongAnswer(fixture.store, in: place, after: requests)
    for _ in 0..<2 {
      let account = try await RemoteAccount.open(
        store: store, secret: AccountSecret(Fixture.secret), createIfMissing: true)
      #expect(account.identity == fixture.account.identity)
      // It may fail, but makes no other one.
      let container = try? await account.createContainer(
        fixture.container.id, device: DeviceID(high: 5, low: 5), time: Timestamp(nanoseconds: 9))
      if let container { #expect(container.incarnation == fixture.container.incarnation) }
      #expect(try await contents(fixture) == before)
    }
    #expect(store.hasAnsweredWrongly)
    #expect(try await fixture.account.containers() == [fixture.container.id])
  }

  @Test("one wrong 404 of the name of a container is no deletion")
  func name() async throws {
    let fixture = try await Fixture()
    let container = try container(
      of: fixture, by: OneWrongAnswer(fixture.store, in: "names/", after: 0))
    guard case .missing = try await container.presence() else {
      Issue.record("the wrong answer was not given")
      return
    }
    #expect(try await container.presence() == .there)
  }

  @Test("one wrong 404 of the head of the log is no rollback and loses no segment")
  func head() async throws {
    let fixture = try await Fixture()
    let position = try await extendLog(fixture)
    // The list and the head are read at the same time: either gets the wrong answer.
    for _ in 0..<20 {
      let store = OneWrongAnswer(fixture.store, in: "/log/", after: 0)
      let container = try container(of: fixture, by: store)
      do throws(RemoteError) {
        let found = try await container.segments(after: position, readsHead: true)
        #expect(found == [])
      } catch {
        #expect(error.isTransient, "\(error)")
      }
      #expect(store.hasAnsweredWrongly)
      #expect(try await container.segments(after: position, readsHead: true) == [])
    }
    // A put reads the segment before it.
    let store = OneWrongAnswer(fixture.store, in: "/log/", after: 0)
    let committed = try await container(of: fixture, by: store).commit(
      Fixture.changes("last", low: 9), after: position, from: Fixture.origin)
    #expect(store.hasAnsweredWrongly)
    #expect(committed != nil)
    #expect(try await fixture.head() == committed)
  }

  @Test("a head that was read before the store went back does not hide the rollback")
  func headBeforeTheRollback() async throws {
    let fixture = try await Fixture()
    let position = try await extendLog(fixture)
    let store = SetBackAfterGet(fixture.store, of: fixture.segmentKey(Int(position.sequence)))
    let container = try container(of: fixture, by: store)
    do throws(RemoteError) {
      _ = try await container.segments(after: position, readsHead: true)
      Issue.record("the rollback was not seen")
    } catch {
      if case .rolledBack = error {} else { Issue.record("\(error)") }
    }
    #expect(store.hasGoneBack)
  }

  private func container(of fixture: Fixture, by store: any ObjectStore) throws -> RemoteContainer {
    try RemoteAccount(
      store: store, secret: AccountSecret(Fixture.secret), format: fixture.account.format
    ).container(fixture.container.id, incarnation: fixture.container.incarnation)
  }
}

/// Answers one read or list as an empty store does, and all others rightly.
private final class OneWrongAnswer: PassingStore {
  let store: any ObjectStore
  private let empty: any ObjectStore = MemoryStore()
  private let place: String
  private let requestsBefore: Lock<Int>

  /// The wrong answer is for something in `place`, after so many right ones.
  init(_ store: any ObjectStore, in place: String, after requests: Int) {
    self.store = store
    self.place = place
    requestsBefore = Lock(requests)
  }

  var hasAnsweredWrongly: Bool { requestsBefore.withLock { $0 < 0 } }

  private func isWrong(_ call: StoreCall) -> Bool {
    guard call.kind == .get || call.kind == .list, call.key.contains(place) else { return false }
    return requestsBefore.withLock { left in
      left -= 1
      return left == -1
    }
  }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    try await body(isWrong(call) ? empty : store)
  }
}

/// Gives an object once and loses it then. No list is answered before that.
private final class SetBackAfterGet: PassingStore {
  let store: any ObjectStore
  private let key: String
  private let gone = Lock(false)
  private let isLost = AsyncStream.makeStream(of: Never.self)

  init(_ store: any ObjectStore, of key: String) {
    self.store = store
    self.key = key
  }

  var hasGoneBack: Bool { gone.withLock { $0 } }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    if call.kind == .list, call.key.contains("/log/") { for await _ in isLost.stream {} }
    let answer = try await body(store)
    if call.kind == .get, call.key == key {
      try await store.delete(key)
      gone.withLock { $0 = true }
      isLost.continuation.finish()
    }
    return answer
  }
}
