@preconcurrency internal import Crypto
internal import Model
internal import Platform

/// Who wrote an object.
enum ObjectSignature: Equatable {
  /// Of the first format: anybody with the account's key.
  case none
  /// `signer` is a device that is or was a member. `members` is the entry of the member log that it
  /// knew.
  case genuine(signer: DeviceID, members: UInt64)
  /// Of no device that ever was a member, or the signature is another's.
  case forged
}

/// An object that was opened.
struct SignedObject {
  let body: [UInt8]
  let signature: ObjectSignature
  /// Of a replaceable object; 0 in the first format.
  let counter: UInt64
  /// The epoch that it is sealed under; 0: it names none.
  let epoch: UInt32

  var version: RecordVersion {
    guard case .genuine(_, let members) = signature else { return RecordVersion() }
    return RecordVersion(members: members, counter: counter)
  }
}

/// Signing stands inside the seal: the backend does not learn which device wrote what.
///
///     payload   = signer (16) | u64 members | u64 counter | signature (64) | body
///     signature = Ed25519 of "ubiquityfs object" 0 | account (16) | SHA-256 of the associated data
///                 | signer | u64 members | u64 counter | SHA-256 of the body
///
/// The associated data has the kind of the object, its place and the epoch. So a signature holds
/// for one object at one place.
extension AccountState {
  private static let prefix = 16 + 8 + 8 + 64

  /// The whole object as it is to be stored, and the entry of the member log that it names. Throws
  /// `.notMember` where this device is none.
  func sealSigned(
    _ body: [UInt8], _ header: ObjectHeader, _ associated: AssociatedData, counter: UInt64 = 0
  ) throws(RemoteError) -> (bytes: [UInt8], members: UInt64) {
    let membership = membership
    if membership.number == 0, identity == nil {
      guard let first = membership.epochs[1] else { throw .notMember }
      return (
        header.bytes + (header.isLog ? first.log : first.record).seal(body, associated), 0
      )
    }
    try requireNotRemoved()
    guard let identity, membership.isMember(identity.device) else { throw .notMember }
    let (epoch, keys) = newest
    let signed = Self.signed(
      account, associated.bytes(epoch: epoch), identity.device, membership.number, counter, body)
    let payload =
      identity.device.bytes + membership.number.bigEndianBytes + counter.bigEndianBytes
      + identity.signature(of: signed) + body
    let sealed = (header.isLog ? keys.log : keys.record).seal(payload, associated, epoch: epoch)
    return (header.bytes(epoch: epoch) + sealed, membership.number)
  }

  /// Opens an object of `sealSigned`, or of the first format. Whether the signer may have written
  /// it is for the caller to judge.
  ///
  /// Throws `.membersBehind` or `.epochUnknown` when this device has to read the member log first.
  func openSigned(
    _ stored: [UInt8], _ header: ObjectHeader, _ associated: AssociatedData, _ object: String,
    limit: Int
  ) throws(RemoteError) -> SignedObject {
    let (sealed, epoch) = try header.sealed(of: stored, object: object)
    let keys = try keys(of: epoch ?? 1, object)
    let payload: [UInt8]
    do throws(SealError) {
      payload = try (header.isLog ? keys.log : keys.record).open(
        sealed, associated, epoch: epoch, limit: limit + (epoch == nil ? 0 : Self.prefix))
      guard epoch == nil || payload.count >= Self.prefix else {
        throw SealError(reason: "it is cut short")
      }
    } catch {
      throw .damaged(object: object, reason: error.reason)
    }
    guard let epoch else {
      return SignedObject(body: payload, signature: .none, counter: 0, epoch: 0)
    }
    guard let signer = DeviceID(bytes: payload[..<16]) else {
      preconditionFailure("an identity has 16 bytes")
    }
    let members = UInt64(bigEndianBytes: payload[16..<24])
    let counter = UInt64(bigEndianBytes: payload[24..<32])
    let body = Array(payload[Self.prefix...])
    let membership = membership
    // A device that was removed may name any entry, and under the name of any device. It does not
    // have the newest key, and whoever knows a later entry has.
    if members > membership.number, epoch >= membership.epoch, !membership.isRemoved(signer) {
      throw .membersBehind(object: object, entry: members)
    }
    let signed = Self.signed(
      account, associated.bytes(epoch: epoch), signer, members, counter, body)
    let isGenuine =
      membership.known(signer)?.isSignature(Array(payload[32..<Self.prefix]), of: signed) ?? false
    return SignedObject(
      body: body, signature: isGenuine ? .genuine(signer: signer, members: members) : .forged,
      counter: counter, epoch: epoch)
  }

  private static func signed(
    _ account: [UInt8], _ associated: [UInt8], _ signer: DeviceID, _ members: UInt64,
    _ counter: UInt64, _ body: [UInt8]
  ) -> [UInt8] {
    Array("ubiquityfs object".utf8) + [0] + account + Array(SHA256.hash(data: associated))
      + signer.bytes + members.bigEndianBytes + counter.bigEndianBytes
      + Array(SHA256.hash(data: body))
  }

  /// Whether an object outside of a log may be believed: a device signed it that is a member now.
  /// An unsigned one may as long as no device was ever removed: whoever wrote it had the keys, and
  /// still has them.
  func isValid(_ signature: ObjectSignature) -> Bool {
    let membership = membership
    return switch signature {
    case .none: membership.lastRotation == 0
    case .genuine(let signer, _): membership.isMember(signer)
    case .forged: false
    }
  }

  /// Whether a segment counts. `inForce`: the entry of the member log that the log before it names.
  ///
  /// Every device decides the same, since nothing but the log before the segment and the member log
  /// up to the entry that it names is asked. Entries after that change nothing: one that removes
  /// the signer has a greater number.
  func isInForce(_ object: SignedObject, after inForce: UInt64) -> Bool {
    if PlantedMistake.believesRemoved.isPlanted { return object.signature != .forged }
    switch object.signature {
    case .none: return inForce == 0
    case .forged: return false
    case .genuine(let signer, let members):
      let membership = membership
      return members >= inForce && membership.isMember(signer, at: members)
        && object.epoch == membership.epoch(at: members)
    }
  }
}
