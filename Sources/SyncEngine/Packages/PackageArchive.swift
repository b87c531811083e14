internal import Model

/// A package as one content: a tar file (POSIX.1-2001, "pax"), cut into chunks so that those of its
/// files are the ones that the files have in the log already. Only the frames around them are new.
///
/// The same tree gives the same bytes. Source: POSIX.1-2001, pax(1), "pax Interchange Format".
enum PackageArchive {
  enum Part {
    /// Headers and padding, in pieces that are one chunk each.
    case frame([[UInt8]])
    case content(Manifest)
  }

  struct Damage: Error, CustomStringConvertible {
    let description: String
  }

  static let block = 512
  private static let longestPiece = 1 << 20

  static func parts(of tree: PackageTree) -> [Part] {
    var parts: [Part] = []
    var frame: [UInt8] = []
    func close() {
      let pieces = stride(from: 0, to: frame.count, by: longestPiece).map { start in
        Array(frame[start..<min(start + longestPiece, frame.count)])
      }
      if !pieces.isEmpty { parts.append(.frame(pieces)) }
      frame = []
    }
    for entry in tree.entries {
      frame += header(entry)
      guard let content = entry.content, content.size > 0 else { continue }
      close()
      parts.append(.content(content))
      frame = [UInt8](repeating: 0, count: padding(content.size))
    }
    frame += [UInt8](repeating: 0, count: 2 * block)
    close()
    return parts
  }

  static func padding(_ size: UInt64) -> Int {
    let rest = Int(size % UInt64(block))
    return rest == 0 ? 0 : block - rest
  }

  // MARK: Headers

  private static func header(_ entry: PackageTree.Entry) -> [UInt8] {
    let path = Array(entry.path.map(\.bytes).joined(separator: [0x2F]))
    let size = entry.content?.size ?? 0
    var fields: [UInt8] = []
    fields += field("path", path)
    fields += field("mtime", Array(decimal(entry.modified).utf8))
    fields += field("size", Array(String(size).utf8))
    if entry.kind == .symbolicLink { fields += field("linkpath", entry.target) }
    for (name, value) in entry.attributes.sorted(by: {
      Array($0.key.utf8).lexicographicallyPrecedes(Array($1.key.utf8))
    }) {
      fields += field("SCHILY.xattr." + name, value)
    }
    let type: UInt8 =
      switch entry.kind {
      case .directory: UInt8(ascii: "5")
      case .symbolicLink: UInt8(ascii: "2")
      default: UInt8(ascii: "0")
      }
    let seconds = UInt64(max(0, entry.modified.parts.seconds))
    return ustar(
      name: Array("PaxHeaders/attributes".utf8), mode: 0o644, size: UInt64(fields.count),
      seconds: seconds, type: UInt8(ascii: "x"), target: [])
      + fields + [UInt8](repeating: 0, count: padding(UInt64(fields.count)))
      + ustar(
        name: path, mode: entry.mode, size: size, seconds: seconds, type: type,
        target: entry.target)
  }

  /// `length key=value\n`, where the length counts itself.
  private static func field(_ key: String, _ value: [UInt8]) -> [UInt8] {
    let rest = Array(" \(key)=".utf8) + value + [0x0A]
    var length = rest.count + 1
    while String(length).utf8.count + rest.count != length {
      length = String(length).utf8.count + rest.count
    }
    return Array(String(length).utf8) + rest
  }

  private static func decimal(_ time: Timestamp) -> String {
    var (seconds, fraction) = time.parts
    let isNegative = seconds < 0
    // The sign is that of the whole number: half a second before 1970 is -0.5.
    if isNegative, fraction > 0 { (seconds, fraction) = (seconds + 1, 1_000_000_000 - fraction) }
    let digits = String(fraction)
    return (isNegative ? "-" : "") + String(seconds.magnitude) + "."
      + String(repeating: "0", count: 9 - digits.count) + digits
  }

  private static func ustar(
    name: [UInt8], mode: UInt16, size: UInt64, seconds: UInt64, type: UInt8, target: [UInt8]
  ) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: block)
    func put(_ value: some Collection<UInt8>, at offset: Int, limit: Int) {
      for (index, byte) in value.prefix(limit).enumerated() { bytes[offset + index] = byte }
    }
    // What does not fit stands in the fields before it.
    func octal(_ value: UInt64, _ width: Int) -> [UInt8] {
      let text = String(value, radix: 8)
      guard text.utf8.count <= width else { return [UInt8](repeating: 0x37, count: width) }
      return Array((String(repeating: "0", count: width - text.utf8.count) + text).utf8)
    }
    put(name, at: 0, limit: 100)
    put(octal(UInt64(mode), 7), at: 100, limit: 7)
    put(octal(0, 7), at: 108, limit: 7)
    put(octal(0, 7), at: 116, limit: 7)
    put(octal(size, 11), at: 124, limit: 11)
    put(octal(seconds, 11), at: 136, limit: 11)
    bytes[156] = type
    put(target, at: 157, limit: 100)
    put(Array("ustar\0".utf8) + Array("00".utf8), at: 257, limit: 8)
    for index in 148..<156 { bytes[index] = 0x20 }
    let sum = bytes.reduce(UInt64(0)) { $0 + UInt64($1) }
    put(octal(sum, 6) + [0, 0x20], at: 148, limit: 8)
    return bytes
  }
}
