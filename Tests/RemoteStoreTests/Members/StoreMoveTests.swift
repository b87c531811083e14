import Backend
import Model
import Platform
import RecordFormat
import RemoteStore
import Testing

/// An account leaves its store for another one.
@Suite struct StoreMoveTests {
  private static let url = "file:///srv/new"

  /// Two devices, and a log with some names.
  private func account() async throws -> (store: MemoryStore, ada: MemberDevice, bob: MemberDevice)
  {
    let store = MemoryStore()
    let ada = try await MemberDevice("Ada", in: store)
    let bob = try await MemberDevice("Bob", in: store)
    for number in UInt64(1)...3 { try await ada.write("ada \(number)", low: number) }
    try await bob.write("bob", low: 9)
    var random = SplitMix(state: 1)
    let content = (0..<120_000).map { _ in UInt8.random(in: 0...255, using: &random) }
    _ = try await ada.container().upload(content)
    return (store, ada, bob)
  }

  @Test("both devices go on in the new store with all that was in the former one")
  func move() async throws {
    let (store, ada, bob) = try await account()
    let target = MemoryStore()
    let before = try await ada.log()
    let done = try await ada.account.moveStore(to: target, url: Self.url)
    #expect(done.copied > 8 && done.bytes > 100_000)
    #expect(try await ada.account.standing(of: target) == .arrived)
    #expect(try await bob.account.standing(of: target) == .arrived)
    var expected = try await store.objects()
    var found = try await target.objects()
    // Only the new store has the entry that ends the move.
    let last = try #require(found.keys.filter { $0.hasPrefix("account/members/") }.max())
    #expect(expected[last] == nil)
    found[last] = nil
    expected["format"] = ada.account.format
    #expect(found == expected)
    let (newAda, newBob) = (
      try MemberDevice(after: ada, in: target), try MemberDevice(after: bob, in: target)
    )
    for (device, name) in [(newAda, "later ada"), (newBob, "later bob")] {
      try await device.account.refreshMembers()
      #expect(device.account.move == nil)
      try await device.write(name, low: UInt64(name.count))
    }
    // The notice is a segment without changes.
    #expect(try await newAda.log().names == before.names + ["later ada", "later bob"])
    #expect(try await newAda.account.members.count == 2)
    _ = try await newBob.account.rotate(secret: .generate())
    let carl = try await MemberDevice(
      "Carl", in: target, secret: newBob.account.secret.text)
    #expect(try await carl.log().names == newBob.log().names)
  }

