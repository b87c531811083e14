internal import Model
internal import RecordFormat

/// A pack while it is filled: the header, sealed chunks one after another, a sealed index, and how
/// long that is. Readers of the log need no index; it is there so that the chunks of a container can
/// be found without its log.
struct PackBuilder {
  let id = PackID.random()
  private(set) var locations: [ChunkLocation] = []
  private var bytes: [UInt8]

  /// A pack is closed when it has this many bytes.
  static let target = 8 << 20

  /// `room` is empty; its memory is used.
  init(in room: [UInt8] = []) {
    bytes = room
    bytes += ObjectHeader.pack.bytes
  }

  var isFull: Bool { bytes.count >= Self.target }
  var isEmpty: Bool { locations.isEmpty }

  mutating func append(_ sealed: SealedBytes, _ chunk: ChunkReference) {
    if isEmpty { bytes.reserveCapacity(Self.target + Chunker.maximum) }
    locations.append(
      ChunkLocation(
        chunk: chunk, pack: id, offset: UInt64(bytes.count),
        storedLength: UInt32(sealed.count)))
    sealed.append(to: &bytes)
  }

  /// The whole object.
  consuming func finish(_ keys: AccountKeys) -> [UInt8] {
    var associated = AssociatedData("pack")
    associated.append(id.bytes)
    let index = keys.record.seal(PackContents.encode(id, locations), associated)
    bytes += index
    withUnsafeBytes(of: UInt32(index.count).bigEndian) { bytes += $0 }
    return bytes
  }
}
