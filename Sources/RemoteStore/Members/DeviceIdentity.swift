@preconcurrency internal import Crypto
internal import FoundationEssentials
package import Model
package import RecordFormat

/// A device's name for itself and its private keys: Ed25519 signs what it writes, X25519 takes the
/// keys of new epochs.
///
/// Safe from any task. Whoever has the bytes is the device: they stay in the state directory.
package final class DeviceIdentity: Sendable {
  package let device: DeviceID
  /// What the account's other devices call it when it joins.
  package let name: String
  private let signing: Curve25519.Signing.PrivateKey
  private let agreement: Curve25519.KeyAgreement.PrivateKey

  /// New keys.
  package init(device: DeviceID, name: String) {
    self.device = device
    self.name = name
    signing = Curve25519.Signing.PrivateKey()
    agreement = Curve25519.KeyAgreement.PrivateKey()
  }

  /// Keys that `privateKeys` gave; nil for anything else.
  package init?(device: DeviceID, name: String, privateKeys: [UInt8]) {
    guard privateKeys.count == 64,
      let signing = try? Curve25519.Signing.PrivateKey(rawRepresentation: privateKeys[..<32]),
      let agreement = try? Curve25519.KeyAgreement.PrivateKey(
        rawRepresentation: privateKeys[32...])
    else { return nil }
    self.device = device
    self.name = name
    self.signing = signing
    self.agreement = agreement
  }

  package var privateKeys: [UInt8] {
    Array(signing.rawRepresentation) + Array(agreement.rawRepresentation)
  }

  package var member: Member {
    Member(
      device: device, name: name, signingKey: Array(signing.publicKey.rawRepresentation),
      agreementKey: Array(agreement.publicKey.rawRepresentation))
  }

  func signature(of bytes: [UInt8]) -> [UInt8] {
    do {
      return Array(try signing.signature(for: bytes))
    } catch {
      preconditionFailure("Ed25519 refuses a key of its own making: \(error)")
    }
  }

  /// What `Member.seal` sealed for this device; nil for anything else.
  func open(_ sealed: [UInt8], info: [UInt8]) -> [UInt8]? {
    guard sealed.count > 32 else { return nil }
    do {
      var recipient = try HPKE.Recipient(
        privateKey: agreement, ciphersuite: .ubiquityfs, info: Data(info),
        encapsulatedKey: Data(sealed[..<32]))
      return Array(try recipient.open(sealed[32...]))
    } catch {
      return nil
    }
  }
}

extension HPKE.Ciphersuite {
  static var ubiquityfs: HPKE.Ciphersuite { .Curve25519_SHA256_ChachaPoly }
}

extension Member {
  /// Seals bytes so that only this device opens them. Nil: its key is none.
  func seal(_ bytes: [UInt8], info: [UInt8]) -> [UInt8]? {
    do {
      let key = try Curve25519.KeyAgreement.PublicKey(rawRepresentation: agreementKey)
      var sender = try HPKE.Sender(
        recipientKey: key, ciphersuite: .ubiquityfs, info: Data(info))
      let sealed = try sender.seal(bytes)
      return Array(sender.encapsulatedKey) + Array(sealed)
    } catch {
      return nil
    }
  }

  func isSignature(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
    guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: signingKey) else {
      return false
    }
    return key.isValidSignature(signature, for: bytes)
  }
}
