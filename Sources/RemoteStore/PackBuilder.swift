internal import Model
internal import RecordFormat

/// A pack while it is filled: the header, sealed chunks one after another, a sealed index, and how
/// long that is. Readers of the log need no index; it is there so that the chunks of a container
/// can be found without its log.
struct PackBuilder {
  let id = PackID.random()
  private(set) var locations: [ChunkLocation] = []
  private let room: PackRoom

  /// A pack is closed when it has this many bytes.
  static let target = 8 << 20

  init(in room: PackRoom) {
    self.room = room
    room.bytes.removeAll(keepingCapacity: true)
    room.bytes += ObjectHeader.pack.bytes
  }

  var isFull: Bool { room.bytes.count >= Self.target }
  var isEmpty: Bool { locations.isEmpty }

  mutating func append(_ sealed: SealedBytes, _ chunk: ChunkReference) {
    // With an index of small chunks, so that it never moves.
    if isEmpty { room.bytes.reserveCapacity(Self.target + 2 * Chunker.maximum) }
    locations.append(
      ChunkLocation(
        chunk: chunk, pack: id, offset: UInt64(room.bytes.count),
        storedLength: UInt32(sealed.count)))
    sealed.append(to: &room.bytes)
  }

  /// Makes `room` the whole object. Nothing is appended afterwards.
  func finish(_ keys: AccountState) {
    var associated = AssociatedData("pack")
    associated.append(id.bytes)
    let index = keys.newest.keys.record.seal(PackContents.encode(id, locations), associated)
    room.bytes += index
    withUnsafeBytes(of: UInt32(index.count).bigEndian) { room.bytes += $0 }
  }
}

/// The bytes of a pack: an object, so that a task that stores them does not make a copy of them.
final class PackRoom: @unchecked Sendable {
  // Unchecked: whoever took it from `UploadMemory` has it alone.
  fileprivate(set) var bytes: [UInt8] = []
}
