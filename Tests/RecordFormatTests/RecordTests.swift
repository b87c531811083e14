import Model
import RecordFormat
import Samples
import Testing

@Suite struct RecordTests {
  @Test func recordsComeBackAndHaveOneEncoding() throws {
    var samples = RecordSamples(seed: 1)
    for _ in 0..<300 {
      let record = try samples.record()
      let bytes = record.encoded()
      let again = try ItemRecord(decoding: bytes)
      #expect(again == record)
      #expect(again.encoded() == bytes)
    }
  }

  @Test func manifestsAndSegmentsComeBack() throws {
    var samples = RecordSamples(seed: 2)
    for count in [0, 1, 100] {
      let manifest = try samples.manifest(chunks: count)
      #expect(try Manifest(decoding: manifest.encoded()) == manifest)
    }
    for _ in 0..<30 {
      let body = SegmentBody(
        previous: samples.bytes(32), origin: samples.origin(), changes: try samples.changes())
      #expect(try SegmentBody(decoding: body.encoded()) == body)
    }
  }

  @Test func theRootHasNoName() throws {
    let time = Timestamp(nanoseconds: 0)
    let root = ItemRecord(
      id: .root, kind: .directory, links: [], mode: 0o755, modified: time, created: time)
    #expect(try ItemRecord(decoding: root.encoded()) == root)
  }

