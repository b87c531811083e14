internal import Model

/// The keys of an account's objects.
enum ObjectName {
  static let format = "format"
  static let names = "names/"
  static let devices = "devices/"
  static let account = "account/"
  static let quota = account + "quota"
  static let members = account + "members/"
  static let pairing = "pairing/"
  static let deletions = "deleted/"
  /// Where objects of an account are, besides `format`.
  static let directories = [account, "containers/", deletions, devices, names]

  static func member(_ number: UInt64) -> String { members + digits(number) }

  static func offer(_ id: PairingID) -> String { pairing + id.description + "/offer" }

  static func pairing(_ id: PairingID) -> String { pairing + id.description + "/" }

  static func pairing(_ id: PairingID, _ request: PairingID, _ step: PairingStep) -> String {
    pairing(id) + "\(request)-\(step.rawValue)"
  }

  static func name(_ code: [UInt8]) -> String { names + Hex.encode(code) }

  static func device(_ id: DeviceID) -> String { devices + id.description }

  static func deletion(_ id: IncarnationID) -> String { deletions + id.description }

  static func container(_ id: IncarnationID) -> String { "containers/\(id)/" }

  static func log(_ id: IncarnationID) -> String { container(id) + "log/" }

  static func segment(_ id: IncarnationID, _ sequence: UInt64) -> String {
    log(id) + digits(sequence)
  }

  private static func digits(_ sequence: UInt64) -> String {
    let digits = String(sequence)
    return String(repeating: "0", count: 20 - digits.count) + digits
  }

  /// What `digits` made; nil for anything else.
  static func sequence(_ text: some StringProtocol) -> UInt64? {
    let sequence = UInt64(text)
    return text.utf8.count == 20 && text.utf8.allSatisfy { (48...57).contains($0) } ? sequence : nil
  }

  static func snapshots(_ id: IncarnationID) -> String { container(id) + "snapshots/" }

  static func snapshot(_ id: IncarnationID, _ sequence: UInt64) -> String {
    snapshots(id) + digits(sequence) + "/"
  }

  static let index = "index"

  static func snapshotIndex(_ id: IncarnationID, _ sequence: UInt64) -> String {
    snapshot(id, sequence) + index
  }

  static func snapshotPart(
    _ id: IncarnationID, _ sequence: UInt64, writer: PackID, _ number: Int
  ) -> String {
    snapshot(id, sequence) + "\(writer)-\(number)"
  }

  static func cursors(_ id: IncarnationID) -> String { container(id) + "devices/" }

  static func cursor(_ id: IncarnationID, _ device: DeviceID) -> String {
    cursors(id) + device.description
  }

  static func packs(_ id: IncarnationID) -> String { container(id) + "packs/" }

  static func pack(_ id: IncarnationID, _ pack: PackID) -> String {
    packs(id) + pack.description
  }
}

/// What a reader takes in at most, so that a hostile backend cannot fill its memory.
enum RemoteLimits {
  /// Bytes of a stored format, name or device object.
  static let smallObject = 65_536
  /// Bytes of a stored segment.
  static let segment = 1 << 28
  /// Bytes of a segment's body when it is decompressed.
  static let segmentBody = 1 << 29
  /// Bytes of a stored part of a snapshot, and of one that is decompressed. One record may be the
  /// most of a part, so that what a segment may have a part may have.
  static let snapshotPart = segment
  static let snapshotPartBody = segmentBody
  /// No log reaches this number; half of what a catalog can count.
  static let lastSequence: UInt64 = 1 << 62
  /// Containers, deleted ones, devices and snapshots, of each kind.
  static let names = 1 << 17
  /// Packs of a container, segments of its log, and objects of a container altogether. The packs
  /// are enough for 32 TB in small files.
  static let objects = 1 << 22
  /// Pages of a list that are looked through for a log's segments.
  static let foreignPages = 100
  /// Bytes of a snapshot's index.
  static let snapshotIndex = 1 << 23
}
