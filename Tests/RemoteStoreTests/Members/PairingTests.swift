import Backend
import Model
import Platform
import RemoteStore
import Testing

/// Pairing by code, and what goes wrong with it.
struct PairingTests {
  /// Monotonic nanoseconds that a test sets.
  private final class Clock: Sendable {
    let now = Lock<UInt64>(1)
  }

  /// A new device before it is one.
  private func request(
    _ store: any ObjectStore, _ code: PairingCode, name: String = "new"
  ) -> PairingRequest {
    PairingRequest(
      store: store, code: code, identity: DeviceIdentity(device: .random(), name: name))
  }

  private func offer(_ device: MemberDevice, _ clock: Clock = Clock()) async throws
    -> PairingOffer
  {
    let offer = PairingOffer(account: device.account, clock: { clock.now.withLock { $0 } })
    try await offer.begin()
    return offer
  }

  @Test("a new device joins with the code, and both devices show the same words")
  func pairing() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    _ = try await one.container()
    try await one.write("a", low: 1)
    let offer = try await offer(one)
    let identity = DeviceIdentity(device: .random(), name: "new")
    let code = try PairingCode(offer.code.description.lowercased())
    let request = PairingRequest(store: store, code: code, identity: identity)
    #expect(try await offer.look() == .waiting)
    try await request.begin()
    guard case .asks("new", let words) = try await offer.look() else {
      Issue.record("the request was not seen")
      return
    }
    #expect(words.count == 4)
    #expect(try await request.look() == .seen(name: "one", words: words))
    #expect(try await request.look() == .seen(name: "one", words: words))
    #expect(try await offer.answer(true) == .granted(name: "new"))
    guard case .granted(let grant) = try await request.look() else {
      Issue.record("nothing was granted")
      return
    }
    let new = try await MemberDevice("new", in: store, secret: grant.secret, identity: identity)
    try new.account.check(grant)
    #expect(try await offer.hasJoined())
    #expect(try await new.log().names == ["a"])
    try await offer.clean()
    #expect(try await store.list(prefix: "pairing/", after: nil, limit: 9) == [])
  }

  @Test("no object of an exchange has the code, the secret or a name in it")
  func eavesdropper() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one device", in: store)
    let offer = try await offer(one)
    let request = request(store, offer.code, name: "another device")
    try await request.begin()
    _ = try await offer.look()
    _ = try await request.look()
    _ = try await offer.answer(true)
    let code = offer.code.description
    let secrets = [
      code, code.filter { $0 != "-" }, one.account.secret.text, "one device", "another device",
      "\(one.id)",
    ].map { Array($0.utf8) }
    for key in try await store.list(prefix: "pairing/", after: nil, limit: 9) {
      let bytes = try await store.get(key)
      for secret in secrets {
        #expect(!key.utf8.elementsEqual(secret) && !contains(bytes, secret), "\(key)")
      }
    }
  }

  private func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
    guard bytes.count >= part.count else { return false }
    return (0...bytes.count - part.count).contains { bytes[$0...].starts(with: part) }
  }

  @Test("a mistyped code is refused before anything is sent")
  func mistyped() throws {
    let text = PairingCode().description
    #expect(try PairingCode(text).description == text)
    let digits = Array(text.filter { $0 != "-" })
    for index in digits.indices {
      for other in "0123456789ABCDEFGHJKMNPQRSTVWXYZ" where other != digits[index] {
        var wrong = digits
        wrong[index] = other
        #expect(throws: PairingError.self) { try PairingCode(String(wrong)) }
      }
      if index > 0, digits[index] != digits[index - 1] {
        var wrong = digits
        wrong.swapAt(index, index - 1)
        #expect(throws: PairingError.self) { try PairingCode(String(wrong)) }
      }
    }
    for text in ["", "1234", text + "0", "U" + text.dropFirst()] {
      #expect(throws: PairingError.self) { try PairingCode(text) }
    }
  }

  @Test("three wrong codes end an offer, and the right one does not help after that")
  func wrongCodes() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let offer = try await offer(one)
    for left in [2, 1, 0] {
      let wrong = request(store, PairingCode())
      try await wrong.begin()
      let news = try await offer.look()
      #expect(news == (left > 0 ? .waiting : .failed(.wrongCode(left: 0))))
      #expect(try await wrong.look() == .failed(.wrongCode(left: left)))
    }
    let right = request(store, offer.code)
    await #expect(throws: PairingError.self) { try await right.begin() }
    #expect(try await offer.look() == .failed(.wrongCode(left: 0)))
    #expect(try await offer.answer(true) == .failed(.wrongCode(left: 0)))
    #expect(one.account.members.count == 1)
  }

  @Test("a code does not count after ten minutes, by the clock of the device that shows it")
  func expired() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let clock = Clock()
    let offer = try await offer(one, clock)
    let request = request(store, offer.code)
    try await request.begin()
    clock.now.withLock { $0 += PairingOffer.lifetime }
    #expect(try await offer.look() == .failed(.expired))
    #expect(try await request.look() == .failed(.expired))
    // Also between the request and the user's answer.
    let second = try await self.offer(one, clock)
    let late = self.request(store, second.code)
    try await late.begin()
    _ = try await second.look()
    clock.now.withLock { $0 += PairingOffer.lifetime }
    #expect(try await second.answer(true) == .failed(.expired))
  }

  @Test("a code pairs one device, and a refusal hands nothing over")
  func singleUse() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let offer = try await offer(one)
    let first = request(store, offer.code)
    let second = request(store, offer.code)
    try await first.begin()
    _ = try await offer.look()
    try await second.begin()
    #expect(try await offer.answer(true) == .granted(name: "new"))
    #expect(try await offer.look() == .granted(name: "new"))
    #expect(try await second.look() == .waiting)
    try await offer.clean()
    #expect(try await second.look() == .failed(.ended))

    let refused = try await self.offer(one)
    let third = request(store, refused.code)
    try await third.begin()
    _ = try await refused.look()
    _ = try await third.look()
    #expect(try await refused.answer(false) == .failed(.refused))
    #expect(try await third.look() == .failed(.refused))
  }

  @Test("a request that was replayed to another offer, or under another name, opens nothing")
  func replayed() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let first = try await offer(one)
    let request = request(store, first.code)
    try await request.begin()
    let name = try #require(
      try await store.list(prefix: "pairing/", after: nil, limit: 9).first {
        $0.hasSuffix("-request")
      })
    let stored = try await store.get(name)
    // In the same offer as another request.
    let directory = name.split(separator: "/")[1]
    let other = "pairing/\(directory)/\(String(repeating: "0", count: 32))-request"
    try await store.replace(other, stored)
    try await store.delete(name)
    #expect(try await first.look() == .waiting)
    // In a later one.
    let second = try await offer(one)
    let offers = try await store.list(prefix: "pairing/", after: nil, limit: 9).filter {
      $0.hasSuffix("/offer") && !$0.contains(directory)
    }
    let later = String(try #require(offers.first).dropLast("offer".count))
    try await store.replace(later + String(name.split(separator: "/")[2]), stored)
    #expect(try await second.look() == .waiting)
  }

  @Test("a store that swaps the messages of two exchanges learns nothing and pairs nobody")
  func swapped() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let two = try await MemberDevice("two", in: store)
    let first = try await offer(one)
    let a = request(store, first.code)
    try await a.begin()
    _ = try await first.look()
    let second = try await offer(two)
    let b = request(store, second.code)
    try await b.begin()
    _ = try await second.look()
    let seen = try await store.list(prefix: "pairing/", after: nil, limit: 99).filter {
      $0.hasSuffix("-seen")
    }
    #expect(seen.count == 2)
    let messages = (try await store.get(seen[0]), try await store.get(seen[1]))
    try await store.replace(seen[0], messages.1)
    try await store.replace(seen[1], messages.0)
    #expect(try await a.look() == .failed(.tampered))
    // This one asked the first offer too, and its code is another one there.
    let news = try await b.look()
    #expect(news == .failed(.tampered) || news == .failed(.wrongCode(left: 2)) || news == .waiting)
    // A grant of the other exchange opens as little.
    #expect(try await first.answer(true) == .granted(name: "new"))
    #expect(try await a.look() == .failed(.tampered))
  }

  @Test("a store that puts its own key into the offer sees a request that it cannot open")
  func changedOffer() async throws {
    let store = MemoryStore()
    let one = try await MemberDevice("one", in: store)
    let offer = try await offer(one)
    let name = try #require(try await store.list(prefix: "pairing/", after: nil, limit: 9).first)
    var bytes = try await store.get(name)
    bytes[20] ^= 1
    try await store.replace(name, bytes)
    let request = request(store, offer.code)
    try await request.begin()
    #expect(try await offer.look() == .waiting)
    #expect(try await request.look() == .failed(.wrongCode(left: 2)))
  }
}
