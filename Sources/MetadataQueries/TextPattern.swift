@_spi(_Unicode) internal import Swift

/// Text that may have wildcards: `*` for any characters, `?` for one, `\` before either for itself.
struct TextPattern: Sendable {
  private enum Piece: Sendable {
    case one(Character)
    case anyOne
    case many
  }

  private let options: MetadataComparison.Options
  /// Without wildcards: equal to it.
  private let plain: String?
  private let pieces: [Piece]
  /// Where all of it is ASCII, as bytes; `pieces` has the wildcards.
  private let isASCII: Bool

  /// `==` knows `*` alone, as in the queries of Spotlight.
  init(_ text: String, options: MetadataComparison.Options, hasQuestionMark: Bool) {
    self.options = options
    var pieces: [Piece] = []
    var hasWildcard = false
    var rest = Substring(text)
    while let character = rest.popFirst() {
      switch character {
      case "\\" where rest.first == "*" || rest.first == "?" || rest.first == "\\":
        pieces.append(.one(rest.removeFirst()))
      case "*":
        hasWildcard = true
        if case .many? = pieces.last { continue }
        pieces.append(.many)
      case "?" where hasQuestionMark:
        hasWildcard = true
        pieces.append(.anyOne)
      default: pieces.append(.one(character))
      }
    }
    // Folding goes over the text as a whole, and may make two characters of one.
    var folded: [Piece] = []
    var run = ""
    func flush() {
      folded += Self.folded(run, options).map { .one($0) }
      run = ""
    }
    for piece in pieces {
      if case .one(let character) = piece {
        run.append(character)
      } else {
        flush()
        folded.append(piece)
      }
    }
    flush()
    self.pieces = folded
    var text = ""
    var isASCII = true
    for case .one(let character) in folded {
      text.append(character)
      if character.utf8.count != 1 { isASCII = false }
    }
    plain = hasWildcard ? nil : text
    self.isASCII = isASCII
  }

  func matches(_ text: String) -> Bool {
    let text = Self.folded(text, options)
    if let plain { return plain == text }
    if isASCII, text.utf8.allSatisfy({ $0 < 0x80 }) {
      return matches(Array(text.utf8)) { $0.asciiValue ?? 0 }
    }
    return matches(Array(text)) { $0 }
  }

  /// In time that grows with the product of the two lengths at most: to the last `*` alone it goes
  /// back.
  private func matches<Element: Equatable>(
    _ text: [Element], _ element: (Character) -> Element
  ) -> Bool {
    var place = 0
    var piece = 0
    var star: (piece: Int, place: Int)?
    while place < text.count {
      if piece < pieces.count {
        switch pieces[piece] {
        case .many:
          star = (piece, place)
          piece += 1
          continue
        case .anyOne:
          piece += 1
          place += 1
          continue
        case .one(let character) where element(character) == text[place]:
          piece += 1
          place += 1
          continue
        case .one: break
        }
      }
      guard let last = star else { return false }
      star = (last.piece, last.place + 1)
      piece = last.piece + 1
      place = last.place + 1
    }
    return pieces[piece...].allSatisfy { if case .many = $0 { true } else { false } }
  }

  /// As the options want it: in one case (by way of the upper one, as in `FoldedName`), without
  /// marks.
  static func folded(_ text: String, _ options: MetadataComparison.Options) -> String {
    guard !options.isEmpty else { return text }
    if text.utf8.allSatisfy({ $0 < 0x80 }) {
      return options.contains(.caseInsensitive) ? text.lowercased() : text
    }
    var scalars = String.UnicodeScalarView()
    if options.contains(.diacriticInsensitive) {
      for scalar in text._nfd where scalar.properties.canonicalCombiningClass == .notReordered {
        scalars.append(scalar)
      }
    } else {
      scalars = text.unicodeScalars
    }
    guard options.contains(.caseInsensitive) else { return String(scalars) }
    var folded = String.UnicodeScalarView()
    for scalar in scalars {
      guard scalar.properties.changesWhenCaseFolded else {
        folded.append(scalar)
        continue
      }
      for upper in scalar.properties.uppercaseMapping.unicodeScalars {
        folded.append(contentsOf: upper.properties.lowercaseMapping.unicodeScalars)
      }
    }
    return String(folded)
  }
}