  @Test func theAccountsRecordsComeBack() throws {
    var samples = RecordSamples(seed: 5)
    for count in 0...3 {
      let usage = (0..<count).map { _ in
        ContainerUsage(
          incarnation: samples.id(), sequence: RecordLimits.number, bytes: RecordLimits.number / 3)
      }.sorted { $0.incarnation < $1.incarnation }
      let device = DeviceRecord(
        id: samples.id(), name: "Ada", lastSeen: Timestamp(nanoseconds: -1), usage: usage)
      #expect(try DeviceRecord(decoding: device.encoded()) == device)
    }
    for limit in [nil, 0, 1, UInt64.max] {
      let quota = AccountQuota(
        limit: limit, time: Timestamp(nanoseconds: 7), device: samples.id())
      #expect(try AccountQuota(decoding: quota.encoded()) == quota)
    }
    // Stored by the first release that had a quota: 1 MiB, set by device 1.
    let stored: [UInt8] =
      [0x08, 0x80, 0x80, 0x40, 0x11, 7, 0, 0, 0, 0, 0, 0, 0, 0x1A, 16]
      + [UInt8](repeating: 0, count: 15) + [1]
    #expect(
      try AccountQuota(decoding: stored)
        == AccountQuota(
          limit: 1 << 20, time: Timestamp(nanoseconds: 7), device: DeviceID(high: 0, low: 1)))
  }

  /// Each is a record that no device would write.
  @Test(arguments: Self.faults.indices) func aWrongRecordIsRefused(_ index: Int) throws {
    var samples = RecordSamples(seed: 3)
    var file = try samples.record()
    while file.kind != .file || file.content?.manifest == nil { file = try samples.record() }
    #expect(throws: Never.self) { try ItemRecord(decoding: file.encoded()) }
    Self.faults[index](&file)
    #expect(throws: RecordError.self) { try ItemRecord(decoding: file.encoded()) }
  }

  static let faults: [@Sendable (inout ItemRecord) -> Void] = [
    { $0.links = [] },
    { $0.links.append($0.links[0]) },
    { $0.links = [Link(parent: $0.id, name: .documents)] },
    { $0.kind = .fifo },
    { $0.kind = .directory },
    { $0.kind = .symbolicLink },
    { $0.mode = 0o10000 },
    { $0.target = [1] },
    { $0.isPackage = true },
    { $0.attributes["trusted.x"] = [] },
    { $0.attributes["user."] = [] },
    { $0.attributes["user.a\0b"] = [] },
    { $0.attributes["user." + String(repeating: "x", count: 251)] = [] },
    { $0.attributes["user.x"] = [UInt8](repeating: 0, count: 65_537) },
    { $0.conflicts = $0.content.map { [$0] } ?? [] },
    { $0.content?.isResolved = true },
    { record in
      record.content = record.content.map {
        ContentVersion(
          id: $0.id, parent: $0.id, device: $0.device, modified: $0.modified, size: $0.size,
          manifest: $0.manifest)
      }
    },
    { record in
      record.content = record.content.map {
        ContentVersion(
          id: $0.id, parent: nil, device: $0.device, modified: $0.modified, size: $0.size + 1,
          manifest: $0.manifest)
      }
    },
    {
      $0 = ItemRecord(
        id: .root, kind: .directory, links: $0.links, mode: 0, modified: $0.modified,
        created: $0.created)
    },
  ]

  /// What lost a conflict as a package is whole in the backend, or there is no such version.
  @Test func aDirectoryHasOnlyVersionsThatCanBeRead() throws {
    func directory(_ manifest: Manifest?) -> ItemRecord {
      ItemRecord(
        id: .documents, kind: .directory, links: [Link(parent: .root, name: .documents)],
        mode: 0o755, modified: Timestamp(nanoseconds: 1), created: Timestamp(nanoseconds: 1),
        conflicts: [
          ContentVersion(
            id: VersionID(high: 1, low: 1), parent: nil, device: DeviceID(high: 1, low: 1),
            modified: Timestamp(nanoseconds: 1), size: 0, manifest: manifest)
        ])
    }
    let kept = directory(.empty)
    #expect(try ItemRecord(decoding: kept.encoded()) == kept)
    #expect(throws: RecordError.self) { try ItemRecord(decoding: directory(nil).encoded()) }
  }

  @Test func aWrongSegmentIsRefused() throws {
    var samples = RecordSamples(seed: 4)
    let good = try samples.changes()
    func refused(_ change: (inout LogChanges) throws -> Void) throws {
      var changes = good
      try change(&changes)
      let body = SegmentBody(
        previous: [],
        origin: LogOrigin(device: DeviceID(high: 1, low: 1), time: Timestamp(nanoseconds: 5)),
        changes: changes)
      #expect(throws: RecordError.self) { try SegmentBody(decoding: body.encoded()) }
    }
    try refused { $0.upserts.append($0.upserts[0]) }
    try refused { $0.removals.append($0.removals[0]) }
    try refused { $0.removals.append($0.upserts[0].id) }
    try refused { $0.removals.append(.root) }
    try refused { $0.forgotten.append($0.forgotten[0]) }
    try refused { $0.condemned.append($0.condemned[0]) }
    try refused { $0.deleted.append($0.condemned[0]) }
    try refused { $0.chunks.append($0.chunks[0]) }
    try refused {
      let chunk = $0.chunks[0]
      $0.chunks = [
        ChunkLocation(chunk: chunk.chunk, pack: chunk.pack, offset: .max, storedLength: 40)
      ]
    }
    let short = SegmentBody(
      previous: [1],
      origin: LogOrigin(device: DeviceID(high: 1, low: 1), time: Timestamp(nanoseconds: 5)),
      changes: good)
    #expect(throws: RecordError.self) { try SegmentBody(decoding: short.encoded()) }
  }

  @Test func snapshotsComeBack() throws {
    var samples = RecordSamples(seed: 6)
    for _ in 0..<50 {
      let part = try samples.part()
      let read = try SnapshotPart(decoding: part.encoded())
      // Times before the earliest that can be said become that.
      #expect(read.encoded() == (try SnapshotPart(decoding: read.encoded())).encoded())
      #expect(read.chunks == part.chunks && read.packs == part.packs)
      #expect(read.items.map(\.id) == part.items.map(\.id))
      #expect(read.removed.map(\.record.id) == part.removed.map(\.record.id))
      let index = samples.index()
      let again = try SnapshotIndex(decoding: index.encoded())
      #expect(again.parts == index.parts && again.position == index.position)
      #expect(again.writer == index.writer && again.items == index.items)
      #expect(again.recovery == index.recovery)
    }
    var part = try samples.part()
    part.items.append(part.items[0])
    #expect(throws: RecordError.self) { try SnapshotPart(decoding: part.encoded()) }
    let good = samples.index()
    for index in [
      SnapshotIndex(
        position: .start, origin: good.origin, writer: good.writer, parts: good.parts, items: 1),
      SnapshotIndex(
        position: good.position, origin: good.origin, writer: good.writer, parts: [], items: 1),
    ] {
      #expect(throws: RecordError.self) { try SnapshotIndex(decoding: index.encoded()) }
    }
  }

  @Test(
    "numbers that would overflow when they are added are refused",
    arguments: [(1 << 61) + 1, 1 << 63, .max] as [UInt64])
  func hostileNumbers(number: UInt64) throws {
    var samples = RecordSamples(seed: 8)
    let good = samples.index()
    let index = SnapshotIndex(
      position: good.position, origin: good.origin, writer: good.writer,
      parts: [SnapshotIndex.Part(hash: samples.bytes(32), length: number)], items: 1)
    #expect(throws: RecordError.self) { try SnapshotIndex(decoding: index.encoded()) }
    let long = SnapshotIndex(
      position: LogPosition(sequence: number, hash: samples.bytes(32)), origin: good.origin,
      writer: good.writer, parts: good.parts, items: 1)
    #expect(throws: RecordError.self) { try SnapshotIndex(decoding: long.encoded()) }
    var part = SnapshotPart()
    part.packs = [PackRecord(pack: samples.id(), bytes: number, state: .inUse, condemnedAt: 0)]
    #expect(throws: RecordError.self) { try SnapshotPart(decoding: part.encoded()) }
    var changes = LogChanges()
    changes.snapshot = SnapshotMark(sequence: 1, bytes: number)
    let body = SegmentBody(previous: samples.bytes(32), origin: good.origin, changes: changes)
    #expect(throws: RecordError.self) { try SegmentBody(decoding: body.encoded()) }
    let device = DeviceRecord(
      id: samples.id(), name: "Ada", lastSeen: Timestamp(nanoseconds: 1),
      usage: [ContainerUsage(incarnation: samples.id(), sequence: 1, bytes: number)])
    #expect(throws: RecordError.self) { try DeviceRecord(decoding: device.encoded()) }
    let cursor = DeviceCursor(
      device: samples.id(), sequence: number, time: Timestamp(nanoseconds: 1), keepRemovedDays: 30)
    #expect(throws: RecordError.self) { try DeviceCursor(decoding: cursor.encoded()) }
  }

  @Test("a device that keeps removed items for millions of years counts as if for a hundred")
  func hostileDays() throws {
    let cursor = DeviceCursor(
      device: DeviceID(high: 1, low: 1), sequence: 1, time: Timestamp(nanoseconds: 1),
      keepRemovedDays: .max)
    #expect(try DeviceCursor(decoding: cursor.encoded()).keepRemovedDays == RecordLimits.days)
  }

  @Test func aRecoveryNamesPackagesInOrder() throws {
    var samples = RecordSamples(seed: 7)
    let ids: [ItemID] = (0..<3).map { _ in samples.id() }.sorted()
    func recovery(_ disputed: [ItemID]) -> LogRecovery {
      LogRecovery(number: 1, sequence: 1, known: [], disputed: disputed)
    }
    #expect(try LogRecovery(decoding: recovery(ids).encoded()) == recovery(ids))
    for wrong in [[ids[1], ids[0]], [ids[0], ids[0]]] {
      #expect(throws: RecordError.self) {
        try LogRecovery(decoding: recovery(wrong).encoded())
      }
    }
    var next = ids[0].bytes
    let many = (0...LogRecovery.mostDisputed).map { number in
      for index in 0..<4 { next[index] = UInt8(truncatingIfNeeded: number >> (24 - 8 * index)) }
      return ItemID(bytes: next)!
    }
    #expect(try LogRecovery(decoding: recovery(Array(many.dropLast())).encoded()).number == 1)
    #expect(throws: RecordError.self) { try LogRecovery(decoding: recovery(many).encoded()) }
  }

  @Test func hostileBytesNeverCrash() throws {
    var samples = RecordSamples(seed: 5)
    func decodeAll(_ bytes: [UInt8]) {
      _ = try? SnapshotPart(decoding: bytes)
      _ = try? SnapshotIndex(decoding: bytes)
      _ = try? DeviceCursor(decoding: bytes)
      _ = try? ItemRecord(decoding: bytes)
      _ = try? Manifest(decoding: bytes)
      _ = try? SegmentBody(decoding: bytes)
      _ = try? PackContents.decode(bytes)
      _ = try? ContainerInfo(decoding: bytes)
      _ = try? DeviceRecord(decoding: bytes)
      _ = try? AccountQuota(decoding: bytes)
      _ = try? AccountFormat(decoding: bytes)
    }
    for count in 0..<500 { decodeAll(samples.bytes(count % 97)) }
    let body = SegmentBody(
      previous: [], origin: samples.origin(), changes: try samples.changes()
    ).encoded()
    for _ in 0..<500 {
      var bytes = body
      for _ in 0..<Int.random(in: 1...3, using: &samples.generator) {
        let index = Int.random(in: 0..<bytes.count, using: &samples.generator)
        bytes[index] ^= 1 << UInt8.random(in: 0...7, using: &samples.generator)
      }
      // Whatever is taken for a segment must be one that we could have written.
      if let read = try? SegmentBody(decoding: bytes) {
        #expect(try SegmentBody(decoding: read.encoded()) == read)
      }
      decodeAll(Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &samples.generator))))
    }
  }
}
