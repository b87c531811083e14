@preconcurrency internal import Crypto
package import Model
internal import Platform
internal import RecordFormat

/// The member log as it folds to: who belongs to the account, since when, and the keys of epochs.
///
/// Invariants:
/// - Entries count from 1 without gaps. Each has the hash of the one before.
/// - Entry N is sealed under the epoch that held before it, so that a device that it removes can
///   still read it, and nothing after it.
/// - A device that was removed never comes back under its identity. So it is no member at any later
///   entry, whatever entry an object of it names.
/// - After an entry that begins a move no other comes but another such one, or one that ends it.
struct Membership: Sendable {
  private struct Standing {
    let member: Member
    let added: UInt64
    var removed: UInt64?
    var remover: DeviceID?
  }

  let account: [UInt8]
  private let identity: DeviceIdentity?
  /// The last entry.
  private(set) var number: UInt64 = 0
  private(set) var hash: [UInt8] = []
  /// All entries as stored, in their order.
  private(set) var stored: [[UInt8]] = []
  /// The last entry that began an epoch; 0: there is none.
  private(set) var lastRotation: UInt64 = 0
  /// The `format` that the newest entry with one has; empty: none has.
  private(set) var format: [UInt8] = []
  /// A move to another store that has not ended here: the store that was read is the one that the
  /// account leaves.
  private(set) var move: StoreMove?
  /// The last entry that began a move, and the last that ended one; 0: there is none.
  private(set) var lastMove: UInt64 = 0
  private(set) var lastArrival: UInt64 = 0
  /// The secret of the newest epoch, sealed, if an entry began it.
  private var sealedSecret: [UInt8]?
  private var standings: [DeviceID: Standing] = [:]
  /// The first entry of each epoch but the first, ascending.
  private var beginnings: [(entry: UInt64, epoch: UInt32)] = []
  private(set) var epochs: [UInt32: EpochKeys]

  init(account: [UInt8], masters: [UInt32: SymmetricKey], identity: DeviceIdentity?) {
    self.account = account
    self.identity = identity
    epochs = masters.mapValues { EpochKeys(master: $0, account: account) }
  }

  /// The last entry that every log is to name.
  var lastNotice: UInt64 { max(lastRotation, lastMove) }

  /// Of the newest entry.
  var epoch: UInt32 { beginnings.last?.epoch ?? 1 }

  func epoch(at entry: UInt64) -> UInt32 {
    beginnings.last { $0.entry <= entry }?.epoch ?? 1
  }

  /// Nil: there is no such entry.
  func hash(of entry: UInt64) -> [UInt8]? {
    guard entry > 0, entry <= number else { return nil }
    return Array(SHA256.hash(data: stored[Int(entry - 1)]))
  }

  func isMember(_ device: DeviceID, at entry: UInt64) -> Bool {
    guard let standing = standings[device], standing.added <= entry else { return false }
    return standing.removed.map { entry < $0 } ?? true
  }

  func isMember(_ device: DeviceID) -> Bool { isMember(device, at: number) }

  /// As it was added; also after it was removed.
  func known(_ device: DeviceID) -> Member? { standings[device]?.member }

  /// The device that removed it; nil: it was not removed.
  func remover(of device: DeviceID) -> DeviceID? { standings[device]?.remover }

  func isRemoved(_ device: DeviceID) -> Bool { standings[device]?.removed != nil }

  /// By identity.
  var members: [Member] {
    standings.values.filter { $0.removed == nil }.map(\.member).sorted { $0.device < $1.device }
  }

  // MARK: - Entries

  static func associated(_ account: [UInt8], _ number: UInt64) -> AssociatedData {
    var result = AssociatedData("member")
    result.append(account)
    result.append(number)
    return result
  }

  /// What the device of an entry signs.
  private static func signed(_ account: [UInt8], _ number: UInt64, _ message: [UInt8]) -> [UInt8] {
    Array("ubiquityfs member entry".utf8) + [0] + account + number.bigEndianBytes
      + Array(SHA256.hash(data: message))
  }

  /// The next entry as it is to be stored, signed by this device.
  func sealed(_ entry: MemberEntry, by identity: DeviceIdentity) -> [UInt8] {
    let message = entry.encoded()
    let signature = identity.signature(of: Self.signed(account, number + 1, message))
    guard let keys = epochs[epoch] else { preconditionFailure("a member has the epoch's key") }
    return ObjectHeader.member.bytes(epoch: epoch)
      + keys.record.seal(
        signature + message, Self.associated(account, number + 1), epoch: epoch)
  }

  /// Adds the next entry as stored. Throws with nothing changed for one that breaks a rule, and
  /// `.epochUnknown` for one that is sealed under a key that this device was never given.
  mutating func fold(_ stored: [UInt8]) throws(RemoteError) {
    let (next, overflow) = number.addingReportingOverflow(1)
    let object = ObjectName.member(next)
    guard !overflow else { throw .tooLarge("the member log") }
    let entry = try open(stored, object, next)
    if move != nil, entry.movesTo == nil, !entry.hasArrived {
      throw .damaged(
        object: object, reason: "it follows the entry that moved the account to another backend")
    }
    if let added = entry.added {
      guard standings[added.device] == nil else {
        throw .damaged(object: object, reason: "it adds a device that was added before")
      }
      standings[added.device] = Standing(member: added, added: next)
    }
    if let rotation = entry.rotation {
      try check(entry, rotation, object)
      begin(rotation, at: next, object)
      for device in entry.removed {
        standings[device]?.removed = next
        standings[device]?.remover = entry.signer
      }
    }
    if let store = entry.movesTo {
      move = StoreMove(store: store, entry: next)
      lastMove = next
    } else if entry.hasArrived {
      guard move != nil else {
        throw .damaged(object: object, reason: "it ends a move of the backend that did not begin")
      }
      move = nil
      lastArrival = next
    }
    if !entry.format.isEmpty { format = entry.format }
    number = next
    hash = Array(SHA256.hash(data: stored))
    self.stored.append(stored)
  }

