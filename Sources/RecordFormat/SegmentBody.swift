internal import FoundationEssentials
package import Model

/// What a log segment says, when it is opened.
package struct SegmentBody: Equatable, Sendable {
  /// SHA-256 of the previous segment as stored; empty in the first.
  package var previous: [UInt8]
  package var origin: LogOrigin
  package var changes: LogChanges

  package init(previous: [UInt8], origin: LogOrigin, changes: LogChanges) {
    self.previous = previous
    self.origin = origin
    self.changes = changes
  }

  package func encoded() -> [UInt8] {
    var wire = WireSegmentBody()
    wire.previous = Data(previous)
    wire.device = Data(origin.device.bytes)
    wire.time = origin.time.nanoseconds
    wire.upserts = changes.upserts.sorted { $0.id < $1.id }.map(\.wire)
    wire.removals = changes.removals.sorted().map { Data($0.bytes) }
    wire.forgotten = changes.forgotten.sorted().map { Data($0.bytes) }
    wire.condemned = changes.condemned.sorted().map { Data($0.bytes) }
    wire.deleted = changes.deleted.sorted().map { Data($0.bytes) }
    if let snapshot = changes.snapshot {
      wire.snapshot.sequence = snapshot.sequence
      wire.snapshot.bytes = snapshot.bytes
    }
    let packs = Dictionary(grouping: changes.chunks, by: \.pack)
    wire.packs = packs.keys.sorted().map { PackContents.wire($0, packs[$0] ?? []) }
    return Wire.encode(wire)
  }

  /// Upserts, removals and what is forgotten come sorted by identity, chunks by pack and offset.
  package init(decoding bytes: [UInt8]) throws(RecordError) {
    let wire = try Wire.decode(WireSegmentBody.self, bytes)
    guard wire.previous.isEmpty || wire.previous.count == 32 else {
      throw RecordError("the previous segment's hash has \(wire.previous.count) bytes")
    }
    let count =
      wire.upserts.count + wire.removals.count + wire.forgotten.count + wire.condemned.count
      + wire.deleted.count
    guard count <= RecordLimits.records else {
      throw RecordError("the segment has more than \(RecordLimits.records) records")
    }
    var changes = LogChanges()
    changes.upserts.reserveCapacity(wire.upserts.count)
    for record in wire.upserts {
      let record = try ItemRecord(wire: record)
      if let last = changes.upserts.last, !(last.id < record.id) {
        throw RecordError("records are not sorted or not distinct")
      }
      changes.upserts.append(record)
    }
    let upserted = Set(changes.upserts.map(\.id))
    for removal in wire.removals {
      let id: ItemID = try Wire.identifier(removal, "a removed item")
      if let last = changes.removals.last, !(last < id) {
        throw RecordError("removals are not sorted or not distinct")
      }
      guard id != .root else { throw RecordError("the root is removed") }
      guard !upserted.contains(id) else {
        throw RecordError("item \(id) is both changed and removed")
      }
      changes.removals.append(id)
    }
    for forgotten in wire.forgotten {
      let id: ItemID = try Wire.identifier(forgotten, "a forgotten item")
      if let last = changes.forgotten.last, !(last < id) {
        throw RecordError("forgotten items are not sorted or not distinct")
      }
      changes.forgotten.append(id)
    }
    changes.condemned = try Self.packs(wire.condemned, "condemned")
    changes.deleted = try Self.packs(wire.deleted, "deleted")
    guard Set(changes.condemned).isDisjoint(with: changes.deleted) else {
      throw RecordError("a pack is both condemned and deleted")
    }
    if wire.hasSnapshot {
      changes.snapshot = SnapshotMark(
        sequence: try Wire.number(wire.snapshot.sequence, "a snapshot's segment"),
        bytes: try Wire.number(wire.snapshot.bytes, "a snapshot's length"))
    }
    var lastPack: PackID?
    for pack in wire.packs {
      let locations = try PackContents.locations(pack)
      let id = locations[0].pack
      if let lastPack, !(lastPack < id) {
        throw RecordError("packs are not sorted or not distinct")
      }
      lastPack = id
      changes.chunks.append(contentsOf: locations)
    }
    self.init(
      previous: [UInt8](wire.previous),
      origin: LogOrigin(
        device: try Wire.identifier(wire.device, "the segment's device"),
        time: Timestamp(nanoseconds: wire.time)), changes: changes)
  }

  private static func packs(_ wire: [Data], _ what: String) throws(RecordError) -> [PackID] {
    var result: [PackID] = []
    for pack in wire {
      let id: PackID = try Wire.identifier(pack, "a \(what) pack")
      if let last = result.last, !(last < id) {
        throw RecordError("\(what) packs are not sorted or not distinct")
      }
      result.append(id)
    }
    return result
  }
}

/// Which chunks one pack holds, and where.
package enum PackContents {
  /// All of `locations` must be in `pack`.
  package static func encode(_ pack: PackID, _ locations: [ChunkLocation]) -> [UInt8] {
    Wire.encode(wire(pack, locations))
  }

  /// Sorted by offset; at least one.
  package static func decode(_ bytes: [UInt8]) throws(RecordError) -> [ChunkLocation] {
    try locations(Wire.decode(WirePackContents.self, bytes))
  }

  static func wire(_ pack: PackID, _ locations: [ChunkLocation]) -> WirePackContents {
    let sorted = locations.sorted { $0.offset < $1.offset }
    var wire = WirePackContents()
    wire.pack = Data(pack.bytes)
    wire.chunkIds = Wire.data(sorted.map(\.chunk.id))
    wire.lengths = sorted.map(\.chunk.length)
    wire.offsets = sorted.map(\.offset)
    wire.storedLengths = sorted.map(\.storedLength)
    return wire
  }

  static func locations(_ wire: WirePackContents) throws(RecordError) -> [ChunkLocation] {
    let pack: PackID = try Wire.identifier(wire.pack, "a pack")
    let count = wire.lengths.count
    guard count > 0, wire.offsets.count == count, wire.storedLengths.count == count else {
      throw RecordError("pack \(pack) has lists of different length, or none")
    }
    let ids = try Wire.chunkIDs(wire.chunkIds, count: count, "pack \(pack)")
    var result: [ChunkLocation] = []
    result.reserveCapacity(count)
    var end: UInt64 = 0
    for index in 0..<count {
      let chunk = try Wire.chunk(ids[index], wire.lengths[index])
      let offset = wire.offsets[index]
      let stored = wire.storedLengths[index]
      guard stored > RecordLimits.sealOverhead,
        stored <= chunk.length + RecordLimits.sealOverhead, offset >= end,
        offset <= RecordLimits.packLength - UInt64(stored)
      else { throw RecordError("pack \(pack) has a chunk at an impossible place") }
      end = offset + UInt64(stored)
      result.append(
        ChunkLocation(chunk: chunk, pack: pack, offset: offset, storedLength: stored))
    }
    return result
  }
}
