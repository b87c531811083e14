internal import Model

/// A path as the kernel has it: bytes. In JSON it is a string where it is UTF-8, and
/// `{"hex": "..."}` where it is not.
package struct PathBytes: Hashable, Codable, Sendable, CustomStringConvertible {
  package var bytes: [UInt8]

  package init(_ bytes: [UInt8]) { self.bytes = bytes }
  package init(_ text: String) { bytes = Array(text.utf8) }

  /// For people: bytes that are not UTF-8 become U+FFFD.
  package var description: String { String(decoding: bytes, as: UTF8.self) }

  private struct Escaped: Codable { var hex: String }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if let text = try? container.decode(String.self) {
      bytes = Array(text.utf8)
      return
    }
    guard let decoded = Hex.decode(Array(try container.decode(Escaped.self).hex.utf8)) else {
      throw DecodingError.dataCorruptedError(
        in: container, debugDescription: "a path's hex is not hexadecimal")
    }
    bytes = decoded
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    if let text = String(validating: bytes, as: UTF8.self) {
      try container.encode(text)
    } else {
      try container.encode(Escaped(hex: Hex.encode(bytes)))
    }
  }
}

/// An item of a mount as a client names it.
package struct ItemReference: Hashable, Codable, Sendable {
  /// Where the mount is, as the kernel's mount table has it.
  package var mountpoint: PathBytes
  /// From the mount's own directory; empty for that directory. Components are separated by `/`.
  package var path: PathBytes
  /// What the user wrote, for messages.
  package var shown: PathBytes

  package init(mountpoint: PathBytes, path: PathBytes, shown: PathBytes) {
    self.mountpoint = mountpoint
    self.path = path
    self.shown = shown
  }
}
