@preconcurrency import Crypto
import Model
import RecordFormat

@testable import RemoteStore

/// Decoders of objects that a present or removed member can sign and seal.
extension FuzzTarget {
  static let memberTargets: [FuzzTarget] = [
    // Messages, each after its length in two bytes. A message that decodes to an entry gets the
    // right hash and signer. All are signed and sealed correctly.
    FuzzTarget(
      "member-log",
      seeds: {
        let other = Member(
          device: DeviceID(high: 5, low: 6), name: "Grace",
          signingKey: [UInt8](repeating: 1, count: 32),
          agreementKey: identity.member.agreementKey)
        let time = Timestamp(nanoseconds: 7)
        var membership = Membership(account: account, masters: [1: master], identity: identity)
        var entries: [[UInt8]] = []
        for added in [identity.member, other] {
          let entry = MemberEntry(
            previous: [], signer: identity.device, time: time, added: added)
          entries.append(entry.encoded())
          try membership.fold(stored(entry.encoded(), after: membership))
        }
        let rotation = try membership.rotation(
          removing: [other.device], secret: AccountSecret.generate(), by: identity, time: time)
        entries.append(rotation.encoded())
        return [entries.flatMap { [UInt8($0.count >> 8), UInt8($0.count & 0xFF)] + $0 }]
      },
      run: { bytes in
        var input = InputReader(bytes)
        var membership = Membership(account: account, masters: [1: master], identity: identity)
        while !input.rest.isEmpty {
          let count = input.word16()
          let before = membership
          let isTaken = (try? membership.fold(stored(input.take(count), after: before))) != nil
          guard isTaken else {
            try expect(
              membership.number == before.number && membership.stored == before.stored
                && membership.members == before.members && membership.epoch == before.epoch,
              "an entry of the member log that is refused changes something")
            break
          }
          try expect(
            membership.number == before.number + 1, "an entry of the member log does not count")
        }
        for member in membership.members {
          try expect(
            membership.isMember(member.device) && !membership.isRemoved(member.device),
            "a member is none")
        }
      }),
    // The payload of a sealed object: signer, entry, counter, signature and body.
    FuzzTarget(
      "signed-object",
      seeds: {
        [identity.device.bytes + [UInt8](repeating: 0, count: 80) + [UInt8]("body"), []]
      },
      run: { bytes in
        let state = try AccountState(
          account: account, masters: [1: master], secret: AccountSecret("a passphrase"),
          identity: identity, memory: NoMemory())
        var associated = AssociatedData("fuzz")
        associated.append(account)
        let sealed = SealingKey(recordKey).seal(bytes, associated, epoch: 1)
        guard
          let object = try? state.openSigned(
            ObjectHeader.quota.bytes(epoch: 1) + sealed, .quota, associated, "object", limit: 4096)
        else { return }
        try expect(object.signature == .forged, "an object that nobody signed counts as signed")
        try expect(!state.isInForce(object, after: 0), "an object that nobody signed is in force")
      }),
    FuzzTarget(
      "pairing-code", limit: 128,
      seeds: { [[UInt8](PairingCode().description), [UInt8]("l0o1 i-")] },
      run: { bytes in
        guard let code = try? PairingCode(bytes.text) else { return }
        try expect(
          (try? PairingCode(code.description)) == code, "“\(code)” is read as another code")
      }),
    // The device's own memory of the account, which a disk may have damaged.
    FuzzTarget(
      "account-memory",
      seeds: {
        [
          ByteList.encode([
            account, [UInt8]("account/quota"), [UInt8](repeating: 1, count: 16), [9],
          ])
        ]
      },
      run: { bytes in
        if let list = ByteList.decode(bytes) {
          try expect(ByteList.encode(list) == bytes, "a list of bytes has two encodings")
        }
        let seen = SeenRecords(account: account, memory: FixedMemory(bytes: bytes))
        let version = seen[ObjectName.quota]?.version ?? RecordVersion()
        let older = seen.note(ObjectName.quota, RecordVersion(), [])
        try expect(
          !older || version == RecordVersion(), "an older version of an object takes its place")
      }),
  ]

  private static let account = [UInt8](repeating: 3, count: 16)
  private static let master = SymmetricKey(data: [UInt8](repeating: 7, count: 32))
  private static let recordKey = HKDF<SHA256>.deriveKey(
    inputKeyMaterial: master, salt: account, info: [UInt8]("ubiquityfs/v1/record"),
    outputByteCount: 32)
  private static let identity: DeviceIdentity = {
    let keys = [UInt8](repeating: 9, count: 64)
    guard
      let identity = DeviceIdentity(
        device: DeviceID(high: 1, low: 2), name: "Ada", privateKeys: keys)
    else { preconditionFailure("any 32 bytes are a key of Curve25519") }
    return identity
  }()

  private static func stored(_ given: [UInt8], after membership: Membership) -> [UInt8] {
    var message = given
    if var entry = try? MemberEntry(decoding: given) {
      entry.previous = membership.hash
      entry.signer = identity.device
      message = entry.encoded()
    }
    let number = membership.number + 1
    let signature = identity.signature(
      of: [UInt8]("ubiquityfs member entry") + [0] + account + number.bigEndianBytes
        + Array(SHA256.hash(data: message)))
    let epoch = membership.epochs[membership.epoch] == nil ? 1 : membership.epoch
    guard let keys = membership.epochs[epoch] else { return [] }
    return ObjectHeader.member.bytes(epoch: epoch)
      + keys.record.seal(
        signature + message, Membership.associated(account, number), epoch: epoch)
  }
}

private struct FixedMemory: AccountMemory {
  let bytes: [UInt8]

  func load(_: AccountMemoryPart) -> [UInt8]? { bytes }
  func save(_: AccountMemoryPart, _: [UInt8]) {}
}
