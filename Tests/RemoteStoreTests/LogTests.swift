import Backend
import Model
import Platform
import RemoteStore
import Testing

@Suite struct LogTests {
  @Test func segmentsComeBackInOrder() async throws {
    let fixture = try await Fixture()
    var position = try await fixture.head()
    var written: [LogSegment] = []
    for index in UInt64(0)..<150 {
      let changes = try Fixture.changes("name \(index)", low: index)
      position = try #require(
        try await fixture.container.commit(changes, after: position, from: Fixture.origin))
      written.append(
        LogSegment(position: position, origin: Fixture.origin, changes: changes))
    }
    var read: [LogSegment] = []
    while true {
      let next = try await fixture.container.segments(after: read.last?.position ?? .start)
      if next.isEmpty { break }
      read += next
    }
    #expect(Array(read.dropFirst()) == written)
    _ = try await fixture.container.segments(after: position, readsHead: true)
    #expect(
      try await fixture.container.segments(after: written[140].position) == Array(written[141...]))
  }

  @Test("a batch says whether the log had more")
  func batchesKnowTheEnd() async throws {
    let fixture = try await Fixture()
    var positions = [try await fixture.head()]
    for index in UInt64(0)..<70 {
      let changes = try Fixture.changes("name \(index)", low: index)
      positions.append(
        try #require(
          try await fixture.container.commit(
            changes, after: positions[positions.count - 1], from: Fixture.origin)))
    }
    let (container, head) = (fixture.container, positions[70])
    #expect(try await container.batch(after: positions[0]).isLast == false)
    #expect(try await container.batch(after: positions[60]).isLast)
    #expect(try await container.batch(after: head).isLast)
    let key = try #require(
      try await fixture.store.list(prefix: "", after: nil, limit: .max).last {
        $0.contains("/log/")
      })
    try await fixture.store.replace(key, [1, 2, 3])
    let rest = try await container.batch(after: positions[60])
    #expect(rest.segments.count == 9 && !rest.isLast)
  }

  @Test("of segments that are read side by side only a little of each long one is")
  func longSegments() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let header = try await fixture.store.get(fixture.segmentKey(1)).prefix(8)
    let long = header + [UInt8](repeating: 0, count: 20 << 20)
    for sequence in 2...9 {
      try await fixture.store.replace(fixture.segmentKey(sequence), Array(long))
    }
    let noting = NotingStore(fixture.store)
    let container = fixture.account.by(noting).container(
      fixture.container.id, incarnation: fixture.container.incarnation)
    await #expect(throws: RemoteError.self) { try await container.segments(after: head) }
    let sizes = noting.received.sorted()
    #expect(sizes.filter { $0 > 5 << 20 }.count == 1)
    #expect(sizes.reduce(0, +) < (8 * 5 + 21) << 20)
  }

  @Test func oneOfTwoCommitsWins() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let results = try await withThrowingTaskGroup(of: LogPosition?.self) { group in
      for index in UInt64(0)..<8 {
        group.addTask {
          try await fixture.container.commit(
            Fixture.changes("c\(index)", low: index), after: head, from: Fixture.origin)
        }
      }
      return try await group.reduce(into: [LogPosition]()) { if let won = $1 { $0.append(won) } }
    }
    #expect(results.count == 1)
    #expect(try await fixture.head() == results[0])
  }

  @Test("changes that a reader would refuse are not put into the log")
  func malformedChanges() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    var changes = try Fixture.changes("a")
    let version = ContentVersion(
      id: .random(), parent: nil, device: Fixture.origin.device,
      modified: Timestamp(nanoseconds: 1), size: 0, manifest: .empty)
    changes.upserts[0].conflicts = [version, version]
    let reason = "item \(changes.upserts[0].id): it has a version twice"
    await #expect(throws: RemoteError.malformed(reason)) {
      try await fixture.container.commit(changes, after: head, from: Fixture.origin)
    }
    #expect(try await fixture.head() == head)
  }

  @Test func aLostAnswerIsFoundOut() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let account = try await RemoteAccount.open(
      store: AnswerLosingStore(fixture.store), secret: AccountSecret(Fixture.secret),
      createIfMissing: false)
    let container = account.container(
      fixture.container.id, incarnation: fixture.container.incarnation)
    let position = try #require(
      try await container.commit(Fixture.changes("x"), after: head, from: Fixture.origin))
    #expect(try await fixture.head() == position)
    // And the same when it was another device's segment that is there.
    #expect(
      try await container.commit(Fixture.changes("y"), after: head, from: Fixture.origin) == nil)
    // A layer below that repeats the put on its own is told that the object is there already.
    let repeating = try await RemoteAccount.open(
      store: RetryingStore(AnswerLosingStore(fixture.store), sleep: { _ in }),
      secret: AccountSecret(Fixture.secret), createIfMissing: false)
    #expect(
      try await repeating.container(
        fixture.container.id, incarnation: fixture.container.incarnation
      ).commit(Fixture.changes("z"), after: position, from: Fixture.origin) != nil)
  }

  @Test func everyChangedByteIsFound() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    _ = try await fixture.container.commit(
      Fixture.changes("x"), after: head, from: Fixture.origin)
    let key = fixture.segmentKey(2)
    let good = try await fixture.store.get(key)
    for index in good.indices {
      for bit in [UInt8(1), 0x80] {
        var bad = good
        bad[index] ^= bit
        await fixture.store.set(key, bad)
        await expectRefusal(fixture, after: head, naming: key)
      }
    }
    for count in 0..<good.count {
      await fixture.store.set(key, Array(good.prefix(count)))
      await expectRefusal(fixture, after: head, naming: key)
    }
    await fixture.store.set(key, good + [0])
    await expectRefusal(fixture, after: head, naming: key)
    // What stands before the damage is still given.
    #expect(try await fixture.container.segments(after: .start).count == 1)
    await fixture.store.set(key, good)
    #expect(try await fixture.container.segments(after: head).count == 1)
  }

  @Test func segmentsCannotBeSwappedOmittedReplayedOrSpliced() async throws {
    let fixture = try await Fixture()
    var position = try await fixture.head()
    let head = position
    for index in UInt64(0)..<4 {
      position = try #require(
        try await fixture.container.commit(
          Fixture.changes("n\(index)", low: index), after: position, from: Fixture.origin))
    }
    let good = try await (2...5).asyncMap { try await fixture.store.get(fixture.segmentKey($0)) }
    func restore() async {
      for (index, bytes) in good.enumerated() {
        await fixture.store.set(fixture.segmentKey(index + 2), bytes)
      }
    }
    // Swapped.
    await fixture.store.set(fixture.segmentKey(2), good[1])
    await expectRefusal(fixture, after: head, naming: fixture.segmentKey(2))
    await restore()
    // Left out.
    try await fixture.store.delete(fixture.segmentKey(2))
    await expectRefusal(fixture, after: head, naming: fixture.segmentKey(3))
    await restore()
    // Replayed as a later one.
    await fixture.store.set(fixture.segmentKey(6), good[3])
    await expectRefusal(fixture, after: position, naming: fixture.segmentKey(6))
    try await fixture.store.delete(fixture.segmentKey(6))
    // From another container of the account, at the same place.
    let other = try await fixture.account.createContainer(
      Fixture.containerID("iCloud.other"), device: Fixture.device,
      time: Timestamp(nanoseconds: 0))
    let start = try #require(try await other.segments(after: .start).last).position
    _ = try await other.commit(Fixture.changes("q"), after: start, from: Fixture.origin)
    let foreign = try await fixture.store.get(
      fixture.segmentKey(2).replacing(
        fixture.container.incarnation.description, with: other.incarnation.description))
    await fixture.store.set(fixture.segmentKey(2), foreign)
    await expectRefusal(fixture, after: head, naming: fixture.segmentKey(2))
    await restore()
    // A name that is no number is another program's, and is passed over.
    await fixture.store.set("containers/\(fixture.container.incarnation)/log/zzz", [1])
    #expect(try await fixture.container.segments(after: position) == [])
  }

  @Test func aBackendThatWasSetBackIsNoticed() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let old = try #require(
      try await fixture.container.commit(
        Fixture.changes("old"), after: head, from: Fixture.origin))
    try await fixture.store.delete(fixture.segmentKey(2))
    await #expect(throws: RemoteError.self) {
      try await fixture.container.segments(after: old, readsHead: true)
    }
    let new = try #require(
      try await fixture.container.commit(
        Fixture.changes("new"), after: head, from: Fixture.origin))
    _ = try await fixture.container.commit(
      Fixture.changes("next", low: 5), after: new, from: Fixture.origin)
    await #expect(throws: RemoteError.rolledBack(object: fixture.segmentKey(3))) {
      try await fixture.container.segments(after: old)
    }
    await #expect(throws: RemoteError.rolledBack(object: fixture.segmentKey(2))) {
      _ = try await fixture.container.segments(after: old, readsHead: true)
    }
  }

  @Test("a gap that is wider than a look is noticed by a look that reads the head")
  func wideGap() async throws {
    let fixture = try await Fixture()
    var position = try await fixture.head()
    for low in 0..<30 {
      position = try #require(
        try await fixture.container.commit(
          Fixture.changes("d\(low)", low: UInt64(100 + low)), after: position,
          from: Fixture.origin))
    }
    for sequence in 2...29 { try await fixture.store.delete(fixture.segmentKey(sequence)) }
    await #expect(throws: RemoteError.rolledBack(object: fixture.segmentKey(29))) {
      _ = try await fixture.container.segments(after: position, readsHead: true, looksBack: 8)
    }
    // Nothing is missing within the look.
    #expect(
      try await fixture.container.segments(after: position, readsHead: true, looksBack: 0) == [])
  }

  @Test("all segments between two numbers are required, whatever the list says")
  func requiredLog() async throws {
    let fixture = try await Fixture()
    var position = try await fixture.head()
    for low in 0..<8 {
      position = try #require(
        try await fixture.container.commit(
          Fixture.changes("d\(low)", low: UInt64(100 + low)), after: position,
          from: Fixture.origin))
    }
    let head = position.sequence
    try await fixture.container.requireLog(after: 0, upTo: position)
    for sequence in [3, 5] { try await fixture.store.delete(fixture.segmentKey(sequence)) }
    try await fixture.container.requireLog(after: 5, upTo: position)
    try await fixture.container.requireLog(after: head, upTo: position)
    for (start, missing) in [(4, 5), (3, 5), (2, 3), (0, 3)] as [(UInt64, Int)] {
      await #expect(throws: RemoteError.rolledBack(object: fixture.segmentKey(missing))) {
        try await fixture.container.requireLog(after: start, upTo: position)
      }
    }
    try await fixture.store.delete(fixture.segmentKey(Int(head)))
    await #expect(throws: RemoteError.rolledBack(object: fixture.segmentKey(Int(head)))) {
      try await fixture.container.requireLog(after: head, upTo: position)
    }
  }

  @Test func aNewerFormatIsNamed() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    _ = try await fixture.container.commit(
      Fixture.changes("x"), after: head, from: Fixture.origin)
    let key = fixture.segmentKey(2)
    var bytes = try await fixture.store.get(key)
    bytes[7] = 9
    await fixture.store.set(key, bytes)
    await #expect(throws: RemoteError.newerFormat(object: key, version: 9)) {
      try await fixture.container.segments(after: head)
    }
  }

  @Test func aLargeChangeIsOneSegment() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let changes = LogChanges(
      upserts: try (0..<20_000).map { try Fixture.directory("item number \($0)", low: $0) })
    let position = try #require(
      try await fixture.container.commit(changes, after: head, from: Fixture.origin))
    #expect(position.sequence == head.sequence + 1)
    #expect(try await fixture.container.segments(after: head).first?.changes == changes)
  }

  @Test func newsOfTheLogAreTold() async throws {
    let fixture = try await Fixture()
    var news = fixture.container.news().makeAsyncIterator()
    _ = try await fixture.container.commit(
      Fixture.changes("x"), after: fixture.head(), from: Fixture.origin)
    #expect(await news.next() != nil)
  }

  private func expectRefusal(_ fixture: Fixture, after position: LogPosition, naming: String) async
  {
    do {
      let segments = try await fixture.container.segments(after: position)
      Issue.record("\(segments.count) segments were taken")
    } catch {
      #expect("\(error)".contains(naming), "\(error)")
    }
  }
}

