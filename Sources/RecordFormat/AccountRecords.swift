internal import FoundationEssentials
package import Model

/// A container's own description.
package struct ContainerInfo: Equatable, Sendable {
  package var id: ContainerID
  package var created: Timestamp
  package var creator: DeviceID
  /// Names the objects of this container, and of none that had its name before.
  package var incarnation: IncarnationID

  package init(
    id: ContainerID, created: Timestamp, creator: DeviceID, incarnation: IncarnationID
  ) {
    self.id = id
    self.created = created
    self.creator = creator
    self.incarnation = incarnation
  }

  package func encoded() -> [UInt8] {
    var wire = WireContainerInfo()
    wire.id = id.description
    wire.created = created.nanoseconds
    wire.creator = Data(creator.bytes)
    wire.incarnation = Data(incarnation.bytes)
    return Wire.encode(wire)
  }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireContainerInfo.self, bytes)
    let id: ContainerID
    do throws(ContainerID.Invalid) {
      id = try ContainerID(wire.id)
    } catch {
      throw RecordError("the container's name is not allowed: \(error.reason)")
    }
    self.init(
      id: id, created: Timestamp(nanoseconds: wire.created),
      creator: try Wire.identifier(wire.creator, "the container's creator"),
      incarnation: try Wire.identifier(wire.incarnation, "the container's incarnation"))
  }
}

extension DeviceRecord {
  package func encoded() -> [UInt8] {
    var wire = WireDeviceRecord()
    wire.id = Data(id.bytes)
    wire.name = name
    wire.lastSeen = lastSeen.nanoseconds
    wire.usage = usage.sorted { $0.incarnation < $1.incarnation }.map { usage in
      var wire = WireContainerUsage()
      wire.incarnation = Data(usage.incarnation.bytes)
      wire.sequence = usage.sequence
      wire.bytes = usage.bytes
      return wire
    }
    return Wire.encode(wire)
  }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireDeviceRecord.self, bytes)
    guard !wire.name.isEmpty, wire.name.utf8.count <= RecordLimits.deviceName else {
      throw RecordError("the device's name is empty or too long")
    }
    self.init(
      id: try Wire.identifier(wire.id, "a device"), name: wire.name,
      lastSeen: Timestamp(nanoseconds: wire.lastSeen),
      usage: try wire.usage.map { wire throws(RecordError) in
        ContainerUsage(
          incarnation: try Wire.identifier(wire.incarnation, "a container's incarnation"),
          sequence: try Wire.number(wire.sequence, "the segment of a container's usage"),
          bytes: try Wire.number(wire.bytes, "a container's usage"))
      })
  }
}

extension AccountQuota {
  package func encoded() -> [UInt8] {
    var wire = WireAccountQuota()
    if let limit { wire.limit = limit }
    wire.time = time.nanoseconds
    wire.device = Data(device.bytes)
    return Wire.encode(wire)
  }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireAccountQuota.self, bytes)
    self.init(
      limit: wire.hasLimit ? wire.limit : nil, time: Timestamp(nanoseconds: wire.time),
      device: try Wire.identifier(wire.device, "the device that set the quota"))
  }
}

/// What an account's `format` object says: how its master key is had from its secret.
package struct AccountFormat: Equatable, Sendable {
  package var version: UInt32
  /// 16 bytes; different for every account that was ever made.
  package var account: [UInt8]
  /// 16 bytes.
  package var salt: [UInt8]
  /// scrypt's cost is two to the power of this.
  package var costExponent: UInt32
  package var blockSize: UInt32
  package var parallelism: UInt32
  /// The sealed master key of the epoch.
  package var wrappedKey: [UInt8]
  /// From 1 on.
  package var epoch: UInt32
  /// The master keys of the epochs before, sealed under this one's; empty in the first epoch.
  package var olderKeys: [UInt8]

  package init(
    version: UInt32, account: [UInt8], salt: [UInt8], costExponent: UInt32, blockSize: UInt32,
    parallelism: UInt32, wrappedKey: [UInt8], epoch: UInt32 = 1, olderKeys: [UInt8] = []
  ) {
    self.version = version
    self.account = account
    self.salt = salt
    self.costExponent = costExponent
    self.blockSize = blockSize
    self.parallelism = parallelism
    self.wrappedKey = wrappedKey
    self.epoch = epoch
    self.olderKeys = olderKeys
  }

  package func encoded() -> [UInt8] {
    var wire = WireAccountFormat()
    wire.version = version
    wire.account = Data(account)
    wire.salt = Data(salt)
    wire.scryptLogN = costExponent
    wire.scryptR = blockSize
    wire.scryptP = parallelism
    wire.wrappedKey = Data(wrappedKey)
    if version > 1 { wire.epoch = UInt64(epoch) }
    wire.olderKeys = Data(olderKeys)
    return Wire.encode(wire)
  }

  /// The version that this code writes. It reads 1 too, which has no epochs.
  package static let currentVersion: UInt32 = 2

  /// Checks sizes, and costs that a hostile backend could make ruinous. Of a later version than
  /// `currentVersion` only `version` means anything; the caller checks it first.
  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireAccountFormat.self, bytes)
    guard (1...Self.currentVersion).contains(wire.version) else {
      self.init(
        version: wire.version, account: [], salt: [], costExponent: 0, blockSize: 0,
        parallelism: 0, wrappedKey: [])
      return
    }
    guard wire.account.count == 16, wire.salt.count == 16, wire.wrappedKey.count == 60 else {
      throw RecordError("the account's identity, salt or key has the wrong length")
    }
    guard (10...20).contains(wire.scryptLogN), (1...16).contains(wire.scryptR),
      (1...4).contains(wire.scryptP)
    else { throw RecordError("the key derivation's costs are outside the limits") }
    let number = try Wire.number(
      wire.epoch, "the account's epoch", limit: UInt64(RecordLimits.epochs))
    let epoch = wire.version == 1 ? 1 : number
    // A nonce, the keys and a tag.
    guard epoch > 0, wire.olderKeys.count == (epoch == 1 ? 0 : 28 + 32 * Int(epoch - 1)) else {
      throw RecordError("the account lacks the keys of earlier epochs")
    }
    self.init(
      version: wire.version, account: [UInt8](wire.account), salt: [UInt8](wire.salt),
      costExponent: wire.scryptLogN, blockSize: wire.scryptR, parallelism: wire.scryptP,
      wrappedKey: [UInt8](wire.wrappedKey), epoch: UInt32(epoch),
      olderKeys: [UInt8](wire.olderKeys))
  }
}
