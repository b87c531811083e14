internal import FoundationEssentials
package import Model

extension SnapshotPart {
  package func encoded() -> [UInt8] {
    var wire = WireSnapshotPart()
    wire.items = items.map(\.wire)
    var start = 0
    while start < chunks.count {
      let pack = chunks[start].pack
      let end = chunks[start...].firstIndex { $0.pack != pack } ?? chunks.count
      wire.chunks.append(PackContents.wire(pack, Array(chunks[start..<end])))
      start = end
    }
    wire.removed = removed.map { item in
      var wire = WireRemovedRecord()
      wire.record = item.record.wire
      wire.time = item.removed.nanoseconds
      wire.device = Data(item.device.bytes)
      return wire
    }
    wire.packs = packs.map { record in
      var wire = WirePackRecord()
      wire.pack = Data(record.pack.bytes)
      wire.bytes = record.bytes
      wire.state = WirePackState(rawValue: Int(record.state.rawValue)) ?? .inUse
      wire.condemnedAt = record.condemnedAt
      return wire
    }
    return Wire.encode(wire)
  }

  /// What is true of one part alone is checked here; order over all parts is for who takes them in.
  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireSnapshotPart.self, bytes)
    self.init()
    items.reserveCapacity(wire.items.count)
    for record in wire.items {
      let record = try ItemRecord(wire: record)
      if let last = items.last, !(last.id < record.id) {
        throw RecordError("items are not sorted or not distinct")
      }
      items.append(record)
    }
    for pack in wire.chunks { chunks += try PackContents.locations(pack) }
    for wire in wire.removed {
      let item = RemovedItem(
        record: try ItemRecord(wire: wire.record), removed: Timestamp(nanoseconds: wire.time),
        device: try Wire.identifier(wire.device, "a removing device"))
      if let last = removed.last, !(last.record.id < item.record.id) {
        throw RecordError("removed items are not sorted or not distinct")
      }
      removed.append(item)
    }
    for wire in wire.packs {
      guard let state = PackRecord.State(rawValue: UInt8(clamping: wire.state.rawValue)) else {
        throw RecordError("a pack is in an unknown state")
      }
      let record = PackRecord(
        pack: try Wire.identifier(wire.pack, "a pack"),
        bytes: try Wire.number(wire.bytes, "a pack's length"), state: state,
        condemnedAt: try Wire.number(wire.condemnedAt, "the segment that condemned a pack"))
      if let last = packs.last, !(last.pack < record.pack) {
        throw RecordError("packs are not sorted or not distinct")
      }
      packs.append(record)
    }
  }
}

extension SnapshotIndex {
  package func encoded() -> [UInt8] {
    var wire = WireSnapshotIndex()
    wire.sequence = position.sequence
    wire.logHash = Data(position.hash)
    wire.device = Data(origin.device.bytes)
    wire.time = origin.time.nanoseconds
    wire.writer = Data(writer.bytes)
    wire.partHashes = Data(parts.flatMap(\.hash))
    wire.partLengths = parts.map(\.length)
    wire.items = items
    if let recovery { wire.recovery = recovery.wire }
    wire.knownSequences = known.map(\.sequence)
    wire.knownHashes = Data(known.flatMap(\.hash))
    wire.members = position.members
    return Wire.encode(wire)
  }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireSnapshotIndex.self, bytes)
    let sequence = try Wire.number(wire.sequence, "the snapshot's segment")
    guard sequence > 0, wire.logHash.count == 32 else {
      throw RecordError("the snapshot does not name its log")
    }
    let count = wire.partLengths.count
    guard count > 0, count <= RecordLimits.snapshotParts, wire.partHashes.count == count * 32 else {
      throw RecordError("the snapshot has \(count) parts, which does not match its hashes")
    }
    let hashes = [UInt8](wire.partHashes)
    self.init(
      position: LogPosition(
        sequence: sequence, hash: [UInt8](wire.logHash),
        members: try Wire.number(wire.members, "the entry of the member log of a snapshot")),
      origin: LogOrigin(
        device: try Wire.identifier(wire.device, "the snapshot's device"),
        time: Timestamp(nanoseconds: wire.time)),
      writer: try Wire.identifier(wire.writer, "the snapshot's writer"),
      parts: try (0..<count).map { index throws(RecordError) in
        Part(
          hash: Array(hashes[index * 32..<index * 32 + 32]),
          length: try Wire.number(
            wire.partLengths[index], "a snapshot part's length",
            limit: RecordLimits.snapshotPartLength))
      }, items: try Wire.number(wire.items, "the snapshot's items"),
      recovery: wire.hasRecovery
        ? try LogRecovery(wire: wire.recovery, upTo: sequence) : nil,
      known: try LogPosition.list(wire.knownSequences, wire.knownHashes, before: sequence))
  }
}

