internal import FoundationEssentials
package import Model

/// A device of the account, with the public halves of its keys.
package struct Member: Hashable, Sendable {
  package var device: DeviceID
  /// What it was called when it was added; 1 to 255 bytes.
  package var name: String
  /// Ed25519, 32 bytes.
  package var signingKey: [UInt8]
  /// X25519, 32 bytes.
  package var agreementKey: [UInt8]

  package init(device: DeviceID, name: String, signingKey: [UInt8], agreementKey: [UInt8]) {
    self.device = device
    self.name = name
    self.signingKey = signingKey
    self.agreementKey = agreementKey
  }

  package func encoded() -> [UInt8] { Wire.encode(wire) }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    try self.init(wire: try Wire.decode(WireMember.self, bytes))
  }

  fileprivate var wire: WireMember {
    var wire = WireMember()
    wire.device = Data(device.bytes)
    wire.name = name
    wire.signingKey = Data(signingKey)
    wire.agreementKey = Data(agreementKey)
    return wire
  }

  fileprivate init(wire: WireMember) throws(RecordError) {
    guard !wire.name.isEmpty, wire.name.utf8.count <= RecordLimits.deviceName else {
      throw RecordError("a member's name is empty or too long")
    }
    guard wire.signingKey.count == 32, wire.agreementKey.count == 32 else {
      throw RecordError("a member's keys do not have 32 bytes")
    }
    self.init(
      device: try Wire.identifier(wire.device, "a member"), name: wire.name,
      signingKey: [UInt8](wire.signingKey), agreementKey: [UInt8](wire.agreementKey))
  }
}

/// The beginning of an epoch: its key, sealed for each member.
package struct KeyRotation: Hashable, Sendable {
  package var epoch: UInt32
  /// HPKE's encapsulated key (32 bytes), then the ciphertext.
  package var keys: [DeviceID: [UInt8]]
  /// The account's new secret, sealed under the new epoch's key.
  package var secret: [UInt8]

  package init(epoch: UInt32, keys: [DeviceID: [UInt8]], secret: [UInt8]) {
    self.epoch = epoch
    self.keys = keys
    self.secret = secret
  }
}

/// One entry of the account's member log.
package struct MemberEntry: Hashable, Sendable {
  /// SHA-256 of the entry before it as stored; empty in the first.
  package var previous: [UInt8]
  package var signer: DeviceID
  package var time: Timestamp
  package var added: Member?
  /// Ascending; only with `rotation`: what is removed loses the keys in the same moment.
  package var removed: [DeviceID]
  package var rotation: KeyRotation?
  /// The object `format`, as stored, that holds from here on; empty: the one before holds.
  package var format: [UInt8]
  /// The URL of the store that the account's objects go to.
  package var movesTo: String?
  /// The store that has this entry has all of the account's objects.
  package var hasArrived: Bool

  package init(
    previous: [UInt8], signer: DeviceID, time: Timestamp, added: Member? = nil,
    removed: [DeviceID] = [], rotation: KeyRotation? = nil, format: [UInt8] = [],
    movesTo: String? = nil, hasArrived: Bool = false
  ) {
    self.previous = previous
    self.signer = signer
    self.time = time
    self.added = added
    self.removed = removed
    self.rotation = rotation
    self.format = format
    self.movesTo = movesTo
    self.hasArrived = hasArrived
  }

  package func encoded() -> [UInt8] {
    var wire = WireMemberEntry()
    wire.previous = Data(previous)
    wire.signer = Data(signer.bytes)
    wire.time = time.nanoseconds
    if let added { wire.added = added.wire }
    wire.removed = removed.sorted().map { Data($0.bytes) }
    if let rotation {
      wire.rotation.epoch = UInt64(rotation.epoch)
      wire.rotation.keys = rotation.keys.sorted { $0.key < $1.key }.map { device, sealed in
        var wire = WireEpochKey()
        wire.device = Data(device.bytes)
        wire.sealed = Data(sealed)
        return wire
      }
      wire.rotation.secret = Data(rotation.secret)
    }
    wire.format = Data(format)
    if let movesTo { wire.move.store = movesTo }
    wire.arrived = hasArrived
    return Wire.encode(wire)
  }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireMemberEntry.self, bytes)
    guard wire.previous.isEmpty || wire.previous.count == 32 else {
      throw RecordError("the previous entry's hash has \(wire.previous.count) bytes")
    }
    var removed: [DeviceID] = []
    for data in wire.removed {
      let id: DeviceID = try Wire.identifier(data, "a removed device")
      if let last = removed.last, !(last < id) {
        throw RecordError("removed devices are not sorted or not distinct")
      }
      removed.append(id)
    }
    let acts = [wire.hasAdded, wire.hasRotation, wire.hasMove, wire.arrived]
    guard acts.count(where: \.self) == 1, removed.isEmpty || wire.hasRotation else {
      throw RecordError("the entry does not have exactly one action")
    }
    guard wire.move.store.utf8.count <= RecordLimits.storeAddress,
      !wire.hasMove || !wire.move.store.isEmpty
    else { throw RecordError("the address of a backend is empty or too long") }
    self.init(
      previous: [UInt8](wire.previous),
      signer: try Wire.identifier(wire.signer, "the entry's device"),
      time: Timestamp(nanoseconds: wire.time),
      added: wire.hasAdded ? try Member(wire: wire.added) : nil, removed: removed,
      rotation: wire.hasRotation ? try Self.rotation(wire.rotation) : nil,
      format: [UInt8](wire.format), movesTo: wire.hasMove ? wire.move.store : nil,
      hasArrived: wire.arrived)
  }

  private static func rotation(_ wire: WireRotation) throws(RecordError) -> KeyRotation {
    let epoch = try Wire.number(
      wire.epoch, "the number of an epoch", limit: UInt64(RecordLimits.epochs))
    var keys: [DeviceID: [UInt8]] = [:]
    var last: DeviceID?
    for key in wire.keys {
      let device: DeviceID = try Wire.identifier(key.device, "the device of a key")
      if let last, !(last < device) { throw RecordError("an epoch's keys are not sorted") }
      last = device
      guard key.sealed.count <= RecordLimits.sealedKey else {
        throw RecordError("a sealed key is too long")
      }
      keys[device] = [UInt8](key.sealed)
    }
    guard !keys.isEmpty, wire.secret.count <= RecordLimits.sealedSecret else {
      throw RecordError("an epoch has no keys, or its secret is too long")
    }
    return KeyRotation(epoch: UInt32(epoch), keys: keys, secret: [UInt8](wire.secret))
  }
}
