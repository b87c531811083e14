import Backend
import Model
import Platform
import RemoteStore
import Testing

/// The store tells a deleted container from one that it only does not show.
@Suite struct DeletionTests {
  private static let deletion = ContainerDeletion(
    device: DeviceID(high: 7, low: 7), time: Timestamp(nanoseconds: 99))

  @Test("a container without objects is missing, and not deleted")
  func absence() async throws {
    let fixture = try await Fixture()
    let container = fixture.container
    #expect(try await container.presence() == .there)
    let keys = try await fixture.keys()
    for prefix in ["containers/", "names/"] {
      for key in keys where key.hasPrefix(prefix) { try await fixture.store.delete(key) }
    }
    guard case .missing = try await container.presence() else {
      Issue.record("absence is taken for deletion")
      return
    }
    // Nor is a new one of its name a proof.
    _ = try await fixture.account.createContainer(
      container.id, device: Fixture.device, time: Timestamp(nanoseconds: 8))
    guard case .missing = try await container.presence() else {
      Issue.record("another container of the name is taken for deletion")
      return
    }
  }

  @Test("a segment that is put while the container is deleted does not keep its log going")
  func racingCommits() async throws {
    let fixture = try await Fixture()
    let (account, container) = (fixture.account, fixture.container)
    var position = try await fixture.head()
    let (first, name) = (position, container.id)
    try await withThrowingTaskGroup(of: LogPosition?.self) { group in
      group.addTask {
        var position = first
        for index in UInt64(0)..<200 {
          let changes = try Fixture.changes("n\(index)", low: index)
          let next = try? await container.commit(
            changes, after: position, from: Fixture.origin)
          guard let next = next ?? nil else { break }
          position = next
          await Task.yield()
        }
        return position
      }
      group.addTask {
        try await account.deleteContainer(name, by: Self.deletion)
        return nil
      }
      for try await result in group { if let result { position = result } }
    }
    // Whatever the device had put, it hears of the deletion, and cannot go on.
    let head = position
    #expect(try await container.presence() == .deleted(Self.deletion))
    await #expect(throws: RemoteError.self) { try await container.segments(after: head) }
    let next = try? await container.commit(
      Fixture.changes("late", low: 1000), after: head, from: Fixture.origin)
    #expect(next == nil)
  }

  @Test("a device that stood further back finds the deletion by its record")
  func fartherBack() async throws {
    let fixture = try await Fixture()
    let before = try await fixture.head()
    var position = before
    for index in UInt64(0)..<5 {
      position = try #require(
        try await fixture.container.commit(
          Fixture.changes("n\(index)", low: index), after: position, from: Fixture.origin))
    }
    try await fixture.account.deleteContainer(fixture.container.id, by: Self.deletion)
    await #expect(throws: RemoteError.deleted(Self.deletion)) {
      try await fixture.container.segments(after: position)
    }
    await #expect(throws: RemoteError.self) {
      try await fixture.container.segments(after: before)
    }
    #expect(try await fixture.container.presence() == .deleted(Self.deletion))
  }

  /// As a device that is stopped in the midst of it leaves things.
  @Test("an interrupted deletion is one, and is completed by the next", arguments: 0..<12)
  func interrupted(after calls: Int) async throws {
    let fixture = try await Fixture()
    var position = try await fixture.head()
    for index in UInt64(0)..<3 {
      position = try #require(
        try await fixture.container.commit(
          Fixture.changes("n\(index)", low: index), after: position, from: Fixture.origin))
    }
    let failing = FailingStore(fixture.store, writes: calls)
    let account = try await RemoteAccount.open(
      store: failing, secret: AccountSecret(Fixture.secret), createIfMissing: false)
    try? await account.deleteContainer(fixture.container.id, by: Self.deletion)
    let presence = try await fixture.container.presence()
    guard presence == .deleted(Self.deletion) else {
      // Nothing was done, then.
      #expect(calls == 0)
      #expect(presence == .there)
      #expect(try await fixture.account.containers() == [fixture.container.id])
      return
    }
    #expect(try await fixture.account.containers() == [])
    #expect(try await fixture.account.container(fixture.container.id) == nil)
    let made = try await fixture.account.createContainer(
      fixture.container.id, device: Fixture.device, time: Timestamp(nanoseconds: 5))
    #expect(made.incarnation != fixture.container.incarnation)
    #expect(try await fixture.account.containers() == [fixture.container.id])
    #expect(try await fixture.container.presence() == .deleted(Self.deletion))
    #expect(try await made.presence() == .there)
    // A device that knows the former one removes what is left of it with the next deletion.
    try await fixture.account.deleteContainer(
      fixture.container.id, known: fixture.container.incarnation, by: Self.deletion)
    #expect(
      try await fixture.keys("containers/\(fixture.container.incarnation)/").count == 1)
  }

  @Test("a record of a deletion opens nowhere else")
  func forgedRecord() async throws {
    let fixture = try await Fixture()
    let other = try await fixture.account.createContainer(
      try Fixture.containerID("iCloud.com.example.other"), device: Fixture.device,
      time: Timestamp(nanoseconds: 1))
    try await fixture.account.deleteContainer(other.id, by: Self.deletion)
    let record = try await fixture.store.get("deleted/\(other.incarnation)")
    try await fixture.store.replace("deleted/\(fixture.container.incarnation)", record)
    await #expect(throws: RemoteError.self) { try await fixture.container.presence() }
    let head = try await fixture.head()
    try await fixture.store.replace(fixture.segmentKey(2), record)
    await #expect(throws: RemoteError.self) {
      try await fixture.container.segments(after: head)
    }
  }
}

/// Writes fail after so many.
final class FailingStore: PassingStore {
  let store: any ObjectStore
  private let left: Lock<Int>

  init(_ store: any ObjectStore, writes: Int) {
    self.store = store
    left = Lock(writes)
  }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    if call.kind == .put || call.kind == .delete {
      let mayGo = left.withLock { left in
        left -= 1
        return left >= 0
      }
      guard mayGo else { throw .noSpace("it is full") }
    }
    return try await body(store)
  }
}
