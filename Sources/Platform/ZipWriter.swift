internal import CLinux
internal import Glibc
package import SystemPackage

/// Writes a ZIP archive, nothing compressed: what is in it is sent and stored compressed anyway.
/// Archives and members of any size (ZIP64). Names are bytes, marked as UTF-8 where they are that.
///
/// Source: APPNOTE.TXT (ZIP File Format Specification) 6.3.9, 4.3 to 4.5.
package struct ZipWriter: ~Copyable {
  /// What is known of a member besides its content. `modified` is in seconds since 1970.
  package struct Member {
    package var name: [UInt8]
    /// With the type, as in `st_mode`.
    package var mode: UInt16
    package var modified: Int64

    package init(name: [UInt8], mode: UInt16, modified: Int64) {
      self.name = name
      self.mode = mode
      self.modified = modified
    }
  }

  private struct Written {
    let member: Member
    let offset: UInt64
    let size: UInt64
    let checksum: UInt32
  }

  private let file: OpenFile
  private var offset: UInt64 = 0
  private var members: [Written] = []

  /// `file` is empty.
  package init(_ file: OpenFile) { self.file = file }

  /// A directory's name ends in `/`. The content comes in pieces from `next`, until it gives none.
  package mutating func add(
    _ member: Member, _ next: () throws(Errno) -> [UInt8]?
  ) throws(Errno) {
    guard member.name.count <= Int(UInt16.max) else { throw Errno.fileNameTooLong }
    let start = offset
    // The sizes are not known yet: their place is kept for the largest.
    let length = Self.header(member, size: .max, checksum: 0).count
    offset += UInt64(length)
    var checksum: UInt32 = 0
    var size: UInt64 = 0
    while let piece = try next() {
      guard !piece.isEmpty else { continue }
      checksum = piece.withUnsafeBytes { ubiquity_crc32(checksum, $0.baseAddress, $0.count) }
      try file.write(piece, at: offset)
      offset += UInt64(piece.count)
      size += UInt64(piece.count)
    }
    try file.write(Self.header(member, size: size, checksum: checksum), at: start)
    members.append(Written(member: member, offset: start, size: size, checksum: checksum))
  }

  package mutating func add(_ member: Member, _ content: [UInt8] = []) throws(Errno) {
    var rest: [UInt8]? = content
    try add(member) {
      defer { rest = nil }
      return rest
    }
  }

  /// Writes the directory of the archive, which is complete then.
  package consuming func finish() throws(Errno) {
    let start = offset
    for written in members {
      let entry = Self.entry(written)
      try file.write(entry, at: offset)
      offset += UInt64(entry.count)
    }
    try file.write(Self.end(count: UInt64(members.count), from: start, to: offset), at: offset)
  }

  // MARK: Records

  private struct Record {
    var bytes: [UInt8] = []
    mutating func add<Value: FixedWidthInteger>(_ value: Value) {
      withUnsafeBytes(of: value.littleEndian) { bytes += $0 }
    }
  }

  private static let limit: UInt64 = 0xFFFF_FFFF
  /// 4.5, which has ZIP64.
  private static let version: UInt16 = 45

  private static func common(_ member: Member, checksum: UInt32) -> Record {
    var record = Record()
    record.add(version)
    let isText = String(validating: member.name, as: UTF8.self) != nil
    record.add(UInt16(isText ? 1 << 11 : 0))
    // Stored.
    record.add(UInt16(0))
    let (time, date) = moment(member.modified)
    record.add(time)
    record.add(date)
    record.add(checksum)
    return record
  }

  /// Local header: 4.3.7. It always has the long sizes, whose place must be known before they are.
  private static func header(_ member: Member, size: UInt64, checksum: UInt32) -> [UInt8] {
    var record = Record()
    record.add(UInt32(0x0403_4B50))
    record.bytes += common(member, checksum: checksum).bytes
    record.add(UInt32(limit))
    record.add(UInt32(limit))
    record.add(UInt16(member.name.count))
    let times = times(member)
    record.add(UInt16(20 + times.count))
    record.bytes += member.name
    record.add(UInt16(1))
    record.add(UInt16(16))
    record.add(size)
    record.add(size)
    record.bytes += times
    return record.bytes
  }

  /// Entry of the directory: 4.3.12.
  private static func entry(_ written: Written) -> [UInt8] {
    let member = written.member
    var large = Record()
    if written.size >= limit {
      large.add(written.size)
      large.add(written.size)
    }
    if written.offset >= limit { large.add(written.offset) }
    var extra = Record()
    if !large.bytes.isEmpty {
      extra.add(UInt16(1))
      extra.add(UInt16(large.bytes.count))
      extra.bytes += large.bytes
    }
    extra.bytes += times(member)
    var record = Record()
    record.add(UInt32(0x0201_4B50))
    // Made by Unix: the attributes are a mode.
    record.add(UInt16(3 << 8 | version))
    record.bytes += common(member, checksum: written.checksum).bytes
    record.add(UInt32(min(written.size, limit)))
    record.add(UInt32(min(written.size, limit)))
    record.add(UInt16(member.name.count))
    record.add(UInt16(extra.bytes.count))
    record.add(UInt16(0))
    record.add(UInt16(0))
    record.add(UInt16(0))
    let isDirectory = UInt32(member.mode) & UInt32(S_IFMT) == UInt32(S_IFDIR)
    record.add(UInt32(member.mode) << 16 | (isDirectory ? 0x10 : 0))
    record.add(UInt32(min(written.offset, limit)))
    record.bytes += member.name
    record.bytes += extra.bytes
    return record.bytes
  }

  /// The end, with the one for large archives before it: 4.3.14 to 4.3.16.
  private static func end(count: UInt64, from start: UInt64, to end: UInt64) -> [UInt8] {
    var record = Record()
    record.add(UInt32(0x0606_4B50))
    record.add(UInt64(44))
    record.add(UInt16(3 << 8 | version))
    record.add(version)
    record.add(UInt32(0))
    record.add(UInt32(0))
    record.add(count)
    record.add(count)
    record.add(end - start)
    record.add(start)
    record.add(UInt32(0x0706_4B50))
    record.add(UInt32(0))
    record.add(end)
    record.add(UInt32(1))
    record.add(UInt32(0x0605_4B50))
    record.add(UInt16(0))
    record.add(UInt16(0))
    record.add(UInt16(min(count, 0xFFFF)))
    record.add(UInt16(min(count, 0xFFFF)))
    record.add(UInt32(min(end - start, limit)))
    record.add(UInt32(min(start, limit)))
    record.add(UInt16(0))
    return record.bytes
  }

  /// The extended timestamp, in seconds: 4.5.3, 0x5455. Nothing for what it cannot say.
  private static func times(_ member: Member) -> [UInt8] {
    guard let seconds = Int32(exactly: member.modified) else { return [] }
    var record = Record()
    record.add(UInt16(0x5455))
    record.add(UInt16(5))
    record.add(UInt8(1))
    record.add(seconds)
    return record.bytes
  }

  /// As MS-DOS has it, in local time, from 1980 on.
  private static func moment(_ seconds: Int64) -> (time: UInt16, date: UInt16) {
    var moment = time_t(seconds)
    var parts = tm()
    localtime_r(&moment, &parts)
    guard parts.tm_year >= 80, parts.tm_year <= 207 else { return (0, 1 << 5 | 1) }
    return (
      UInt16(parts.tm_hour << 11 | parts.tm_min << 5 | parts.tm_sec / 2),
      UInt16((parts.tm_year - 80) << 9 | (parts.tm_mon + 1) << 5 | parts.tm_mday)
    )
  }
}
