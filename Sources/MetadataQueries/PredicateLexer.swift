/// A piece of a predicate.
struct PredicateToken: Equatable {
  enum Kind: Equatable {
    /// A name, a number, a word of the language or, on the command line, anything without spaces.
    case word(String)
    case quoted(String)
    /// `==`, `&&`, `(`, `{`, `[`, ...
    case symbol(String)
    /// What follows a `%`.
    case argument(String)
    case end
  }

  let kind: Kind
  let offset: Int
}

/// Cuts a predicate into pieces.
struct PredicateLexer {
  private let text: String
  /// Not characters: a mark after a quote would be one with it.
  private let characters: [Unicode.Scalar]
  private let form: PredicateForm
  private var place = 0

  static let maximumLength = 65_536

  init(_ text: String, form: PredicateForm) {
    self.text = text
    characters = Array(text.unicodeScalars)
    self.form = form
  }

  private static let symbols = [
    "==", "!=", "<=", ">=", "=<", "=>", "<>", "&&", "||", "=", "<", ">", "!", "(", ")", "{", "}",
    "[",
    "]", ",",
  ].map { Array($0.unicodeScalars) }

  mutating func tokens() throws(PredicateError) -> [PredicateToken] {
    guard characters.count <= Self.maximumLength else {
      throw error(at: 0, "the predicate has more than \(Self.maximumLength) characters")
    }
    var result: [PredicateToken] = []
    while true {
      while place < characters.count, characters[place].properties.isWhitespace { place += 1 }
      let start = place
      guard place < characters.count else {
        result.append(PredicateToken(kind: .end, offset: start))
        return result
      }
      result.append(PredicateToken(kind: try next(), offset: start))
    }
  }

  private func error(at offset: Int, _ reason: String) -> PredicateError {
    PredicateError(text: text, offset: min(offset, characters.count), reason: reason)
  }

  private mutating func next() throws(PredicateError) -> PredicateToken.Kind {
    let first = characters[place]
    if first == "'" || first == "\"" { return .quoted(try quoted(first)) }
    if form == .format, first == "%" { return .argument(try argument()) }
    if let symbol = symbol(at: place, inWord: false) {
      place += symbol.count
      return .symbol(Self.text(symbol))
    }
    return .word(try word())
  }

  private func symbol(at place: Int, inWord: Bool) -> [Unicode.Scalar]? {
    // A pattern may have brackets, and a name commas; what compares ends a word.
    Self.symbols.first { symbol in
      guard characters[place...].starts(with: symbol) else { return false }
      guard form == .commandLine else { return true }
      if symbol == ["["] { return !inWord && isOptions(at: place) }
      return !inWord || symbol != ["!"] && symbol != ["]"]
    }
  }

  private static func text(_ scalars: some Sequence<Unicode.Scalar>) -> String {
    String(String.UnicodeScalarView(scalars))
  }

  /// `[c]`, `[d]` or `[cd]`: on the command line other brackets are a name's.
  private func isOptions(at place: Int) -> Bool {
    // No further: a text may have an open bracket at every second place.
    let near = characters[place...].dropFirst().prefix(3)
    guard let end = near.firstIndex(of: "]") else { return false }
    let letters = near[..<end]
    return !letters.isEmpty && letters.allSatisfy { "cdCD".unicodeScalars.contains($0) }
  }

  private mutating func word() throws(PredicateError) -> String {
    var result = String.UnicodeScalarView()
    while place < characters.count {
      let character = characters[place]
      if character.properties.isWhitespace || character == "'" || character == "\"" { break }
      if !result.isEmpty || form == .format, symbol(at: place, inWord: true) != nil { break }
      if form == .format, !Self.isWordCharacter(character) {
        guard result.isEmpty else { break }
        throw error(at: place, "\"\(character)\" has no meaning here; write text in quotes")
      }
      result.append(character)
      place += 1
    }
    return String(result)
  }

  /// With the signs that numbers and names of constants may have.
  private static func isWordCharacter(_ character: Unicode.Scalar) -> Bool {
    character.properties.isAlphabetic || character.properties.numericType != nil
      || "_.$@+-:".unicodeScalars.contains(character)
  }

  private mutating func quoted(_ quote: Unicode.Scalar) throws(PredicateError) -> String {
    let start = place
    var result = String.UnicodeScalarView()
    place += 1
    while place < characters.count {
      let character = characters[place]
      place += 1
      if character == quote { return String(result) }
      guard character == "\\", place < characters.count else {
        result.append(character)
        continue
      }
      let escaped = characters[place]
      place += 1
      switch escaped {
      case "n": result.append("\n")
      case "r": result.append("\r")
      case "t": result.append("\t")
      case "'", "\"": result.append(escaped)
      case "\\": result.append("\\")
      case "u": result.append(try scalar())
      // For the patterns: `\*` is a star and no wildcard.
      default:
        result.append("\\")
        result.append(escaped)
      }
    }
    throw error(at: start, "the text that starts here has no closing \(quote)")
  }

  /// Of `\u00e9`.
  private mutating func scalar() throws(PredicateError) -> Unicode.Scalar {
    let digits = Self.text(characters[place..<min(place + 4, characters.count)])
    guard digits.utf8.count == 4, digits.allSatisfy(\.isHexDigit),
      let value = UInt32(digits, radix: 16), let scalar = Unicode.Scalar(value)
    else { throw error(at: place - 2, "expected four hexadecimal digits of a character") }
    place += 4
    return scalar
  }

  private mutating func argument() throws(PredicateError) -> String {
    let start = place
    place += 1
    var name = ""
    while place < characters.count, place < start + 4,
      "lqzh".unicodeScalars.contains(characters[place])
    {
      place += 1
    }
    guard place < characters.count, "@Kdiufgs".unicodeScalars.contains(characters[place]) else {
      throw error(at: start, "expected %@, %K, %d, %i, %u, %f, %g or %s")
    }
    name.unicodeScalars.append(characters[place])
    place += 1
    return name
  }
}
