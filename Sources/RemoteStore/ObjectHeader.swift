/// The clear bytes before everything that is stored: what it is, in which format, and since there
/// are epochs, of which epoch the key is that it is sealed under.
///
/// Objects of the first format have 8 bytes. They name no epoch, are sealed under the first one's
/// key, and nobody signed them.
struct ObjectHeader {
  /// Of objects without an epoch.
  static let version: UInt32 = 1
  /// Of objects that name the epoch; those of the index of a snapshot are one more.
  static let epochVersion: UInt32 = 2
  static let length = 8
  static let epochLength = 12

  static let format = ObjectHeader("UBQF", latest: epochVersion)
  static let member = ObjectHeader("UBQM")
  static let name = ObjectHeader("UBQN")
  static let device = ObjectHeader("UBQD")
  static let quota = ObjectHeader("UBQA")
  static let deletion = ObjectHeader("UBQX")
  static let segment = ObjectHeader("UBQL", isLog: true)
  static let pack = ObjectHeader("UBQP")
  static let snapshotPart = ObjectHeader("UBQS", isLog: true)
  static let snapshotIndex = ObjectHeader("UBQI", isLog: true, latest: 3)
  /// After a recovery: an older release would take absence in it for removal, and is to refuse it.
  /// Those with an epoch have one number, since any release that reads that knows of recoveries.
  static let recoveredIndex = ObjectHeader("UBQI", isLog: true, plain: 2, latest: 3)
  static let cursor = ObjectHeader("UBQC")
  static let pairing = ObjectHeader("UBQJ")

  /// Of an object without an epoch.
  let bytes: [UInt8]
  /// Whether it is sealed under the key for the log.
  let isLog: Bool

  private let magic: [UInt8]
  private let plain: UInt32
  private let latest: UInt32

  private init(
    _ magic: String, isLog: Bool = false, plain: UInt32 = ObjectHeader.version,
    latest: UInt32 = ObjectHeader.epochVersion
  ) {
    self.magic = Array(magic.utf8)
    self.isLog = isLog
    self.plain = plain
    self.latest = latest
    bytes = self.magic + plain.bigEndianBytes
  }

  /// Of an object that names the epoch of its key.
  func bytes(epoch: UInt32) -> [UInt8] {
    magic + latest.bigEndianBytes + epoch.bigEndianBytes
  }

  /// Of `format`, which says in itself which epoch it is of.
  var latestBytes: [UInt8] { magic + latest.bigEndianBytes }

  func isMagic(of stored: [UInt8]) -> Bool { stored.starts(with: magic) }

  /// What follows the 8 bytes of the header of `object`, in any of its formats.
  func body(of stored: [UInt8], object: String) throws(RemoteError) -> ArraySlice<UInt8> {
    try read(stored, object).body
  }

  /// What is sealed of `object`, and the epoch of the key; nil: it names none.
  func sealed(of stored: [UInt8], object: String) throws(RemoteError) -> (
    body: ArraySlice<UInt8>, epoch: UInt32?
  ) {
    let (version, body) = try read(stored, object)
    guard version == latest else { return (body, nil) }
    guard body.count >= Self.epochLength - Self.length else {
      throw .damaged(object: object, reason: "it is cut short")
    }
    let epoch = UInt32(bigEndianBytes: body.prefix(4))
    guard epoch > 0 else { throw .damaged(object: object, reason: "it does not name an epoch") }
    return (body.dropFirst(4), epoch)
  }

  private func read(_ stored: [UInt8], _ object: String) throws(RemoteError) -> (
    version: UInt32, body: ArraySlice<UInt8>
  ) {
    guard stored.count >= Self.length else {
      throw .damaged(object: object, reason: "it is cut short")
    }
    guard isMagic(of: stored) else {
      throw .damaged(object: object, reason: "its header is that of another kind of object")
    }
    let version = UInt32(bigEndianBytes: stored[4..<8])
    guard version <= latest else { throw .newerFormat(object: object, version: version) }
    guard version >= Self.version else {
      throw .damaged(object: object, reason: "its format version \(version) is not valid")
    }
    return (version, stored[Self.length...])
  }
}
