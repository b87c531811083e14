/// Why a predicate is none: where, and what was expected there.
package struct PredicateError: Error, Hashable, Sendable {
  package let text: String
  /// In Unicode scalars from the start.
  package let offset: Int
  package let reason: String

  /// With the place below the text: for people.
  package var description: String {
    let scalars = text.unicodeScalars
    let place = scalars.index(scalars.startIndex, offsetBy: offset, limitedBy: scalars.endIndex)
    let before = Self.shown(text[..<(place ?? scalars.endIndex)])
    let after = Self.shown(text[(place ?? scalars.endIndex)...])
    // Of a long one the part around the place.
    let start = before.suffix(60)
    return "the predicate is not valid at character \(before.count + 1): \(reason)\n  "
      + start + after.prefix(16 + 60 - start.count) + "\n  "
      + String(repeating: " ", count: start.count) + "^"
  }

  private static func shown(_ text: Substring) -> String {
    String(text.map { $0.isNewline || $0 == "\t" ? " " : $0 })
  }
}

extension PredicateError: CustomStringConvertible {}

/// What stands for `%@`, `%K`, `%d` and the like.
package enum PredicateArgument: Hashable, Sendable {
  case value(MetadataValue)
  /// For `IN` and `BETWEEN`.
  case list([MetadataValue])
}

/// How a predicate is written.
package enum PredicateForm: Sendable {
  /// As in `NSPredicate`'s format strings.
  case format
  /// As above, and a bare word or text is a pattern for names, a value needs no quotes, and terms
  /// side by side must all hold.
  case commandLine
}
