internal import Glibc
internal import Platform
internal import SystemPackage

/// One of the two files of the redo journal.
///
/// 48 bytes of header, then records: `length of the payload, sequence, sequence of the database
/// that it presumes, checksum` in 32 bytes, and the payload, padded to 8. Little-endian. A record
/// counts if its checksum is right and its sequence follows the one before: what a former use of
/// the file or a torn write left behind does not.
final class RedoFile: @unchecked Sendable {
  static let headerSize = 48
  static let recordHeaderSize = 32
  /// No journal reaches this sequence number. The limit keeps the next number from overflowing.
  private static let mostRecords: UInt64 = 1 << 62
  private static let magic: UInt64 = 0x4F44_4552_5142_5500

  struct Record {
    let sequence: UInt64
    /// Of the database's commits: without that one this record has nothing to stand on.
    let presumed: UInt64
    let payload: ArraySlice<UInt8>
  }

  let file: OpenFile
  private(set) var end: UInt64
  private let capacity: UInt64
  /// Bytes that are there already, so that writing them changes nothing but data.
  private var made: UInt64 = 0
  private(set) var lastSequence: UInt64 = 0
  private var buffer: [UInt8] = []

  init(path: String, capacity: UInt64) throws(Errno) {
    file = try OpenFile.open(path, flags: O_RDWR | O_CREAT)
    self.capacity = capacity
    end = UInt64(Self.headerSize)
  }

  func read() throws(Errno) -> [Record] {
    // The whole file: another release may have another capacity, and a cut would lose records.
    let bytes = try file.read(count: Int(try file.status().st_size), at: 0)
    guard bytes.count >= Self.headerSize, Self.word(bytes, 0) == Self.magic,
      Self.word(bytes, 16) == Self.checksum(bytes[0..<16], seed: 0)
    else { return [] }
    var expected = Self.word(bytes, 8)
    var position = Self.headerSize
    var result: [Record] = []
    while position + Self.recordHeaderSize <= bytes.count, expected < Self.mostRecords {
      let length = Int(clamping: Self.word(bytes, position))
      let start = position + Self.recordHeaderSize
      guard length <= bytes.count - start, Self.word(bytes, position + 8) == expected else { break }
      let payload = bytes[start..<start + length]
      let sum = Self.checksum(
        payload, seed: Self.checksum(bytes[position..<position + 24], seed: 1))
      guard sum == Self.word(bytes, position + 24) else { break }
      result.append(
        Record(
          sequence: expected, presumed: Self.word(bytes, position + 16), payload: payload))
      expected += 1
      position = start + Self.padded(length)
    }
    return result
  }

  /// Begins the file anew: what it had is to be durable in the database.
  func restart(from sequence: UInt64) throws(Errno) {
    made = UInt64(max(0, try file.status().st_size))
    if made < Self.leastSize { try make(Self.leastSize) }
    var header: [UInt8] = []
    Self.append(Self.magic, to: &header)
    Self.append(sequence, to: &header)
    Self.append(Self.checksum(header[...], seed: 0), to: &header)
    header += [UInt8](repeating: 0, count: Self.headerSize - header.count)
    // Behind it stands no record that could be taken for the first.
    header += [UInt8](repeating: 0, count: Self.recordHeaderSize)
    try file.write(header, at: 0)
    end = UInt64(Self.headerSize)
    lastSequence = sequence - 1
  }

  /// Bytes that a file has from its beginning, and that it grows by until it has all.
  private static let leastSize: UInt64 = 4 << 20
  private static let growth: UInt64 = 1 << 20

  /// Written, not only allocated: an extent that was never written costs the file system a
  /// transaction of its own at each fdatasync.
  private func make(_ size: UInt64) throws(Errno) {
    let zeros = [UInt8](repeating: 0, count: 1 << 18)
    while made < size {
      try file.write(zeros, at: made)
      made += UInt64(zeros.count)
    }
  }

  /// Grows where that is what it takes. A disk that is full makes the file's room what it has.
  func hasRoom(for length: Int) -> Bool {
    let needed = end + UInt64(Self.recordHeaderSize + Self.padded(length))
    guard needed <= capacity else { return false }
    if needed > made { try? make(min(capacity, max(needed, made + Self.growth))) }
    return needed <= made
  }

  /// In the page cache when it returns: it survives the process, and a power cut after
  /// `synchronize`.
  func append(_ payload: [UInt8], sequence: UInt64, presumed: UInt64) throws(Errno) {
    buffer.removeAll(keepingCapacity: true)
    Self.append(UInt64(payload.count), to: &buffer)
    Self.append(sequence, to: &buffer)
    Self.append(presumed, to: &buffer)
    let seed = Self.checksum(buffer[...], seed: 1)
    Self.append(Self.checksum(payload[...], seed: seed), to: &buffer)
    buffer += payload
    let padding = Self.padded(payload.count) - payload.count
    for _ in 0..<padding { buffer.append(0) }
    try file.write(buffer, at: end)
    end += UInt64(buffer.count)
    lastSequence = sequence
  }

  private static func padded(_ length: Int) -> Int { (length + 7) & ~7 }

  private static func word(_ bytes: [UInt8], _ offset: Int) -> UInt64 {
    bytes.withUnsafeBytes {
      UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
    }
  }

  private static func append(_ value: UInt64, to bytes: inout [UInt8]) {
    withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
  }

  /// 64 bits by folded multiplication. Against torn writes and stale bytes, not against an enemy.
  static func checksum(_ bytes: ArraySlice<UInt8>, seed: UInt64) -> UInt64 {
    bytes.withUnsafeBytes { buffer in
      var hash = seed &+ 0x9E37_79B9_7F4A_7C15 &+ UInt64(buffer.count)
      var index = 0
      func mix(_ word: UInt64) {
        let product = (hash ^ word).multipliedFullWidth(by: 0xD6E8_FEB8_6659_FD93)
        hash = (product.high ^ product.low) &+ 0xA076_1D64_78BD_642F
      }
      while index + 8 <= buffer.count {
        mix(UInt64(littleEndian: buffer.loadUnaligned(fromByteOffset: index, as: UInt64.self)))
        index += 8
      }
      var rest: UInt64 = 0
      while index < buffer.count {
        rest = rest << 8 | UInt64(buffer[index])
        index += 1
      }
      mix(rest)
      return hash
    }
  }
}