/// Does what it is asked, and then says that it may not have.
private final class AnswerLosingStore: ObjectStore {
  private let store: MemoryStore

  init(_ store: MemoryStore) { self.store = store }

  var description: String { "losing" }

  func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try await store.get(key, range: range)
  }

  func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    if try await store.putIfAbsent(key, bytes) { throw .unavailable("the answer was lost") }
    return false
  }

  func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try await store.replace(key, bytes)
    throw .unavailable("the answer was lost")
  }

  func list(prefix: String, after: String?, limit: Int) async throws(StoreError) -> [String] {
    try await store.list(prefix: prefix, after: after, limit: limit)
  }

  func delete(_ key: String) async throws(StoreError) { try await store.delete(key) }

  func news(prefix: String) -> AsyncStream<Void> { store.news(prefix: prefix) }
}

extension Sequence {
  fileprivate func asyncMap<Answer>(_ body: (Element) async throws -> Answer) async rethrows
    -> [Answer]
  {
    var result: [Answer] = []
    for element in self { result.append(try await body(element)) }
    return result
  }
}

/// Notes how many bytes its objects gave.
private final class NotingStore: PassingStore {
  let store: any ObjectStore
  private let sizes = Lock<[Int]>([])
  var received: [Int] { sizes.withLock { $0 } }

  init(_ store: any ObjectStore) { self.store = store }

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    let answer = try await body(store)
    if call.kind == .get { sizes.withLock { $0.append(received(answer)) } }
    return answer
  }
}
