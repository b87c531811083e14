package import Backend
@preconcurrency internal import Crypto
package import Model
internal import RecordFormat

/// The side of a new device: it has the code, and gets the account.
///
/// It asks every offer that there is, at most eight; only the device that shows the code can
/// answer.
package actor PairingRequest {
  package enum News: Equatable, Sendable {
    case waiting
    /// The code is right. The user compares the words on both devices.
    case seen(name: String, words: [String])
    case granted(PairingGrant)
    case failed(PairingError)
  }

  private struct Attempt {
    let offer: PairingID
    /// SHA-256 of the nonce that the other device is going to name.
    let commitment: [UInt8]
    var transcript: PairingTranscript
    let id = PairingID.random()
    var error: PairingError?
  }

  private static let mostOffers = 8

  private let store: any ObjectStore
  private let code: PairingCode
  private let identity: DeviceIdentity
  private let key = Curve25519.KeyAgreement.PrivateKey()
  private let nonce = Random.bytes(16)
  private var attempts: [Attempt] = []
  private var accepted: Int?
  private var shown: News = .waiting

  /// The code was checked for typing errors when it was made.
  package init(store: any ObjectStore, code: PairingCode, identity: DeviceIdentity) {
    self.store = store
    self.code = code
    self.identity = identity
  }

  /// Asks. Fails with `.noOffer` where no device offers to pair.
  package func begin() async throws(PairingError) {
    do throws(RemoteError) {
      var listed = 0
      for name in try await store.allKeys(ObjectName.pairing, limit: RemoteLimits.names)
      where listed < Self.mostOffers {
        guard name.hasSuffix("/offer"), case .pairing(let offer)? = ObjectKey(name),
          let stored = try await RemoteAccount.small(name, in: store)
        else { continue }
        listed += 1
        try await ask(offer, stored)
      }
    } catch {
      throw .remote(error)
    }
    guard !attempts.isEmpty else { throw .noOffer(store.description) }
  }

  private func ask(_ offer: PairingID, _ stored: [UInt8]) async throws(RemoteError) {
    guard stored.starts(with: ObjectHeader.pairing.bytes),
      let parts = ByteList.decode(Array(stored.dropFirst(ObjectHeader.length))),
      parts.count == 2, parts[0].count == 32, parts[1].count == 32
    else { return }
    var attempt = Attempt(
      offer: offer, commitment: parts[1], transcript: PairingTranscript(offer, stored))
    let request = [
      identity.member.encoded(), Array(key.publicKey.rawRepresentation), nonce,
    ]
    let info = attempt.transcript.info(.request, attempt.id)
    guard let sealed = PairingSeal.seal(request, to: parts[0], code: code, info: info) else {
      return
    }
    attempt.transcript.add(.request, attempt.id, sealed)
    let (store, name) = (store, ObjectName.pairing(offer, attempt.id, .request))
    _ = try await storing { () async throws(StoreError) in
      try await store.putIfAbsent(name, sealed)
    }
    attempts.append(attempt)
  }

  /// Looks for an answer. To be called every now and then until it gives `granted` or `failed`.
  package func look() async throws(RemoteError) -> News {
    switch shown {
    case .granted, .failed: return shown
    case .seen: shown = try await lookForGrant() ?? shown
    case .waiting: try await lookForAnswers()
    }
    return shown
  }

  private func lookForAnswers() async throws(RemoteError) {
    for index in attempts.indices where attempts[index].error == nil {
      let attempt = attempts[index]
      if let stored = try await object(attempt, .seen) {
        guard
          let parts = PairingSeal.open(
            stored, with: key, code: code, info: attempt.transcript.info(.seen, attempt.id),
            count: 2), let member = try? Member(decoding: parts[0]),
          Array(SHA256.hash(data: parts[1])) == attempt.commitment
        else {
          attempts[index].error = .tampered
          continue
        }
        attempts[index].transcript.add(.seen, attempt.id, stored)
        accepted = index
        let words = attempts[index].transcript.words(parts[1] + nonce)
        shown = .seen(name: member.name, words: words)
        return
      }
      attempts[index].error = try await refusal(attempt)
    }
    let errors = attempts.compactMap(\.error)
    if errors.count == attempts.count, let first = errors.first { shown = .failed(first) }
  }

  private func lookForGrant() async throws(RemoteError) -> News? {
    guard let accepted else { return nil }
    let attempt = attempts[accepted]
    guard let stored = try await object(attempt, .grant) else {
      return try await refusal(attempt).map { .failed($0) }
    }
    guard
      let parts = PairingSeal.open(
        stored, with: key, code: code, info: attempt.transcript.info(.grant, attempt.id), count: 4),
      parts[2].count == 8, let secret = String(validating: parts[0], as: UTF8.self)
    else { return .failed(.tampered) }
    return .granted(
      PairingGrant(
        secret: secret, format: parts[1], entry: UInt64(bigEndianBytes: parts[2][...]),
        hash: parts[3]))
  }

  /// Nil: there is none. An offer that is gone, or says so, ends the exchange too.
  private func refusal(_ attempt: Attempt) async throws(RemoteError) -> PairingError? {
    if let stored = try await object(attempt, .refusal) { return PairingOffer.error(of: stored) }
    guard let offer = try await RemoteAccount.small(ObjectName.offer(attempt.offer), in: store)
    else { return .ended }
    return offer.count == 9 ? PairingOffer.error(of: offer) : nil
  }

  private func object(_ attempt: Attempt, _ step: PairingStep) async throws(RemoteError) -> [UInt8]?
  {
    try await RemoteAccount.small(ObjectName.pairing(attempt.offer, attempt.id, step), in: store)
  }

  /// Removes the requests.
  package func clean() async throws(RemoteError) {
    for attempt in attempts {
      let (store, name) = (store, ObjectName.pairing(attempt.offer, attempt.id, .request))
      try await storing { () async throws(StoreError) in try await store.delete(name) }
    }
  }
}

/// What a new device gets: it signs in with this like with a secret that its user typed, and takes
/// no older state of the account than the other device had.
package struct PairingGrant: Equatable, Sendable {
  package let secret: String
  package let format: [UInt8]
  /// The last entry of the member log that the other device knew.
  package let entry: UInt64
  package let hash: [UInt8]
}

extension RemoteAccount {
  /// Throws `.damaged` unless the member log has the entry that another device named when it handed
  /// the account over.
  package func check(_ grant: PairingGrant) throws(RemoteError) {
    let object = ObjectName.member(grant.entry)
    guard keys.membership.hash(of: grant.entry) == grant.hash else {
      throw .damaged(object: object, reason: "it is not the entry that the other device has read")
    }
  }
}
