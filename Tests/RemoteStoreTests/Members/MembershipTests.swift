import Backend
import Model
import RemoteStore
import Testing

/// Devices that join, sign, and leave.
struct MembershipTests {
  private static let newSecret = AccountSecret.generate()

  @Test("two members read what the other signed")
  func twoMembers() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let two = try await MemberDevice("two", in: store)
    _ = try await one.container()
    #expect(try await one.write("a", low: 1) != nil)
    #expect(try await two.write("b", low: 2) != nil)
    #expect(try await one.log().names == ["a", "b"])
    #expect(try await two.log().segments.map(\.origin.device).suffix(2) == [one.id, two.id])
    try await one.account.refreshMembers()
    #expect(Set(one.account.members.map(\.name)) == ["one", "two"])
    #expect(try await one.account.devices().map(\.name).sorted() == ["one", "two"])
  }

  @Test("a device without keys of its own cannot write to an account with members")
  func strangerWithSecret() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    _ = try await one.container()
    let stranger = try await RemoteAccount.open(
      store: store, secret: AccountSecret(Fixture.secret), createIfMissing: false)
    try await stranger.refreshMembers()
    let container = try #require(try await stranger.container(MemberDevice.container))
    await #expect(throws: RemoteError.notMember) {
      _ = try await container.commit(
        Fixture.changes("x"), after: try await one.log().head, from: Fixture.origin)
    }
  }

  @Test("a segment of a removed device is void on all devices, and the log goes on after it")
  func removedDeviceWrites() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let two = try await MemberDevice("two", in: store)
    let lost = try await MemberDevice("lost", in: store)
    _ = try await one.container()
    try await lost.write("before", low: 1)
    let container = try await lost.container()
    #expect(try await one.account.rotate(removing: [lost.id], secret: Self.newSecret))
    // It has not read that it was removed, and knows where the log ends.
    let head = try await one.log().head
    let put = try await container.commit(
      Fixture.changes("after", low: 2), after: head, from: lost.origin)
    #expect(put != nil)
    for device in [one, two] {
      let (_, names, segments) = try await device.log()
      #expect(names == ["before"])
      #expect(segments.last?.changes == LogChanges())
      #expect(segments.last?.position == put)
    }
    try await two.write("next", low: 3)
    #expect(try await one.log().names == ["before", "next"])
    #expect(try await two.log().names == ["before", "next"])
  }

  @Test("a removed device learns of it, keeps that it was removed, and writes nothing any more")
  func removedDeviceStops() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let lost = try await MemberDevice("lost", in: store)
    _ = try await one.container()
    let head = try await lost.log().head
    _ = try await one.account.rotate(removing: [lost.id], secret: Self.newSecret)
    try await one.write("later", low: 4)
    let container = try await lost.container()
    await #expect(throws: RemoteError.removed(by: one.identity.member)) {
      _ = try await container.segments(after: head)
    }
    let next = try MemberDevice(after: lost, in: store)
    #expect(next.account.remover == one.id)
    await #expect(throws: RemoteError.removed(by: one.identity.member)) {
      _ = try await next.write("x", low: 5, after: head)
    }
  }

  @Test("after a rotation old objects can be read, with the new secret alone, and no other opens")
  func rotation() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let two = try await MemberDevice("two", in: store)
    let container = try await one.container()
    let bytes = noise(300_000, seed: 1)
    let uploaded = try await container.upload(bytes)
    try await one.write("old", low: 1)
    let packs = try await store.list(prefix: "containers/", after: nil, limit: 1000)
    #expect(try await one.account.rotate(secret: Self.newSecret))
    let after = try await store.list(prefix: "containers/", after: nil, limit: 1000)
    #expect(
      after.filter { $0.contains("/packs/") } == packs.filter { $0.contains("/packs/") },
      "no content is uploaded again")
    try await two.write("new", low: 2)
    #expect(two.account.secret.text == Self.newSecret.text)
    #expect(try await one.log().names == ["old", "new"])
    let three = try await MemberDevice("three", in: store, secret: Self.newSecret.text)
    #expect(try await three.log().names == ["old", "new"])
    let read = try await three.container().read(uploaded)
    #expect(read.flatMap(\.array) == bytes)
    await #expect(throws: RemoteError.wrongSecret) {
      _ = try await MemberDevice("four", in: store)
    }
  }

  @Test("what is uploaded after a rotation does not open with the old keys")
  func newContentNeedsNewKey() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let lost = try await MemberDevice("lost", in: store)
    let container = try await one.container()
    let lostContainer = try await lost.container()
    _ = try await one.account.rotate(removing: [lost.id], secret: Self.newSecret)
    let bytes = noise(100_000, seed: 2)
    let uploaded = try await container.upload(bytes)
    #expect(try await container.read(uploaded).flatMap(\.array) == bytes)
    await #expect(throws: RemoteError.self) { _ = try await lostContainer.read(uploaded) }
  }

  @Test("a device that was away during three rotations catches up, also after a restart")
  func awayForLong() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let away = try await MemberDevice("away", in: store)
    _ = try await one.container()
    for round in 0..<3 {
      #expect(try await one.account.rotate(secret: .generate()))
      try await one.write("r\(round)", low: UInt64(round + 1))
    }
    let back = try MemberDevice(after: away, in: store)
    #expect(try await back.log().names == ["r0", "r1", "r2"])
    #expect(back.account.secret.text == one.account.secret.text)
    try await back.write("back", low: 9)
    #expect(try await one.log().names == ["r0", "r1", "r2", "back"])
  }

  @Test("of two devices that rotate at the same time both end with the same members and keys")
  func twoRotate() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let two = try await MemberDevice("two", in: store)
    let lost = try await MemberDevice("lost", in: store)
    _ = try await one.container()
    async let first = one.account.rotate(removing: [lost.id], secret: .generate())
    async let second = two.account.rotate(removing: [lost.id], secret: .generate())
    _ = try await (first, second)
    try await one.account.refreshMembers()
    try await two.account.refreshMembers()
    #expect(one.account.members == two.account.members)
    #expect(one.account.secret.text == two.account.secret.text)
    #expect(!one.account.members.contains { $0.device == lost.id })
    try await one.write("a", low: 1)
    try await two.write("b", low: 2)
    #expect(try await one.log().names == ["a", "b"])
    _ = try await MemberDevice("three", in: store, secret: one.account.secret.text)
  }

  @Test("a removal that ends after any of its writes leaves an account that the others go on with")
  func crashes() async throws {
    var isThrough = false
    for writes in 0..<60 where !isThrough {
      let store = MemoryStore()
      let one = try await MemberDevice("one", in: store)
      let two = try await MemberDevice("two", in: store)
      let lost = try await MemberDevice("lost", in: store)
      // Everything that needs somebody's word is the lost device's.
      _ = try await lost.container()
      try await lost.account.setQuota(
        AccountQuota(limit: 5, time: Timestamp(nanoseconds: 1), device: lost.id))
      let other = try ContainerID("iCloud.com.example.deleted")
      _ = try await lost.account.createContainer(
        other, device: lost.id, time: Timestamp(nanoseconds: 1))
      try await lost.account.deleteContainer(
        other, by: ContainerDeletion(device: lost.id, time: Timestamp(nanoseconds: 2)))
      try await lost.write("before", low: 1)
      one.way.hooks.withLock { $0.writes = writes }
      do {
        _ = try await one.account.rotate(removing: [lost.id], secret: .generate())
        isThrough = true
      } catch {}
      // The other member goes on: it may be the one to end it.
      try await two.account.refreshMembers()
      try await two.account.settleMembers()
      #expect(try await two.log().names == ["before"], "after \(writes) writes")
      #expect(try await two.account.quota()?.limit == 5)
      #expect(try await two.account.containers() == [MemberDevice.container])
      try await two.write("next", low: 2)
      let isRemoved = !two.account.members.contains { $0.device == lost.id }
      if isRemoved {
        let head = try await two.log().head
        let put = try await lost.container().commit(
          Fixture.changes("void", low: 3), after: head, from: lost.origin)
        #expect(put != nil)
        #expect(try await two.log().names == ["before", "next"], "after \(writes) writes")
      }
      // A new device signs in with what the members say.
      let new = try await MemberDevice("new", in: store, secret: two.account.secret.text)
      #expect(try await new.log().names == ["before", "next"], "after \(writes) writes")
      #expect(try await new.account.quota()?.limit == 5)
      // So does the next run of the one that ended.
      let again = try MemberDevice(after: one, in: store)
      try await again.account.refreshMembers()
      _ = try await again.account.rotate(removing: [lost.id], secret: .generate())
      #expect(try await again.log().names == ["before", "next"])
      #expect(!again.account.members.contains { $0.device == lost.id })
    }
    #expect(isThrough)
  }

  @Test("a device does not go on when a segment names an entry of the member log that is held back")
  func frozenMemberLog() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let two = try await MemberDevice("two", in: store)
    _ = try await one.container()
    let head = try await two.log().head
    _ = try await MemberDevice("three", in: store)
    try await one.account.refreshMembers()
    try await one.write("a", low: 1)
    two.way.hooks.withLock { hooks in
      hooks.shows = { !$0.hasPrefix("account/members/0000000000000000000" + "3") }
    }
    await #expect {
      _ = try await two.container().segments(after: head)
    } throws: { error in
      guard case .membersBehind(_, let entry)? = error as? RemoteError else { return false }
      return entry == 3
    }
    two.way.hooks.withLock { $0.shows = { _ in true } }
    #expect(try await two.log().names == ["a"])
  }

  @Test("another member log than a device has read is refused, and lost entries are put again")
  func memberLogSetBack() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let key = "account/members/00000000000000000001"
    let first = try await store.get(key)
    var other = first
    other[other.count - 1] ^= 1
    try await store.replace(key, other)
    await #expect(throws: RemoteError.self) { try await one.account.refreshMembers() }
    // One that is missing is put again.
    try await store.delete(key)
    try await one.account.refreshMembers()
    #expect(try await store.get(key) == first)
  }

  @Test(
    "an account of the first format is read, and its first upgraded writer makes it one with members"
  )
  func upgrade() async throws {
    let fixture = try await Fixture()
    let head = try await fixture.head()
    let old = try await fixture.container.commit(
      Fixture.changes("old", low: 1), after: head, from: Fixture.origin)
    #expect(old != nil)
    #expect(try await fixture.store.get("format")[7] == 1)
    let one = try await MemberDevice("one", in: fixture.store)
    #expect(try await one.log().names == ["old"])
    #expect(try await fixture.store.get("format")[7] == 2)
    try await one.write("new", low: 2)
    #expect(try await one.log().names == ["old", "new"])
    // The first format's header: an earlier release stops at it.
    let segment = try await fixture.store.get(fixture.segmentKey(3))
    #expect(segment[..<8].elementsEqual(Array("UBQL".utf8) + [0, 0, 0, 2]))
    // And what such a release puts after it counts for nothing.
    let unsigned = try await fixture.container.commit(
      Fixture.changes("late", low: 3), after: try await one.log().head, from: Fixture.origin)
    #expect(unsigned != nil)
    #expect(try await one.log().names == ["old", "new"])
    // Names and records of before count until a device is removed, and are signed by then.
    let two = try await MemberDevice("two", in: fixture.store)
    _ = try await one.account.rotate(removing: [two.id], secret: .generate())
    let three = try await MemberDevice("three", in: fixture.store, secret: one.account.secret.text)
    #expect(try await three.account.containers() == [try Fixture.containerID()])
    #expect(try await three.log().names == ["old", "new"])
  }
}
