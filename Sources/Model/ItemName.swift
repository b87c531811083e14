/// One component of a path: 1 to 255 bytes without `/` and NUL, and neither `.` nor `..`.
///
/// Names are bytes, as on ext4. They are compared as bytes: Swift's `String` would hold names equal
/// that differ in Unicode form, which are two files to every program on Linux.
package struct ItemName: Hashable, Sendable, CustomStringConvertible {
  package let bytes: [UInt8]

  package enum Invalid: Error, Equatable, Sendable {
    case empty
    case tooLong(Int)
    case reserved
    case forbiddenByte
  }

  package static let maximumLength = 255

  package init(_ bytes: [UInt8]) throws(Invalid) {
    guard !bytes.isEmpty else { throw .empty }
    guard bytes.count <= Self.maximumLength else { throw .tooLong(bytes.count) }
    guard bytes != [0x2E], bytes != [0x2E, 0x2E] else { throw .reserved }
    guard !bytes.contains(where: { $0 == 0 || $0 == 0x2F }) else { throw .forbiddenByte }
    self.bytes = bytes
  }

  package init(_ text: String) throws(Invalid) { try self.init(Array(text.utf8)) }

  private init(unchecked bytes: [UInt8]) { self.bytes = bytes }

  package static let documents = ItemName(unchecked: Array("Documents".utf8))

  /// The name as text; bytes that are not UTF-8 become U+FFFD.
  package var description: String { String(decoding: bytes, as: UTF8.self) }

  /// Whether items of this name stay on the device: `x.nosync` and `x.nosync.y`.
  ///
  /// Source: iCloud Design Guide, "Ubiquity Containers Have Minimal Structure"; CONTRACT, "The
  /// mount".
  package var isExcludedFromSync: Bool {
    let mark = Self.exclusionMark
    guard bytes.count >= mark.count else { return false }
    for start in 0...(bytes.count - mark.count) {
      let end = start + mark.count
      guard bytes[start..<end].elementsEqual(mark) else { continue }
      if end == bytes.count || bytes[end] == 0x2E { return true }
    }
    return false
  }

  private static let exclusionMark = Array(".nosync".utf8)

  /// `name.ext` becomes `name 2.ext`, and the name stays within the limit by shortening its stem.
  /// A leading dot does not start an extension.
  package func numbered(_ number: Int) -> ItemName {
    let dot = bytes.lastIndex(of: 0x2E).flatMap { $0 > 0 ? $0 : nil } ?? bytes.endIndex
    let suffix = Array(" \(number)".utf8) + bytes[dot...]
    guard suffix.count < Self.maximumLength else {
      // The extension is nearly the whole name; number the end of it instead.
      let tail = Array(" \(number)".utf8)
      return ItemName(unchecked: Self.prefix(bytes, Self.maximumLength - tail.count) + tail)
    }
    let stem = Self.prefix(Array(bytes[..<dot]), Self.maximumLength - suffix.count)
    return ItemName(unchecked: stem + suffix)
  }

  /// The first `limit` bytes, less what would be a part of a UTF-8 character.
  private static func prefix(_ bytes: [UInt8], _ limit: Int) -> [UInt8] {
    guard bytes.count > limit else { return bytes }
    var end = limit
    while end > 0, bytes[end] & 0xC0 == 0x80 { end -= 1 }
    return Array(bytes[..<(end == 0 ? limit : end)])
  }
}

extension ItemName: Comparable {
  package static func < (left: ItemName, right: ItemName) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}