  private func open(_ stored: [UInt8], _ object: String, _ next: UInt64) throws(RemoteError)
    -> MemberEntry
  {
    func damage(_ reason: String) -> RemoteError { .damaged(object: object, reason: reason) }
    let (sealed, named) = try ObjectHeader.member.sealed(of: stored, object: object)
    guard named == epoch else { throw damage("its epoch does not match its position") }
    guard let keys = epochs[epoch] else { throw .epochUnknown(object: object) }
    let entry: MemberEntry
    let payload: [UInt8]
    do {
      payload = try keys.record.open(
        sealed, Self.associated(account, next), epoch: epoch, limit: RemoteLimits.smallObject)
      guard payload.count > 64 else { throw SealError(reason: "it is cut short") }
      entry = try MemberEntry(decoding: Array(payload[64...]))
    } catch let error as SealError {
      throw damage(error.reason)
    } catch {
      throw damage("\(error)")
    }
    guard entry.previous == hash else { throw damage("it does not follow the entry before it") }
    let isOwn = entry.added?.device == entry.signer
    guard isOwn || isMember(entry.signer), number > 0 || isOwn else {
      throw damage("its signer is not a member")
    }
    let signer = isOwn ? entry.added : known(entry.signer)
    let signed = Self.signed(account, next, Array(payload[64...]))
    guard let signer, signer.isSignature(Array(payload[..<64]), of: signed) else {
      throw damage("its signature is wrong")
    }
    return entry
  }

  private func check(_ entry: MemberEntry, _ rotation: KeyRotation, _ object: String)
    throws(RemoteError)
  {
    let left = Set(members.map(\.device)).subtracting(entry.removed)
    guard rotation.epoch == epoch + 1, entry.removed.allSatisfy({ isMember($0) }),
      left.contains(entry.signer), Set(rotation.keys.keys) == left
    else {
      throw .damaged(object: object, reason: "its keys do not match the remaining members")
    }
    let description = try RemoteAccount.read(entry.format)
    guard description.account == account, description.epoch == rotation.epoch else {
      throw .damaged(object: object, reason: "its format belongs to another account or epoch")
    }
  }

  private mutating func begin(_ rotation: KeyRotation, at entry: UInt64, _ object: String) {
    beginnings.append((entry, rotation.epoch))
    lastRotation = entry
    sealedSecret = rotation.secret
    if epochs[rotation.epoch] == nil, let identity, let sealed = rotation.keys[identity.device],
      let key = identity.open(sealed, info: Self.keyInfo(account, rotation.epoch)),
      key.count == 32
    {
      epochs[rotation.epoch] = EpochKeys(master: SymmetricKey(data: key), account: account)
    }
  }

  /// The secret of the newest epoch, if an entry began it. Each call decrypts it, so that no copy
  /// stays in memory.
  var secret: AccountSecret? {
    guard let sealedSecret, let keys = epochs[epoch],
      var bytes = try? keys.record.open(
        sealedSecret[...], Self.secretData(account, epoch), limit: 8192)
    else { return nil }
    defer { SecretBytes.wipe(&bytes) }
    return try? AccountSecret(SecretBytes(copying: bytes))
  }

  // MARK: - Rotation

  static func keyInfo(_ account: [UInt8], _ epoch: UInt32) -> [UInt8] {
    Array("ubiquityfs epoch".utf8) + [0] + account + epoch.bigEndianBytes
  }

  private static func secretData(_ account: [UInt8], _ epoch: UInt32) -> AssociatedData {
    var result = AssociatedData("secret")
    result.append(account)
    result.append(epoch)
    return result
  }

  /// The next entry: it begins an epoch with new keys and a new secret, and removes devices.
  func rotation(
    removing removed: Set<DeviceID>, secret: AccountSecret, by identity: DeviceIdentity,
    time: Timestamp
  ) throws(RemoteError) -> MemberEntry {
    let next = epoch + 1
    guard next <= RecordLimits.epochs else { throw .tooLarge("the list of epochs") }
    var older: [SymmetricKey] = []
    for number in 1...epoch {
      guard let keys = epochs[number] else {
        throw .epochUnknown(object: ObjectName.member(self.number))
      }
      older.append(keys.master)
    }
    let (master, description) = try MasterKey.wrap(older, account: account, secret: secret)
    var keys: [DeviceID: [UInt8]] = [:]
    for member in members where !removed.contains(member.device) {
      let info = Self.keyInfo(account, next)
      guard let sealed = member.seal(master.bytes, info: info) else {
        throw .malformed("the key of device \(member.device) is not valid")
      }
      keys[member.device] = sealed
    }
    let new = EpochKeys(master: master, account: account)
    return MemberEntry(
      previous: hash, signer: identity.device, time: time, removed: removed.sorted(),
      rotation: KeyRotation(
        epoch: next, keys: keys,
        secret: secret.bytes.withArray {
          new.record.seal($0, Self.secretData(account, next))
        }),
      format: ObjectHeader.format.latestBytes + description.encoded())
  }
}
