@preconcurrency internal import Crypto
internal import FoundationEssentials
internal import Model
internal import RecordFormat

/// The messages of two devices that pair, sealed by HPKE with the code as the pre-shared key (RFC
/// 9180, `mode_psk`): nobody opens one without the code, and none opens in another exchange.
///
///     offer     A's ephemeral key | SHA-256 of A's nonce                         in the clear
///     request   B's keys and name | B's ephemeral key | B's nonce                sealed for A
///     seen      A's keys and name | A's nonce                                    sealed for B
///     grant     secret | `format` | number and hash of the last member entry     sealed for B
///
/// A commits to its nonce before it knows B's. So who stands between the two, even one who knows
/// the code, cannot choose nonces until both devices show the same words.
struct PairingTranscript {
  private(set) var hash: [UInt8]

  init(_ offer: PairingID, _ message: [UInt8]) {
    hash = Array(
      SHA256.hash(data: Array("ubiquityfs pairing".utf8) + [0] + offer.bytes + message))
  }

  /// What was sent next.
  mutating func add(_ step: PairingStep, _ request: PairingID, _ message: [UInt8]) {
    hash = Array(
      SHA256.hash(
        data: hash + Array(step.rawValue.utf8) + [0] + request.bytes
          + Array(SHA256.hash(data: message))))
  }

  func info(_ step: PairingStep, _ request: PairingID) -> [UInt8] {
    Array("ubiquityfs pairing \(step.rawValue)".utf8) + [0] + request.bytes + hash
  }

  /// The same four words on both devices, if nobody stands between them.
  func words(_ nonces: [UInt8]) -> [String] {
    SHA256.hash(data: Array("ubiquityfs pairing words".utf8) + [0] + hash + nonces).prefix(4)
      .map { PairingWords.all[Int($0)] }
  }
}

enum PairingSeal {
  private static let pskID = Data("ubiquityfs pairing code".utf8)

  /// Nil: the key is none.
  static func seal(_ plain: [[UInt8]], to key: [UInt8], code: PairingCode, info: [UInt8])
    -> [UInt8]?
  {
    guard let key = try? Curve25519.KeyAgreement.PublicKey(rawRepresentation: key),
      var sender = try? HPKE.Sender(
        recipientKey: key, ciphersuite: .ubiquityfs, info: Data(info), presharedKey: code.key,
        presharedKeyIdentifier: pskID),
      let sealed = try? sender.seal(ByteList.encode(plain))
    else { return nil }
    return ObjectHeader.pairing.bytes + Array(sender.encapsulatedKey) + Array(sealed)
  }

  /// Nil: it is not for this key, code and place.
  static func open(
    _ stored: [UInt8], with key: Curve25519.KeyAgreement.PrivateKey, code: PairingCode,
    info: [UInt8], count: Int
  ) -> [[UInt8]]? {
    guard stored.starts(with: ObjectHeader.pairing.bytes), stored.count > 8 + 32,
      var recipient = try? HPKE.Recipient(
        privateKey: key, ciphersuite: .ubiquityfs, info: Data(info),
        encapsulatedKey: Data(stored[8..<40]), presharedKey: code.key,
        presharedKeyIdentifier: pskID),
      let plain = try? recipient.open(stored[40...]),
      let list = ByteList.decode(Array(plain)), list.count == count
    else { return nil }
    return list
  }
}
