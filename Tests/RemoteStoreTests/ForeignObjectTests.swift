import Backend
import BackendDirectory
import Glibc
import Model
import Platform
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
    let foreign = await fixture.account.foreignObjects()
    #expect(foreign.count > 100)
    #expect(foreign.examples.count == 3)
    #expect(foreign.isComplete)
    // Old log is removed although foreign names stand before it.
    #expect(try await container.removeLog(upTo: 3) == 3)
    #expect(await fixture.account.foreignObjects() == foreign)
  }

  @Test("a store without foreign files has none to report")
  func none() async throws {
    let fixture = try await Fixture()
    try await fixture.account.register(
      DeviceRecord(id: Fixture.device, name: "one", lastSeen: Timestamp(nanoseconds: 1)))
    try await fixture.account.setQuota(
      AccountQuota(limit: 1, time: Timestamp(nanoseconds: 1), device: Fixture.device))
    #expect(await fixture.account.foreignObjects() == ForeignObjects())
  }

  @Test("every directory of an own object may hold objects, and no directory below or beside it")
  func layout() async throws {
    let fixture = try await Fixture()
    try await fixture.account.register(
      DeviceRecord(id: Fixture.device, name: "one", lastSeen: Timestamp(nanoseconds: 1)))
    try await fixture.account.setQuota(
      AccountQuota(limit: 1, time: Timestamp(nanoseconds: 1), device: Fixture.device))
    let container = "containers/\(fixture.container.incarnation)/"
    let snapshot = container + "snapshots/00000000000000000002/"
    for key in [
      "deleted/\(fixture.container.incarnation)", container + "packs/\(PackID.random())",
      container + "devices/\(Fixture.device)", snapshot + "index",
      snapshot + "\(PackID.random())-0",
    ] { _ = try await fixture.store.putIfAbsent(key, []) }
    // All of these keys are own ones.
    #expect(await fixture.account.foreignObjects() == ForeignObjects())
    let directories = Set(
      try await fixture.keys().flatMap { key in
        key.indices.filter { key[$0] == "/" }.map { String(key[...$0]) }
      })
    #expect(directories.count == 11)
    for directory in directories {
      #expect(StoreKey.mayHoldObjects(directory), "\(directory)")
      #expect(!StoreKey.mayHoldObjects(directory + "zz/"), "\(directory)")
      #expect(!StoreKey.mayHoldObjects("zz/" + directory), "\(directory)")
      #expect(!StoreKey.mayHoldObjects(String(directory.dropLast())), "\(directory)")
    }
  }

  @Test("names that are no keys are found, those at the top first")
  func namesThatAreNoKeys() async throws {
    let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
    let path = "\(base)/ubiquityfs-test-\(getpid())-\(UInt64.random(in: 0...UInt64.max))"
    defer { try? Files.removeTree(path) }
    let account = try await RemoteAccount.open(
      store: DirectoryStore(path: path, createIfMissing: true),
      secret: AccountSecret(Fixture.secret), createIfMissing: true)
    _ = try await account.createContainer(
      Fixture.containerID(), device: Fixture.device, time: Timestamp(nanoseconds: 1))
    for name in ["lost+found", ".Trash-1000", "tmp/other"] {
      try Files.makeDirectory(path + "/" + name)
    }
    #expect(await account.foreignObjects() == ForeignObjects())
    for name in [
      "format.sync-conflict-1", "names/.hidden", "names/1 (conflicted copy).x", "names/~x.tmp",
    ] { try Files.replace(path + "/" + name, with: [1]) }
    for name in [".stfolder", "names/zz"] { try Files.makeDirectory(path + "/" + name) }
    try #require(symlink("nowhere", path + "/containers/link") == 0)
    let found = await account.foreignObjects()
    #expect(found.count == 7)
    #expect(found.examples == [".stfolder/", "format.sync-conflict-1", "names/.hidden"])
    #expect(found.isComplete)
  }

  @Test("containers are looked at last, and a directory that was not looked through is told")
  func fewPages() async throws {
    let fixture = try await Fixture()
    try await Self.litter(fixture)
    let found = await fixture.account.foreignObjects(mostPages: 5)
    #expect(found.count > 30)
    #expect(found.examples.allSatisfy { !$0.hasPrefix("containers/") })
    #expect(found.unfinished == ["containers/"])
    #expect(!found.isComplete && found.failure == nil)
  }

  @Test("a directory that cannot be listed does not hide foreign files in the others")
  func refusedDirectory() async throws {
    let fixture = try await Fixture()
    _ = try await fixture.store.putIfAbsent("names/0z", [])
    let account = try await RemoteAccount.open(
      store: ClosedDirectory(store: fixture.store), secret: AccountSecret(Fixture.secret),
      createIfMissing: false)
    let progress = Lock<[ForeignObjects]>([])
    let found = await account.foreignObjects { found in progress.withLock { $0.append(found) } }
    #expect(found.examples == ["names/0z"])
    #expect(found.unfinished == [ClosedDirectory.directory])
    #expect(found.failure == .store(ClosedDirectory.failure))
    #expect(progress.withLock { $0.last } == found)
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

/// Lists everything but one directory.
private struct ClosedDirectory: PassingStore {
  static let directory = "devices/"
  static let failure = StoreError.notPermitted("it is closed")

  let store: any ObjectStore

  func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    guard call.key != Self.directory else { throw Self.failure }
    return try await body(store)
  }
}
