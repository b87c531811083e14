/// The elements of a store's answer, in their order: as much XML as S3 has in it.
///
/// No document type, no processing but of the first line, no entities but XML's own five and
/// numbers, at most 16 levels and 20,000 texts: an answer that has more is none of a store, and is
/// refused like one that is cut short. Source: "Extensible Markup Language (XML) 1.0", sections 2
/// and 4.
struct XMLElements {
  /// What stands in an element, with the names of all that it is in:
  /// `ListBucketResult/Contents/Key`.
  private(set) var texts: [(path: String, text: String)] = []

  func first(_ path: String) -> String? { texts.first { $0.path == path }?.text }

  func all(_ path: String) -> [String] { texts.filter { $0.path == path }.map(\.text) }

  /// The outermost element's name.
  private(set) var root = ""

  private static let deepest = 16
  /// Of a thousand keys each has a dozen.
  private static let most = 20_000

  /// Nil for what is no such document.
  init?(_ bytes: [UInt8]) {
    var scanner = Scanner(bytes: bytes)
    scanner.skipSpace()
    if scanner.skip("<?xml"), !scanner.skipPast("?>") { return nil }
    var open: [(name: String, hasElements: Bool)] = []
    var text: [UInt8] = []
    var isDone = false
    while true {
      if open.isEmpty { scanner.skipSpace() }
      guard let byte = scanner.peek else { break }
      guard byte == UInt8(ascii: "<") else {
        guard !open.isEmpty, scanner.takeText(&text) else { return nil }
        continue
      }
      if scanner.skip("<!--") {
        guard scanner.skipPast("-->") else { return nil }
      } else if scanner.skip("</") {
        guard let name = scanner.takeName(), let last = open.last, last.name == name,
          scanner.skip(">")
        else { return nil }
        if !last.hasElements {
          texts.append(
            (open.map(\.name).joined(separator: "/"), String(decoding: text, as: UTF8.self)))
        }
        text = []
        open.removeLast()
        isDone = open.isEmpty
      } else {
        _ = scanner.skip("<")
        guard !isDone, open.count < Self.deepest, texts.count < Self.most,
          let name = scanner.takeName(),
          let isEmpty = scanner.skipAttributes()
        else { return nil }
        if open.isEmpty { root = name } else { open[open.count - 1].hasElements = true }
        text = []
        if isEmpty {
          texts.append(((open.map(\.name) + [name]).joined(separator: "/"), ""))
          isDone = open.isEmpty
        } else {
          open.append((name, false))
        }
      }
    }
    guard isDone, open.isEmpty else { return nil }
  }
}

private struct Scanner {
  let bytes: [UInt8]
  var position = 0

  var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

  mutating func skipSpace() {
    while let byte = peek, byte == 0x20 || (9...13).contains(byte) { position += 1 }
  }

  mutating func skip(_ text: StaticString) -> Bool {
    let wanted = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    guard bytes.count - position >= wanted.count,
      bytes[position..<position + wanted.count].elementsEqual(wanted)
    else { return false }
    position += wanted.count
    return true
  }

  mutating func skipPast(_ end: StaticString) -> Bool {
    while position < bytes.count {
      if skip(end) { return true }
      position += 1
    }
    return false
  }

  mutating func takeName() -> String? {
    let start = position
    while let byte = peek, byte > 0x20, byte != UInt8(ascii: ">"), byte != UInt8(ascii: "/"),
      byte != UInt8(ascii: "<"), byte != UInt8(ascii: "!"), byte != UInt8(ascii: "?")
    { position += 1 }
    guard position > start, position - start <= 100 else { return nil }
    let name = String(decoding: bytes[start..<position], as: UTF8.self)
    skipSpace()
    return name
  }

  /// To the end of a tag; whether it is one of an empty element. Nil: it has no end.
  mutating func skipAttributes() -> Bool? {
    while let byte = peek {
      if skip("/>") { return true }
      if skip(">") { return false }
      position += 1
      if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
        while let inner = peek, inner != byte { position += 1 }
        position += 1
      } else if byte == UInt8(ascii: "<") {
        return nil
      }
    }
    return nil
  }

  /// Up to the next tag.
  mutating func takeText(_ text: inout [UInt8]) -> Bool {
    while let byte = peek, byte != UInt8(ascii: "<") {
      position += 1
      guard byte == UInt8(ascii: "&") else {
        text.append(byte)
        continue
      }
      let end = bytes[position...].prefix(10).firstIndex(of: UInt8(ascii: ";"))
      guard let end, let character = Self.character(bytes[position..<end]) else { return false }
      text += Array(String(character).utf8)
      position = end + 1
    }
    return true
  }

  private static func character(_ name: ArraySlice<UInt8>) -> Unicode.Scalar? {
    let name = String(decoding: name, as: UTF8.self)
    switch name {
    case "lt": return "<"
    case "gt": return ">"
    case "amp": return "&"
    case "quot": return "\""
    case "apos": return "'"
    default:
      guard name.hasPrefix("#") else { return nil }
      let isHexadecimal = name.hasPrefix("#x")
      let digits = name.dropFirst(isHexadecimal ? 2 : 1)
      return UInt32(digits, radix: isHexadecimal ? 16 : 10).flatMap(Unicode.Scalar.init)
    }
  }
}
