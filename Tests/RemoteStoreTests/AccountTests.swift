import Backend
import Model
import RemoteStore
import Testing

@Suite struct AccountTests {
  @Test func secretsAreReadAsTheyAreShown() throws {
    let secret = AccountSecret.generate()
    #expect(secret.text.hasPrefix("ubq1-"))
    #expect(secret.text.count == 5 + 40 + 7)
    #expect(try AccountSecret("  \(secret.text.uppercased())\n") == secret)
    #expect(
      try AccountSecret(secret.text.replacing("-", with: "").replacing("ubq1", with: "ubq1-"))
        == secret)
    #expect(AccountSecret.generate() != secret)
    #expect(try AccountSecret(" pass phrase \n").text == "pass phrase")
    #expect(throws: RemoteError.self) { try AccountSecret(" \n") }
    let digits = Array(secret.text)
    for index in 5..<digits.count where digits[index] != "-" {
      var typo = digits
      typo[index] = digits[index] == "a" ? "b" : "a"
      #expect(throws: RemoteError.self) { try AccountSecret(String(typo)) }
    }
    #expect(throws: RemoteError.self) { try AccountSecret("ubq1-abc") }
    #expect(throws: RemoteError.self) { try AccountSecret(String(secret.text.dropLast())) }
  }

  @Test func anAccountOpensWithItsSecretOnly() async throws {
    let store = MemoryStore()
    let secret = try AccountSecret("one")
    #expect(try await !RemoteAccount.exists(store: store))
    await #expect(throws: RemoteError.noAccount("memory")) {
      try await RemoteAccount.open(store: store, secret: secret, createIfMissing: false)
    }
    let account = try await RemoteAccount.open(store: store, secret: secret, createIfMissing: true)
    #expect(try await RemoteAccount.exists(store: store))
    for create in [true, false] {
      _ = try await RemoteAccount.open(store: store, secret: secret, createIfMissing: create)
      await #expect(throws: RemoteError.wrongSecret) {
        try await RemoteAccount.open(
          store: store, secret: AccountSecret("two"), createIfMissing: create)
      }
    }
    _ = try RemoteAccount(store: store, secret: secret, format: account.format)
  }

  @Test(
    "no account is made in a store that lost `format` and has other objects of an account",
    arguments: ["names/", "devices/", "containers/", "account/", "deleted/"])
  func noSecondAccount(_ prefix: String) async throws {
    let fixture = try await Fixture()
    try await fixture.account.register(
      DeviceRecord(id: Fixture.device, name: "one", lastSeen: Timestamp(nanoseconds: 1)))
    try await fixture.account.setQuota(
      AccountQuota(limit: 1, time: Timestamp(nanoseconds: 1), device: Fixture.device))
    let other = try await fixture.account.createContainer(
      Fixture.containerID("iCloud.com.example.other"), device: Fixture.device,
      time: Timestamp(nanoseconds: 1))
    try await fixture.account.deleteContainer(
      other.id,
      by: ContainerDeletion(device: Fixture.device, time: Timestamp(nanoseconds: 2)))
    for key in try await fixture.keys() where !key.hasPrefix(prefix) {
      try await fixture.store.delete(key)
    }
    let left = try await fixture.keys()
    let first = try #require(left.first)
    for create in [true, false] {
      await #expect(throws: RemoteError.formatMissing("memory", object: first)) {
        try await RemoteAccount.open(
          store: fixture.store, secret: AccountSecret(Fixture.secret), createIfMissing: create)
      }
    }
    await #expect(throws: RemoteError.formatMissing("memory", object: first)) {
      try await RemoteAccount.exists(store: fixture.store)
    }
    #expect(try await fixture.keys() == left)
  }

  @Test("files of other programs do not keep an account from being made")
  func anAccountIsMadeAmongForeignFiles() async throws {
    let store = MemoryStore()
    for index in 0..<1500 { await store.set("containers/x/log/\(index).tmp", [1]) }
    for name in ["names/desktop.ini", "devices/a.tmp", "account/index", "deleted/0z"] {
      await store.set(name, [1])
    }
    #expect(try await !RemoteAccount.exists(store: store))
    _ = try await RemoteAccount.open(
      store: store, secret: AccountSecret(Fixture.secret), createIfMissing: true)
    #expect(try await RemoteAccount.exists(store: store))
  }

  @Test("a recovery puts a missing `format` again, and leaves the one of another account")
  func theFormatIsRestored() async throws {
    let fixture = try await Fixture()
    let (account, store) = (fixture.account, fixture.store)
    #expect(try await account.restoreFormat() == .present)
    for key in try await fixture.keys() { try await store.delete(key) }
    #expect(try await account.restoreFormat() == .restored)
    #expect(try await store.get("format") == account.format)
    #expect(try await fixture.keys() == ["format"])
    #expect(try await account.restoreFormat() == .present)
    let opened = try await RemoteAccount.open(
      store: store, secret: AccountSecret(Fixture.secret), createIfMissing: false)
    #expect(opened.identity == account.identity)

    // An account of the same secret is another one all the same.
    let other = try await Fixture().account.format
    await store.set("format", other)
    #expect(try await account.restoreFormat() == .ofAnotherAccount)
    #expect(try await store.get("format") == other)
    await store.set("format", [1, 2, 3])
    await #expect(throws: RemoteError.self) { try await account.restoreFormat() }
    #expect(try await store.get("format") == [1, 2, 3])
  }

  @Test func everyByteOfTheFormatObjectCounts() async throws {
    let fixture = try await Fixture()
    let good = fixture.account.format
    for index in good.indices where index < 24 || index.isMultiple(of: 7) {
      var bad = good
      bad[index] ^= 1
      await fixture.store.set("format", bad)
      await #expect(throws: RemoteError.self, "byte \(index)") {
        try await RemoteAccount.open(
          store: fixture.store, secret: AccountSecret(Fixture.secret), createIfMissing: true)
      }
    }
    var newer = good
    newer[7] = 3
    await fixture.store.set("format", newer)
    await #expect(throws: RemoteError.newerFormat(object: "format", version: 3)) {
      try await RemoteAccount.open(
        store: fixture.store, secret: AccountSecret(Fixture.secret), createIfMissing: true)
    }
  }

  @Test func containersAreMadeListedAndDeleted() async throws {
    let fixture = try await Fixture()
    let notes = try Fixture.containerID()
    let tasks = try Fixture.containerID("TEAMID.com.example.tasks")
    #expect(try await fixture.account.containers() == [notes])
    #expect(try await fixture.account.container(tasks) == nil)
    let made = try await fixture.account.createContainer(
      tasks, device: Fixture.device, time: Timestamp(nanoseconds: 1))
    let again = try await fixture.account.createContainer(
      tasks, device: DeviceID(high: 5, low: 5), time: Timestamp(nanoseconds: 2))
    #expect(made.incarnation == again.incarnation)
    #expect(try await fixture.account.containers() == [tasks, notes])
    #expect(try await made.exists())

    let first = try #require(try await made.segments(after: .start).first)
    #expect(first.origin == LogOrigin(device: Fixture.device, time: Timestamp(nanoseconds: 1)))
    #expect(first.changes.upserts.map(\.id) == [.root, .documents])
    #expect(first.changes.upserts[1].links == [Link(parent: .root, name: .documents)])

    let deletion = ContainerDeletion(
      device: Fixture.device, time: Timestamp(nanoseconds: 4))
    try await fixture.account.deleteContainer(tasks, by: deletion)
    try await fixture.account.deleteContainer(tasks, by: deletion)
    #expect(try await fixture.account.containers() == [notes])
    #expect(try await fixture.account.container(tasks) == nil)
    #expect(try await !made.exists())
    // The record that ends the log stays, so that no device can go on with it.
    #expect(try await fixture.keys("containers/\(made.incarnation)/").count == 1)
    await #expect(throws: RemoteError.deleted(deletion)) {
      try await made.segments(after: first.position)
    }
    #expect(try await made.presence() == .deleted(deletion))
    await #expect(throws: RemoteError.self) {
      try await made.segments(after: first.position, readsHead: true)
    }
    let reborn = try await fixture.account.createContainer(
      tasks, device: Fixture.device, time: Timestamp(nanoseconds: 3))
    #expect(reborn.incarnation != made.incarnation)
  }

  @Test func aHalfMadeContainerIsCompleted() async throws {
    let fixture = try await Fixture()
    try await fixture.store.delete(fixture.segmentKey(1))
    #expect(try await fixture.account.container(Fixture.containerID()) == nil)
    let container = try await fixture.account.createContainer(
      Fixture.containerID(), device: Fixture.device, time: Timestamp(nanoseconds: 1))
    #expect(container.incarnation == fixture.container.incarnation)
    #expect(try await container.segments(after: .start).count == 1)
  }

  @Test func containersMadeAtTheSameTimeAreOne() async throws {
    let fixture = try await Fixture()
    let id = try Fixture.containerID("iCloud.com.example.race")
    let made = try await withThrowingTaskGroup(of: IncarnationID.self) { group in
      for device in UInt64(1)...8 {
        group.addTask {
          try await fixture.account.createContainer(
            id, device: DeviceID(high: 1, low: device), time: Timestamp(nanoseconds: 1)
          ).incarnation
        }
      }
      return try await group.reduce(into: Set<IncarnationID>()) { $0.insert($1) }
    }
    #expect(made.count == 1)
  }

  @Test func theBackendLearnsNoNames() async throws {
    let fixture = try await Fixture()
    let device = DeviceRecord(
      id: Fixture.device, name: "Ada's laptop", lastSeen: Timestamp(nanoseconds: 4))
    try await fixture.account.register(device)
    _ = try await fixture.container.commit(
      Fixture.changes("Very secret name"), after: fixture.head(), from: Fixture.origin)
    for key in try await fixture.keys() {
      let text = String(decoding: try await fixture.store.get(key), as: UTF8.self)
      for word in ["example", "Ada", "secret", "Documents"] {
        #expect(!key.contains(word) && !text.contains(word), "\(word) is in \(key)")
      }
    }
    #expect(try await fixture.account.devices() == [device])
  }

  @Test func devicesAndNamesCannotBeSwappedOrChanged() async throws {
    let fixture = try await Fixture()
    for low in UInt64(1)...2 {
      try await fixture.account.register(
        DeviceRecord(
          id: DeviceID(high: 0, low: low), name: "d\(low)", lastSeen: Timestamp(nanoseconds: 0)))
      _ = try await fixture.account.createContainer(
        Fixture.containerID("iCloud.c\(low)"), device: Fixture.device,
        time: Timestamp(nanoseconds: 0))
    }
    #expect(try await fixture.account.devices().map(\.name) == ["d1", "d2"])
    let devices = try await fixture.keys("devices/")
    await fixture.store.set(devices[0], try await fixture.store.get(devices[1]))
    await #expect(throws: RemoteError.self) { try await fixture.account.devices() }
    let names = try await fixture.keys("names/")
    await fixture.store.set(names[0], try await fixture.store.get(names[1]))
    await #expect(throws: RemoteError.self) { try await fixture.account.containers() }
  }

  @Test func theQuotaIsOneSealedObjectThatAnyDeviceReplaces() async throws {
    let fixture = try await Fixture()
    #expect(try await fixture.account.quota() == nil)
    var quota = AccountQuota(
      limit: 5 << 30, time: Timestamp(nanoseconds: 3), device: Fixture.device)
    try await fixture.account.setQuota(quota)
    #expect(try await fixture.account.quota() == quota)
    quota.limit = nil
    try await fixture.account.setQuota(quota)
    let before = fixture.meter.traffic
    #expect(try await fixture.account.quota() == quota)
    #expect(fixture.meter.traffic.gets == before.gets + 1)
    #expect(fixture.meter.traffic.lists == before.lists)
    var stored = try await fixture.store.get("account/quota")
    stored[stored.count - 1] ^= 1
    await fixture.store.set("account/quota", stored)
    await #expect(throws: RemoteError.self) { try await fixture.account.quota() }
  }

  @Test func devicesTellWhatContainersTake() async throws {
    let fixture = try await Fixture()
    let usage = ContainerUsage(
      incarnation: fixture.container.incarnation, sequence: 9, bytes: 12_345)
    try await fixture.account.register(
      DeviceRecord(
        id: Fixture.device, name: "d", lastSeen: Timestamp(nanoseconds: 0), usage: [usage]))
    #expect(try await fixture.account.devices().map(\.usage) == [[usage]])
    #expect(
      try await fixture.account.incarnations().map(\.incarnation)
        == [fixture.container.incarnation])
  }

  @Test func anotherAccountsObjectsDoNotOpen() async throws {
    let one = try await Fixture()
    let two = try await Fixture()
    // The second account is given all that the first one stored, but for its own `format`.
    for key in try await one.keys() where key != "format" {
      await two.store.set(key, try await one.store.get(key))
    }
    await #expect(throws: RemoteError.self) { try await two.account.containers() }
    let stolen = two.account.container(
      one.container.id, incarnation: one.container.incarnation)
    await #expect(throws: RemoteError.self) { try await stolen.segments(after: .start) }
  }
}

extension MemoryStore {
  /// Stores what no store would be told to.
  func set(_ key: String, _ bytes: [UInt8]) async {
    do { try await replace(key, bytes) } catch { Issue.record(error) }
  }

  @Test("a record that others would refuse is not put")
  func malformedRecords() async throws {
    let fixture = try await Fixture()
    let before = try await fixture.keys()
    let long = DeviceRecord(
      id: .random(), name: String(repeating: "x", count: 256), lastSeen: Timestamp(nanoseconds: 1))
    do throws(RemoteError) {
      try await fixture.account.register(long)
      Issue.record("it was put")
    } catch {
      guard case .malformed = error else { throw error }
    }
    #expect(try await fixture.keys() == before)
  }
}
