import Backend
import Model
import RemoteStore
import Testing

/// Files of other programs in a store, such as the conflict copies of a file synchroniser.
@Suite struct ForeignObjectTests {
  private static let junk = [
    "0z", "~x", "a.tmp", "desktop.ini",
    "00000000000000000003.sync-conflict-20260101-000000-ABCDEFG",
    "00000000000000000001.tmp", "99999999999999999999x", "00000000000000000000",
    "FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "index", "0/1", "tmp",
  ].filter { $0 != "~x" }

  private static func litter(_ fixture: Fixture) async throws {
    let container = "containers/\(fixture.container.incarnation)/"
    let directories = [
      "names/", "devices/", "account/", "deleted/", "containers/", container, container + "log/",
      container + "packs/", container + "snapshots/", container + "devices/",
      container + "snapshots/00000000000000000002/",
    ]
    for directory in directories {
      for name in junk {
        // The first component `tmp` is the store's own, and one name is a snapshot's index.
        guard !directory.hasSuffix("2/") || name != "index" else { continue }
        _ = try await fixture.store.putIfAbsent(directory + name, [1, 2, 3])
      }
    }
  }

  @Test("an account with foreign files in every directory stays readable and writable")
  func everyPlace() async throws {
    let fixture = try await Fixture()
    let container = fixture.container
    try await fixture.account.register(
      DeviceRecord(id: Fixture.device, name: "one", lastSeen: Timestamp(nanoseconds: 1)))
    try await Self.litter(fixture)
    #expect(try await fixture.account.containers() == [container.id])
    #expect(try await fixture.account.devices().map(\.name) == ["one"])
    #expect(try await fixture.account.container(container.id)?.incarnation == container.incarnation)
    var position = try await fixture.head()
    #expect(position.sequence == 1)
    for index in UInt64(0)..<5 {
      position = try #require(
        try await container.commit(
          Fixture.changes("n\(index)", low: index), after: position, from: Fixture.origin))
    }
    #expect(try await fixture.head() == position)
    #expect(try await container.snapshots(beyond: 0) == [])
    #expect(try await container.packs() == [])
    #expect(try await container.cursors() == [])
    let foreign = try await fixture.account.foreignObjects()
    #expect(foreign.count > 100)
    #expect(foreign.examples.count == 3)
    #expect(foreign.isComplete)
    // Old log is removed although foreign names stand before it.
    #expect(try await container.removeLog(upTo: 3) == 3)
    #expect(try await fixture.account.foreignObjects() == foreign)
  }

  @Test("a store without foreign files has none to report")
  func none() async throws {
    let fixture = try await Fixture()
    try await fixture.account.register(
      DeviceRecord(id: Fixture.device, name: "one", lastSeen: Timestamp(nanoseconds: 1)))
    try await fixture.account.setQuota(
      AccountQuota(limit: 1, time: Timestamp(nanoseconds: 1), device: Fixture.device))
    #expect(try await fixture.account.foreignObjects() == ForeignObjects())
  }

  @Test("a page full of foreign names neither ends the log nor hides a segment")
  func fullPages() async throws {
    let fixture = try await Fixture()
    let log = fixture.segmentKey(1).dropLast(20)
    for index in 0..<2500 {
      _ = try await fixture.store.putIfAbsent("\(log)00000000000000000001.conflict-\(index)", [])
    }
    let head = try await fixture.head()
    let next = try #require(
      try await fixture.container.commit(
        Fixture.changes("x"), after: head, from: Fixture.origin))
    #expect(try await fixture.container.segments(after: head).map(\.position) == [next])
    #expect(try await fixture.container.segments(after: next) == [])
    let before = fixture.meter.traffic.lists
    #expect(try await fixture.container.segments(after: next) == [])
    // One for each thousand of them.
    #expect(fixture.meter.traffic.lists <= before + 4)
  }

  @Test("foreign names behind the log cost no further request")
  func namesBehindTheLog() async throws {
    let fixture = try await Fixture()
    let log = fixture.segmentKey(1).dropLast(20)
    for index in 0..<2500 { _ = try await fixture.store.putIfAbsent("\(log)z\(index)", []) }
    let head = try await fixture.head()
    let before = fixture.meter.traffic.lists
    #expect(try await fixture.container.segments(after: head) == [])
    #expect(fixture.meter.traffic.lists == before + 1)
  }
}