extension LogPosition {
  /// At most `LogRecovery.mostKnown`, ascending, all before `limit`.
  fileprivate static func list(
    _ sequences: [UInt64], _ hashes: Data, before limit: UInt64
  ) throws(RecordError) -> [LogPosition] {
    guard sequences.count <= LogRecovery.mostKnown, hashes.count == sequences.count * 32,
      zip(sequences, sequences.dropFirst()).allSatisfy({ $0 < $1 }),
      sequences.last.map({ $0 < limit }) ?? true
    else { throw RecordError("the segments that the writer had read do not match its log") }
    let bytes = [UInt8](hashes)
    return sequences.enumerated().map { index, sequence in
      LogPosition(sequence: sequence, hash: Array(bytes[index * 32..<index * 32 + 32]))
    }
  }
}

extension LogRecovery {
  package func encoded() -> [UInt8] { Wire.encode(wire) }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    try self.init(wire: try Wire.decode(WireRecovery.self, bytes), upTo: RecordLimits.number)
  }

  fileprivate var wire: WireRecovery {
    var wire = WireRecovery()
    wire.number = number
    wire.sequence = sequence
    wire.knownSequences = known.map(\.sequence)
    wire.knownHashes = Data(known.flatMap(\.hash))
    wire.disputedPackages = disputed.map { Data($0.bytes) }
    return wire
  }

  fileprivate init(wire: WireRecovery, upTo limit: UInt64) throws(RecordError) {
    let number = try Wire.number(wire.number, "a recovery's number")
    let sequence = try Wire.number(wire.sequence, "a recovery's segment", limit: limit)
    guard number > 0, sequence > 0 else { throw RecordError("a recovery does not match its log") }
    let known = try LogPosition.list(wire.knownSequences, wire.knownHashes, before: sequence)
    guard wire.disputedPackages.count <= Self.mostDisputed else {
      throw RecordError("a recovery names \(wire.disputedPackages.count) packages")
    }
    var disputed: [ItemID] = []
    for data in wire.disputedPackages {
      let id: ItemID = try Wire.identifier(data, "a package of a recovery")
      guard disputed.last.map({ $0 < id }) ?? true else {
        throw RecordError("the packages of a recovery are not sorted or not distinct")
      }
      disputed.append(id)
    }
    self.init(
      number: number, sequence: sequence, known: known, disputed: disputed)
  }
}

extension DeviceCursor {
  package func encoded() -> [UInt8] {
    var wire = WireDeviceCursor()
    wire.device = Data(device.bytes)
    wire.sequence = sequence
    wire.time = time.nanoseconds
    wire.keepRemovedDays = keepRemovedDays
    if let hash { wire.hash = Data(hash) }
    wire.recovery = recovery
    return Wire.encode(wire)
  }

  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireDeviceCursor.self, bytes)
    guard wire.hash.isEmpty || wire.hash.count == 32 else {
      throw RecordError("a cursor's hash does not have 32 bytes")
    }
    self.init(
      device: try Wire.identifier(wire.device, "the cursor's device"),
      sequence: try Wire.number(wire.sequence, "a cursor's segment"),
      time: Timestamp(nanoseconds: wire.time),
      // Whoever keeps longer than anybody lives keeps as long as the limit.
      keepRemovedDays: min(wire.keepRemovedDays, RecordLimits.days),
      hash: wire.hash.isEmpty ? nil : [UInt8](wire.hash),
      recovery: try Wire.number(wire.recovery, "a cursor's recovery"))
  }
}
