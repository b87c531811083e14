import Backend
import Model
import Platform
import RemoteStore
import Testing

@Suite struct StoreCopyTests {
  private func account() async throws -> Fixture {
    let fixture = try await Fixture()
    var head = try await fixture.head()
    for number in UInt64(1)...5 {
      head = try #require(
        try await fixture.container.commit(
          Fixture.changes("name \(number)", low: number), after: head, from: Fixture.origin))
    }
    try await fixture.account.register(
      DeviceRecord(id: Fixture.device, name: "Ada", lastSeen: Timestamp(nanoseconds: 1)))
    // A list of any store may have files of other programs.
    try await fixture.store.replace("names/notes.txt", [1])
    return fixture
  }

  @Test("a copy has every object of the account, and nothing else, and is readable")
  func copy() async throws {
    let fixture = try await account()
    let target = MemoryStore()
    let copy = StoreCopy(from: fixture.store, to: target)
    let first = try await copy.copyObjects()
    #expect(first.copied == first.objects && first.objects >= 8)
    #expect(try await target.list(prefix: "format", after: nil, limit: 1) == [])
    #expect(try await copy.firstMissing() == nil)
    try await copy.complete(with: fixture.account.format)
    var expected = try await fixture.store.objects()
    expected["names/notes.txt"] = nil
    #expect(try await target.objects() == expected)
    let opened = try await RemoteAccount.open(
      store: target, secret: AccountSecret(Fixture.secret), createIfMissing: false)
    #expect(try await opened.containers() == [Fixture.containerID()])
  }

  @Test("a second copy uploads new objects alone, and replaces objects that changed")
  func again() async throws {
    let fixture = try await account()
    let target = MemoryStore()
    let copy = StoreCopy(from: fixture.store, to: target)
    _ = try await copy.copyObjects()
    #expect(try await copy.copyObjects().copied == 0)
    let head = try await fixture.head()
    _ = try await fixture.container.commit(
      Fixture.changes("later", low: 99), after: head, from: Fixture.origin)
    try await fixture.account.register(
      DeviceRecord(id: Fixture.device, name: "Bob", lastSeen: Timestamp(nanoseconds: 2)))
    #expect(try await copy.firstMissing() != nil)
    #expect(try await copy.copyObjects().copied == 2)
    #expect(try await copy.firstMissing() == nil)
  }

  @Test("a copy that fails after any number of writes goes on, and is no account before its end")
  func interruptions() async throws {
    let fixture = try await account()
    let target = MemoryStore()
    var writes = 0
    while true {
      let failing = FailingStore(target, writes: 1)
      let copy = StoreCopy(from: fixture.store, to: failing)
      do {
        _ = try await copy.copyObjects()
        #expect(try await copy.firstMissing() == nil)
        break
      } catch let error as RemoteError {
        #expect(error == .store(.noSpace("it is full")))
      }
      #expect(try await target.list(prefix: "format", after: nil, limit: 1) == [])
      writes += 1
      try #require(writes < 100)
    }
    #expect(writes >= 7)
  }

  @Test("a place that holds another history of the account is refused, and stays as it is")
  func foreignHistory() async throws {
    let fixture = try await account()
    let target = MemoryStore()
    let copy = StoreCopy(from: fixture.store, to: target)
    _ = try await copy.copyObjects()
    let key = fixture.segmentKey(3)
    try await target.replace(key, try await target.get(key).reversed())
    let before = try await target.objects()
    await #expect(throws: RemoteError.self) { try await copy.copyObjects() }
    #expect(try await target.objects() == before)
    try await target.replace("format", [1, 2, 3])
    await #expect(throws: RemoteError.self) {
      try await copy.complete(with: fixture.account.format)
    }
  }
}
