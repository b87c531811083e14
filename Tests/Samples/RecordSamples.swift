package import Model
internal import RecordFormat

/// Records that use every field, made from a seed.
package struct RecordSamples {
  package var generator: SplitMix

  package init(seed: UInt64) { generator = SplitMix(state: seed) }

  package mutating func bytes(_ count: Int) -> [UInt8] {
    (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
  }

  package mutating func id<Kind>() -> Identifier<Kind> { .random(using: &generator) }

  package mutating func name() throws -> ItemName {
    let count = Int.random(in: 1...40, using: &generator)
    return try ItemName(bytes(count).map { $0 == 0 || $0 == 0x2F || $0 == 0x2E ? 0x61 : $0 })
  }

  package mutating func manifest(chunks: Int) throws -> Manifest {
    var result: [ChunkReference] = []
    for _ in 0..<chunks {
      guard let id = ChunkID(bytes(32)) else { throw RecordError("32 bytes are an identity") }
      result.append(
        ChunkReference(id: id, length: UInt32.random(in: 1...1_048_576, using: &generator)))
    }
    return Manifest(chunks: result)
  }

  package mutating func version() throws -> ContentVersion {
    let manifest = try manifest(chunks: Int.random(in: 0...5, using: &generator))
    let isPending = Bool.random(using: &generator)
    return ContentVersion(
      id: id(), parent: Bool.random(using: &generator) ? id() : nil, device: id(),
      modified: Timestamp(nanoseconds: Int64.random(in: .min ... .max, using: &generator)),
      size: manifest.size, manifest: isPending ? nil : manifest)
  }

  package mutating func record() throws -> ItemRecord {
    let kinds = [ItemKind.file, .directory, .symbolicLink]
    let kind = kinds[Int.random(in: 0..<3, using: &generator)]
    var record = ItemRecord(
      id: id(), kind: kind, links: [Link(parent: id(), name: try name())],
      mode: UInt16.random(in: 0...0o7777, using: &generator),
      modified: Timestamp(nanoseconds: Int64.random(in: .min ... .max, using: &generator)),
      created: Timestamp(nanoseconds: Int64.random(in: .min ... .max, using: &generator)))
    for index in 0..<Int.random(in: 0...3, using: &generator) {
      record.attributes["user.é\(index)"] = bytes(Int.random(in: 0...50, using: &generator))
    }
    switch kind {
    case .file:
      for _ in 0..<Int.random(in: 0...2, using: &generator) {
        record.links.append(Link(parent: id(), name: try name()))
      }
      record.links.sort()
      record.content = try version()
      for _ in 0..<Int.random(in: 0...2, using: &generator) {
        var lost = try version()
        lost.isResolved = Bool.random(using: &generator)
        record.conflicts.append(lost)
      }
    case .directory: record.isPackage = Bool.random(using: &generator)
    default: record.target = try name().bytes
    }
    return record
  }

  /// One that a record may have.
  package mutating func number() -> UInt64 { generator.next() % RecordLimits.number }

  package mutating func origin() -> LogOrigin {
    LogOrigin(
      device: id(),
      time: Timestamp(nanoseconds: Int64.random(in: .min ... .max, using: &generator)))
  }

  package mutating func changes() throws -> LogChanges {
    var changes = LogChanges()
    changes.forgotten = (0..<3).map { _ in id() }.sorted()
    for _ in 0..<4 { changes.upserts.append(try record()) }
    changes.upserts.sort { $0.id < $1.id }
    changes.removals = [id(), id(), id()].sorted()
    for pack in [PackID(high: 1, low: 2), PackID(high: 3, low: 4)] {
      var offset: UInt64 = 8
      for chunk in try manifest(chunks: 3).chunks {
        changes.chunks.append(
          ChunkLocation(chunk: chunk, pack: pack, offset: offset, storedLength: chunk.length + 29))
        offset += UInt64(chunk.length) + 29
      }
    }
    changes.condemned = [id(), id()].sorted()
    changes.deleted = [id()]
    changes.snapshot = SnapshotMark(sequence: 7, bytes: number())
    return changes
  }

  package mutating func part() throws -> SnapshotPart {
    var part = SnapshotPart()
    let changes = try changes()
    part.items = changes.upserts
    part.chunks = changes.chunks
    for _ in 0..<3 {
      let record = try record()
      part.removed.append(RemovedItem(record: record, removed: record.created, device: id()))
    }
    part.removed.sort { $0.record.id < $1.record.id }
    part.packs = PackRecord.State.allCases.map { state in
      PackRecord(pack: id(), bytes: number(), state: state, condemnedAt: number())
    }
    part.packs.sort { $0.pack < $1.pack }
    return part
  }

  package mutating func index() -> SnapshotIndex {
    SnapshotIndex(
      position: LogPosition(sequence: 1 + generator.next() % 9, hash: bytes(32)), origin: origin(),
      writer: id(),
      parts: (0..<3).map { _ in SnapshotIndex.Part(hash: bytes(32), length: number() >> 40) },
      items: number(), recovery: recovery())
  }

  package mutating func recovery() -> LogRecovery {
    LogRecovery(
      number: 1 + generator.next() % 9, sequence: 1,
      known: [], disputed: (0..<generator.next() % 4).map { _ in id() }.sorted())
  }
}

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014.
package struct SplitMix: RandomNumberGenerator {
  package var state: UInt64

  package init(state: UInt64) { self.state = state }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ word >> 30) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ word >> 27) &* 0x94D0_49BB_1331_11EB
    return word ^ word >> 31
  }
}
