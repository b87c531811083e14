import Model
import RecordFormat
import Samples

@testable import Catalog

/// The records that devices and the store give each other, after their seal.
extension FuzzTarget {
  static let recordTargets: [FuzzTarget] = [
    FuzzTarget(
      "item", seeds: { try samples(20) { try $0.record().encoded() } },
      run: { bytes in
        try expectRoundTrip(bytes, ItemRecord.init(decoding:)) { $0.encoded() }
      }),
    FuzzTarget(
      "manifest",
      seeds: {
        try (0..<4).map { n in try samples(n) { try $0.manifest(chunks: n).encoded() } }.flatMap(
          \.self)
      },
      run: { bytes in
        try expectRoundTrip(bytes, Manifest.init(decoding:)) { $0.encoded() }
      }),
    FuzzTarget(
      "segment", limit: 8192,
      seeds: {
        try samples(6) {
          SegmentBody(
            previous: $0.bytes(32), origin: $0.origin(), changes: try $0.changes()
          ).encoded()
        }
      },
      run: { bytes in
        try expectRoundTrip(bytes, SegmentBody.init(decoding:)) { $0.encoded() }
        if let body = try? SegmentBody(decoding: bytes) { _ = body.changes.weight }
      }),
    FuzzTarget(
      "pack", seeds: { samples(4) { Self.pack(&$0) } },
      run: { bytes in
        try expectRoundTrip(bytes, PackContents.decode) {
          PackContents.encode($0[0].pack, $0)
        }
      }),
    FuzzTarget(
      "snapshot-part", limit: 8192, seeds: { try samples(4) { try $0.part().encoded() } },
      run: {
        bytes in
        try expectRoundTrip(bytes, SnapshotPart.init(decoding:)) { $0.encoded() }
      }),
    FuzzTarget(
      "snapshot-index", seeds: { samples(6) { $0.index().encoded() } },
      run: { bytes in
        try expectRoundTrip(bytes, SnapshotIndex.init(decoding:)) { $0.encoded() }
      }),
    // The first byte says which.
    FuzzTarget(
      "account-records", seeds: { try accountRecords() },
      run: { bytes in
        var input = InputReader(bytes)
        let kind = input.byte() % 9
        let rest = input.all()
        switch kind {
        case 0: try expectRoundTrip(rest, ContainerInfo.init(decoding:)) { $0.encoded() }
        case 1: try expectRoundTrip(rest, DeviceRecord.init(decoding:)) { $0.encoded() }
        case 2: try expectRoundTrip(rest, AccountQuota.init(decoding:)) { $0.encoded() }
        case 3:
          // Of another version nothing but the version is read.
          try expectRoundTrip(
            rest,
            { bytes in
              let format = try AccountFormat(decoding: bytes)
              guard format.version == AccountFormat.currentVersion else { throw RecordError("") }
              return format
            }, { $0.encoded() })
        case 4: try expectRoundTrip(rest, DeviceCursor.init(decoding:)) { $0.encoded() }
        case 5: try expectRoundTrip(rest, LogRecovery.init(decoding:)) { $0.encoded() }
        case 6: try expectRoundTrip(rest, Member.init(decoding:)) { $0.encoded() }
        case 7: try expectRoundTrip(rest, MemberEntry.init(decoding:)) { $0.encoded() }
        default: try expectRoundTrip(rest, DeletionRecord.init(decoding:)) { $0.encoded }
        }
      }),
  ]

  private static func samples<Value>(
    _ count: Int, _ make: (inout RecordSamples) throws -> Value
  ) rethrows -> [Value] {
    try (0..<count).map { seed in
      var samples = RecordSamples(seed: UInt64(seed))
      return try make(&samples)
    }
  }

  private static func pack(_ samples: inout RecordSamples) -> [UInt8] {
    let pack: PackID = samples.id()
    var offset: UInt64 = 8
    let locations = (0..<3).compactMap { _ -> ChunkLocation? in
      guard let id = ChunkID(samples.bytes(32)) else { return nil }
      let chunk = ChunkReference(id: id, length: 1000)
      defer { offset += 1029 }
      return ChunkLocation(chunk: chunk, pack: pack, offset: offset, storedLength: 1029)
    }
    return PackContents.encode(pack, locations)
  }

  private static func accountRecords() throws -> [[UInt8]] {
    var samples = RecordSamples(seed: 9)
    let time = Timestamp(nanoseconds: 7)
    let usage = (0..<3).map { _ in
      ContainerUsage(incarnation: samples.id(), sequence: 3, bytes: 4)
    }
    let member = Member(
      device: samples.id(), name: "Ada", signingKey: samples.bytes(32),
      agreementKey: samples.bytes(32))
    var deletions = DeletionRecord()
    deletions.window = DeletionRecord.Window(began: time, items: 9, removed: 3)
    return [
      [0]
        + ContainerInfo(
          id: try ContainerID("iCloud.com.example.notes"), created: time, creator: samples.id(),
          incarnation: samples.id()
        ).encoded(),
      [1] + DeviceRecord(id: samples.id(), name: "Ada", lastSeen: time, usage: usage).encoded(),
      [2] + AccountQuota(limit: 1 << 20, time: time, device: samples.id()).encoded(),
      [3]
        + AccountFormat(
          version: 1, account: samples.bytes(16), salt: samples.bytes(16), costExponent: 17,
          blockSize: 8, parallelism: 1, wrappedKey: samples.bytes(60)
        ).encoded(),
      [4]
        + DeviceCursor(
          device: samples.id(), sequence: 3, time: time, keepRemovedDays: 30,
          hash: samples.bytes(32), recovery: 1
        ).encoded(),
      [5] + samples.recovery().encoded(),
      [6] + member.encoded(),
      [7]
        + MemberEntry(
          previous: samples.bytes(32), signer: member.device, time: time,
          removed: [samples.id()],
          rotation: KeyRotation(
            epoch: 2, keys: [member.device: samples.bytes(80)], secret: samples.bytes(60)),
          format: samples.bytes(20)
        ).encoded(),
      [8] + deletions.encoded,
    ]
  }
}
