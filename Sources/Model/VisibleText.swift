/// Text of others as a terminal may show it: the names of files and devices, and what a store
/// answers, can have control characters that move the cursor, hide lines, or have the terminal
/// type.
package enum VisibleText {
  /// Each control character, and each that turns the direction of what follows, becomes `\u{N}`.
  /// Newlines and tabs stay.
  package static func of(_ text: String) -> String {
    guard text.unicodeScalars.contains(where: isHidden) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      if isHidden(scalar) {
        result += "\\u{\(String(scalar.value, radix: 16))}"
      } else {
        result.unicodeScalars.append(scalar)
      }
    }
    return result
  }

  /// `of` for one field of a line: newlines and tabs are written too.
  package static func field(_ text: String) -> String {
    // By scalars: to `String` a return and a newline are one character, and not a newline.
    of(replacing(in: text) { $0 == "\n" ? "\\n" : $0 == "\t" ? "\\t" : nil })
  }

  /// `of` for a line of its own: newlines become spaces.
  package static func line(_ text: String) -> String {
    of(replacing(in: text) { $0 == "\n" ? " " : nil })
  }

  private static func replacing(in text: String, _ other: (Unicode.Scalar) -> String?) -> String {
    guard text.unicodeScalars.contains(where: { other($0) != nil }) else { return text }
    var result = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      if let other = other(scalar) {
        result.append(contentsOf: other.unicodeScalars)
      } else {
        result.append(scalar)
      }
    }
    return String(result)
  }

  private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x09, 0x0A: false
    case 0..<0x20, 0x7F..<0xA0: true
    // Line and paragraph separators, and what embeds, overrides and isolates directions.
    case 0x2028...0x202E, 0x2066...0x2069: true
    default: false
    }
  }
}