  @Test(
    "no device writes to the former store after the notice, and earlier segments are copied"
  )
  func formerStore() async throws {
    let (store, ada, bob) = try await account()
    let target = MemoryStore()
    let old = try await bob.log().head
    _ = try await ada.account.moveStore(to: target, url: Self.url)
    let before = try await store.objects()
    // It does not know of the move, and its place in the log is taken.
    #expect(try await bob.write("too late", low: 50, after: old) == nil)
    await #expect(throws: RemoteError.moved(to: Self.url)) {
      try await bob.write("too late", low: 50)
    }
    await #expect(throws: RemoteError.moved(to: Self.url)) {
      _ = try await bob.container().upload([1, 2, 3])
    }
    await #expect(throws: RemoteError.moved(to: Self.url)) {
      try await ada.write("too late", low: 50)
    }
    await #expect(throws: RemoteError.moved(to: Self.url)) {
      _ = try await ada.account.rotate(secret: .generate())
    }
    // Nor does a new device join there.
    await #expect(throws: RemoteError.moved(to: Self.url)) {
      _ = try await MemberDevice("Carl", in: store)
    }
    #expect(try await store.objects() == before)
    #expect(try await bob.account.container(MemberDevice.container) != nil)
  }

  @Test(
    "a move that ends after any write goes on, here or on another device, and loses nothing",
    arguments: [false, true])
  func interruptions(onOther: Bool) async throws {
    var failures = 0
    while true {
      let (store, ada, bob) = try await account()
      let memory = MemoryStore()
      let target = HookedStore(memory)
      let names = try await ada.log().names
      ada.way.hooks.withLock { $0.writes = failures }
      target.hooks.withLock { $0.writes = failures }
      do {
        _ = try await ada.account.moveStore(to: target, url: Self.url)
        try #require(failures > 10)
        break
      } catch is RemoteError {}
      failures += 1
      try #require(failures < 60)
      for way in [ada.way, target] { way.hooks.withLock { $0.writes = nil } }
      // Until it is whole no device takes it for the account's.
      let isWhole = try await bob.account.standing(of: target) == .arrived
      #expect(!isWhole || ada.account.move != nil)
      let mover = try onOther ? bob : MemberDevice(after: ada, in: store)
      _ = try await mover.account.moveStore(to: target, url: Self.url)
      let (newAda, newBob) = (
        try MemberDevice(after: ada, in: memory), try MemberDevice(after: bob, in: memory)
      )
      try await newAda.account.refreshMembers()
      try await newBob.account.refreshMembers()
      #expect(try await newBob.write("later", low: 70) != nil)
      #expect(try await newAda.log().names == names + ["later"])
    }
  }

  @Test("a place that has another account, or this one as it was, is refused and stays as it is")
  func takenPlaces() async throws {
    let (store, ada, _) = try await account()
    let other = MemoryStore()
    _ = try await MemberDevice("Carl", in: other)
    let target = MemoryStore()
    _ = try await ada.account.moveStore(to: target, url: Self.url)
    let moved = try MemberDevice(after: ada, in: target)
    try await moved.account.refreshMembers()
    for taken in [other, store] {
      let before = try await taken.objects()
      await #expect(throws: RemoteError.targetTaken("memory")) {
        _ = try await moved.account.moveStore(to: taken, url: "file:///srv/taken")
      }
      #expect(try await taken.objects() == before)
      #expect(moved.account.move == nil)
    }
  }

  @Test("a move that did not end is given up for another store, or for the present one")
  func givingUp() async throws {
    for stays in [false, true] {
      let (store, ada, bob) = try await account()
      let broken = HookedStore(MemoryStore())
      // The entry that begins the move is the only write that is done.
      ada.way.hooks.withLock { $0.writes = 1 }
      await #expect(throws: RemoteError.self) {
        _ = try await ada.account.moveStore(to: broken, url: Self.url)
      }
      ada.way.hooks.withLock { $0.writes = nil }
      try #require(ada.account.move != nil)
      let place = stays ? store : MemoryStore()
      let url = stays ? "file:///srv/former" : "file:///srv/other"
      await #expect(throws: RemoteError.moved(to: Self.url)) {
        _ = try await bob.account.moveStore(to: MemoryStore(), url: "file:///srv/third")
      }
      _ = try await bob.account.moveStore(to: place, url: url, abandonsOther: true)
      for device in [ada, bob] {
        let next = try MemberDevice(after: device, in: place)
        try await next.account.refreshMembers()
        #expect(next.account.move == nil)
        #expect(try await next.write(device.identity.name, low: next.id.low | 1) != nil)
      }
    }
  }

  @Test("a device that was away for the whole move finds the new store without the former one")
  func away() async throws {
    let (store, ada, bob) = try await account()
    let target = MemoryStore()
    _ = try await ada.account.moveStore(to: target, url: Self.url)
    bob.way.hooks.withLock { $0.writes = -1 }
    #expect(try await bob.account.moveStore(to: target, url: "file:///other/name").copied == 0)
    let next = try MemberDevice(after: bob, in: target)
    // Its first write reads there that the move has ended.
    _ = try await next.container().upload([1, 2, 3])
    #expect(try await next.write("later", low: 70) != nil)
    _ = store
  }

  @Test("entries of the member log that break the rules of a move are refused")
  func rules() throws {
    let signer = DeviceID(high: 1, low: 2)
    let time = Timestamp(nanoseconds: 1)
    func decoded(_ entry: MemberEntry) throws -> MemberEntry {
      try MemberEntry(decoding: entry.encoded())
    }
    let move = MemberEntry(previous: [], signer: signer, time: time, movesTo: Self.url)
    #expect(try decoded(move) == move)
    let end = MemberEntry(previous: [], signer: signer, time: time, hasArrived: true)
    #expect(try decoded(end) == end)
    for (store, arrived) in [
      ("", false), (String(repeating: "x", count: 4097), false), (Self.url, true),
    ] {
      #expect(throws: RecordError.self) {
        try decoded(
          MemberEntry(
            previous: [], signer: signer, time: time, movesTo: store, hasArrived: arrived))
      }
    }
  }
}
