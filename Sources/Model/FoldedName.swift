/// What names have in common that differ only in case or in their Unicode form, and so would be one
/// name on other systems: full case folding and canonical equivalence (The Unicode Standard,
/// section 3.13, D145).
///
/// Source: iCloud Design Guide, "Designing the Document Format": document names on file systems
/// that do not tell case apart.
package struct FoldedName: Hashable, Sendable {
  /// Two strings are equal when they are canonically equivalent: Swift sees to that half.
  private let text: String

  /// Nil for a name that is not UTF-8: it has no case and no form, and is like itself alone.
  package init?(_ name: ItemName) {
    if name.bytes.allSatisfy({ $0 < 0x80 }) {
      text = String(
        decoding: name.bytes.map { 0x41...0x5A ~= $0 ? $0 | 0x20 : $0 }, as: UTF8.self)
      return
    }
    guard let plain = String(validating: name.bytes, as: UTF8.self) else { return nil }
    var folded = String.UnicodeScalarView()
    for scalar in plain.unicodeScalars { folded.append(contentsOf: Self.fold(scalar)) }
    text = String(folded)
  }

  /// By way of the upper case, where ß is SS and both small sigmas are one; but the dotless i
  /// would become a dotted one there, and is a letter of its own.
  private static func fold(_ scalar: Unicode.Scalar) -> String.UnicodeScalarView {
    guard scalar.properties.changesWhenCaseFolded else {
      return String.UnicodeScalarView([scalar])
    }
    let upper = scalar.properties.uppercaseMapping.unicodeScalars
    return String.UnicodeScalarView(upper.flatMap { $0.properties.lowercaseMapping.unicodeScalars })
  }
}
