internal import Backend
@preconcurrency internal import Crypto
package import Model
internal import Platform
internal import RecordFormat

/// The side of a device that is signed in: it shows a code, and hands the account over to one
/// device that has it, once its user says so.
///
/// The code is in memory only. It counts for ten minutes by this device's clock, for one device,
/// and for three wrong tries. `end` is to be called in any case: it removes what lies in the
/// backend.
package actor PairingOffer {
  /// What the user of this device is to be told.
  package enum News: Equatable, Sendable {
    case waiting
    /// A device has the code. The user compares the words on both, and answers.
    case asks(name: String, words: [String])
    /// The account was handed over.
    case granted(name: String)
    case failed(PairingError)
  }

  package static let lifetime: UInt64 = 600_000_000_000
  package static let mostTries = 3
  /// Requests of one offer that are looked at.
  private static let mostRequests = 16

  package nonisolated let code: PairingCode
  private let account: RemoteAccount
  private let clock: @Sendable () -> UInt64
  private let end: UInt64
  private let id = PairingID.random()
  private let key = Curve25519.KeyAgreement.PrivateKey()
  private let nonce = Random.bytes(16)
  private var transcript: PairingTranscript
  private let message: [UInt8]
  private var tries = 0
  private var judged: Set<PairingID> = []
  private var asking: Asking?
  private var outcome: News?

  private struct Asking {
    let request: PairingID
    let member: Member
    let ephemeral: [UInt8]
    let words: [String]
  }

  /// `clock`: monotonic nanoseconds.
  package init(
    account: RemoteAccount, clock: @escaping @Sendable () -> UInt64 = { monotonicNanoseconds() }
  ) {
    self.account = account
    self.clock = clock
    end = clock() &+ Self.lifetime
    code = PairingCode()
    message =
      ObjectHeader.pairing.bytes
      + ByteList.encode([
        Array(key.publicKey.rawRepresentation), Array(SHA256.hash(data: nonce)),
      ])
    transcript = PairingTranscript(id, message)
  }

  private var store: any ObjectStore { account.store }

  package func begin() async throws(RemoteError) {
    try await account.join()
    try await put(ObjectName.offer(id), message)
  }

  /// Looks for a request. To be called every now and then until it gives `granted` or `failed`.
  package func look() async throws(RemoteError) -> News {
    if let outcome { return outcome }
    guard clock() < end else { return try await fail(.expired) }
    if let asking { return .asks(name: asking.member.name, words: asking.words) }
    let (store, prefix) = (store, ObjectName.pairing(id))
    let listed = try await storing { () async throws(StoreError) in
      try await store.list(prefix: prefix, after: nil, limit: 8 * Self.mostRequests)
    }
    for name in listed {
      let suffix = "-" + PairingStep.request.rawValue
      guard name.hasSuffix(suffix),
        let request: PairingID = ObjectKey.identity(
          name.dropFirst(prefix.count).dropLast(suffix.count)), judged.insert(request).inserted
      else { continue }
      guard let stored = try await RemoteAccount.small(name, in: store) else { continue }
      if let news = try await judge(request, stored) { return news }
    }
    return .waiting
  }

  private func judge(_ request: PairingID, _ stored: [UInt8]) async throws(RemoteError) -> News? {
    let info = transcript.info(.request, request)
    guard let identity = account.keys.identity,
      let parts = PairingSeal.open(stored, with: key, code: code, info: info, count: 3),
      let member = try? Member(decoding: parts[0]), parts[1].count == 32, parts[2].count == 16
    else {
      tries += 1
      let left = Self.mostTries - tries
      try await put(
        ObjectName.pairing(id, request, .refusal), Self.refusal(.wrongCode(left: left)))
      return left > 0 ? nil : try await fail(.wrongCode(left: 0))
    }
    var transcript = transcript
    transcript.add(.request, request, stored)
    let answer = [identity.member.encoded(), nonce]
    guard
      let sealed = PairingSeal.seal(
        answer, to: parts[1], code: code, info: transcript.info(.seen, request))
    else { return nil }
    transcript.add(.seen, request, sealed)
    self.transcript = transcript
    let words = transcript.words(nonce + parts[2])
    asking = Asking(request: request, member: member, ephemeral: parts[1], words: words)
    try await put(ObjectName.pairing(id, request, .seen), sealed)
    return .asks(name: member.name, words: words)
  }

  /// The user's answer about the device that asks.
  package func answer(_ isYes: Bool) async throws(RemoteError) -> News {
    if let outcome { return outcome }
    guard let asking else { return .waiting }
    guard clock() < end else { return try await fail(.expired) }
    guard isYes else {
      try await put(ObjectName.pairing(id, asking.request, .refusal), Self.refusal(.refused))
      outcome = .failed(.refused)
      return .failed(.refused)
    }
    try await account.refreshMembers()
    let membership = account.keys.membership
    let format = membership.format.isEmpty ? account.format : membership.format
    let grant = [
      account.secret.bytes.withArray { $0 }, format, membership.number.bigEndianBytes,
      membership.hash,
    ]
    let info = transcript.info(.grant, asking.request)
    guard let sealed = PairingSeal.seal(grant, to: asking.ephemeral, code: code, info: info) else {
      return try await fail(.tampered)
    }
    try await put(ObjectName.pairing(id, asking.request, .grant), sealed)
    outcome = .granted(name: asking.member.name)
    return .granted(name: asking.member.name)
  }

  /// Whether the device that the account was handed to is a member by now.
  package func hasJoined() async throws(RemoteError) -> Bool {
    guard let asking else { return false }
    try await account.refreshMembers()
    return account.members.contains { $0.device == asking.member.device }
  }

  private func fail(_ error: PairingError) async throws(RemoteError) -> News {
    outcome = .failed(error)
    try await put(ObjectName.offer(id), Self.refusal(error), replaces: true)
    return .failed(error)
  }

  /// Removes what lies in the backend.
  package func clean() async throws(RemoteError) {
    for name in try await store.allKeys(ObjectName.pairing(id), limit: RemoteLimits.names) {
      let store = store
      try await storing { () async throws(StoreError) in try await store.delete(name) }
    }
  }

  private func put(_ name: String, _ bytes: [UInt8], replaces: Bool = false)
    async throws(RemoteError)
  {
    let store = store
    try await storing { () async throws(StoreError) in
      if replaces {
        try await store.replace(name, bytes)
      } else {
        _ = try await store.putIfAbsent(name, bytes)
      }
    }
  }

  /// In the clear, and proof of nothing: a store that invents one only ends the exchange.
  static func refusal(_ error: PairingError) -> [UInt8] {
    let number: UInt8 =
      switch error {
      case .wrongCode(let left): UInt8(clamping: left)
      case .refused: 100
      case .expired: 101
      default: 102
      }
    return ObjectHeader.pairing.bytes + [number]
  }

  static func error(of refusal: [UInt8]) -> PairingError {
    guard refusal.count == 9, refusal.starts(with: ObjectHeader.pairing.bytes) else {
      return .tampered
    }
    switch refusal[8] {
    case 0..<100: return .wrongCode(left: Int(refusal[8]))
    case 100: return .refused
    case 101: return .expired
    default: return .ended
    }
  }
}
