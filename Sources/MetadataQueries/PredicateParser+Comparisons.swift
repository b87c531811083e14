/// One comparison: its operator, its values, and whether they fit the attribute.
extension PredicateParser {
  typealias Symbol = (
    operator: MetadataComparison.Operator, options: MetadataComparison.Options, offset: Int
  )

  /// A value as it was written, before the attribute's kind is asked for.
  struct Written {
    let value: MetadataValue
    /// What was written, where that was a number: it may be meant as text.
    var spelling: String?
    let offset: Int
  }

  mutating func comparison(of attribute: MetadataAttribute) throws(PredicateError)
    -> QueryPredicate
  {
    let symbol = try comparisonOperator()
    let values: [Written]
    switch symbol.operator {
    case .isIn: values = try list()
    case .between:
      let start = token.offset
      values = try list()
      guard values.count == 2 else {
        throw error("BETWEEN needs two values, but here are \(values.count)", at: start)
      }
    default:
      guard let value = try value() else { throw expected("a value") }
      values = [value]
    }
    return .comparison(try made(attribute, symbol, values))
  }

  // MARK: Operators

  static func withoutOptions(_ word: String) -> String {
    String(word.prefix { $0 != "[" }).uppercased()
  }

  mutating func comparisonOperator() throws(PredicateError) -> Symbol {
    let start = token.offset
    let found: MetadataComparison.Operator
    var written: String?
    switch token.kind {
    case .symbol("="), .symbol("=="): found = .equal
    case .symbol("!="), .symbol("<>"): found = .notEqual
    case .symbol("<"): found = .less
    case .symbol("<="), .symbol("=<"): found = .lessOrEqual
    case .symbol(">"): found = .greater
    case .symbol(">="), .symbol("=>"): found = .greaterOrEqual
    case .word(let word):
      let name = Self.withoutOptions(word)
      if name == "MATCHES" {
        throw error("there are no regular expressions; use LIKE with the wildcards * and ?")
      }
      guard let named = MetadataComparison.Operator(rawValue: name) else {
        throw expected("an operator (== != < <= > >= LIKE BEGINSWITH ENDSWITH CONTAINS IN BETWEEN)")
      }
      found = named
      // On the command line a word may have brackets: `LIKE[c]` is one.
      if word.count > name.count { written = String(word.dropFirst(name.count)) }
    default:
      throw expected("an operator (== != < <= > >= LIKE BEGINSWITH ENDSWITH CONTAINS IN BETWEEN)")
    }
    advance()
    return (found, try options(written, at: start), start)
  }

  private mutating func options(
    _ written: String?, at offset: Int
  ) throws(PredicateError) -> MetadataComparison.Options {
    var letters: String
    var place = offset
    if let written {
      guard written.hasPrefix("["), written.hasSuffix("]"), written.count > 2 else {
        throw error("expected [c], [d] or [cd] after the operator", at: offset)
      }
      letters = String(written.dropFirst().dropLast())
    } else {
      guard isSymbol("[") else { return [] }
      advance()
      place = token.offset
      guard case .word(let word) = token.kind else { throw expected("c, d or cd") }
      letters = word
      advance()
      if letters.hasSuffix("]"), letters.count > 1 {
        letters.removeLast()
      } else {
        try skipSymbol("]", "\"]\"")
      }
    }
    var options: MetadataComparison.Options = []
    for letter in letters.lowercased() {
      switch letter {
      case "c": options.insert(.caseInsensitive)
      case "d": options.insert(.diacriticInsensitive)
      default: throw error("expected c, d or cd in the brackets", at: place)
      }
    }
    return options
  }

  // MARK: Values

  private mutating func list() throws(PredicateError) -> [Written] {
    if case .argument = token.kind {
      guard case .list(let values)? = arguments.first else {
        throw error(
          arguments.isEmpty ? "there is no argument for it" : "its argument is not a list")
      }
      arguments.removeFirst()
      let offset = token.offset
      advance()
      return values.map { Written(value: $0, offset: offset) }
    }
    let close: String
    if isSymbol("{") {
      close = "}"
    } else if isSymbol("(") {
      close = ")"
    } else {
      throw expected("\"{\" and a list of values")
    }
    advance()
    var values: [Written] = []
    if isSymbol(close) {
      advance()
      return []
    }
    while true {
      guard let value = try value() else { throw expected("a value") }
      values.append(value)
      if isSymbol(close) {
        advance()
        return values
      }
      try skipSymbol(",", "\",\" or \"\(close)\"")
    }
  }

  /// Nil where there is none.
  mutating func value() throws(PredicateError) -> Written? {
    let offset = token.offset
    switch token.kind {
    case .quoted(let text):
      advance()
      return Written(value: .text(text), offset: offset)
    case .argument(let name):
      guard let argument = arguments.first else { throw error("there is no argument for it") }
      guard name != "K" else { throw error("%K stands for an attribute; a value is %@") }
      guard case .value(let value) = argument else {
        throw error("its argument is a list, which only IN and BETWEEN accept")
      }
      arguments.removeFirst()
      if case .number(let number) = value, !number.isFinite {
        throw error("its argument is not a number")
      }
      advance()
      return Written(value: value, offset: offset)
    case .word(let word):
      if word.uppercased() == "CAST", place + 1 < tokens.count,
        tokens[place + 1].kind == .symbol("(")
      {
        return try cast()
      }
      if let number = Self.number(word) {
        advance()
        return Written(value: number, spelling: word, offset: offset)
      }
      if let constant = Self.constant(word) {
        advance()
        return Written(value: constant, spelling: word, offset: offset)
      }
      if form == .format {
        // The names of the constants for the values.
        let prefix = MetadataAttribute.statusPrefix
        guard word.hasPrefix(prefix), !prefix.isEmpty else {
          throw error("\"\(word.prefix(100))\" is not a value; write text in quotes")
        }
      }
      advance()
      return Written(value: .text(word), offset: offset)
    case .symbol, .end: return nil
    }
  }

  /// `CAST('2026-01-31', 'NSDate')`, or of seconds since 2001.
  private mutating func cast() throws(PredicateError) -> Written {
    try goDown()
    defer { depth -= 1 }
    let offset = token.offset
    advance()
    try skipSymbol("(", "\"(\"")
    guard let written = try value() else { throw expected("a value") }
    try skipSymbol(",", "\",\"")
    guard case .quoted(let type) = token.kind else { throw expected("'NSDate' or 'NSNumber'") }
    let typeOffset = token.offset
    advance()
    try skipSymbol(")", "\")\"")
    let value: MetadataValue?
    switch (type, written.value) {
    case ("NSDate", .date): value = written.value
    case ("NSDate", .text(let text)): value = DateText.nanoseconds(text).map { .date($0) }
    case ("NSDate", .integer(let seconds)): value = Self.date(Double(seconds))
    case ("NSDate", .number(let seconds)): value = Self.date(seconds)
    case ("NSNumber", .integer), ("NSNumber", .number): value = written.value
    case ("NSNumber", .text(let text)): value = Self.number(text)
    default: throw error("expected 'NSDate' or 'NSNumber'", at: typeOffset)
    }
    guard let value else {
      throw error("this is not a \(type == "NSDate" ? "date" : "number")", at: written.offset)
    }
    return Written(value: value, offset: offset)
  }

  /// Seconds from 2001 on, as Foundation counts them.
  private static func date(_ seconds: Double) -> MetadataValue? {
    MetadataValue(secondsSince1970: seconds + 978_307_200)
  }

  static func number(_ text: String) -> MetadataValue? {
    guard let first = text.utf8.first(where: { $0 != 0x2B && $0 != 0x2D }),
      0x30...0x39 ~= first || first == 0x2E
    else { return nil }
    if let value = Int64(text) { return .integer(value) }
    guard let value = Double(text), value.isFinite, !text.lowercased().contains("x") else {
      return nil
    }
    return exact(value)
  }

  static func constant(_ word: String) -> MetadataValue? {
    switch word.uppercased() {
    case "TRUE", "YES": .flag(true)
    case "FALSE", "NO": .flag(false)
    case "NULL", "NIL": .null
    default: nil
    }
  }

  private static func exact(_ value: Double) -> MetadataValue {
    Int64(exactly: value).map { .integer($0) } ?? .number(value)
  }

  // MARK: Fitting

  func made(
    _ attribute: MetadataAttribute, _ symbol: Symbol, _ values: [Written]
  ) throws(PredicateError) -> MetadataComparison {
    guard attribute.kind == .text || !symbol.operator.isTextual else {
      throw error(
        "\(attribute.key) is not text, and \(symbol.operator.rawValue) compares only text",
        at: symbol.offset)
    }
    return MetadataComparison(
      attribute, symbol.operator,
      try values.map { value throws(PredicateError) in
        try fitting(value, attribute, symbol.operator)
      }, options: attribute.kind == .text ? symbol.options : [])
  }

  private func fitting(
    _ written: Written, _ attribute: MetadataAttribute, _ comparison: MetadataComparison.Operator
  ) throws(PredicateError) -> MetadataValue {
    func wrong(_ what: String) -> PredicateError {
      error("\(attribute.key) is \(what)", at: written.offset)
    }
    if written.value == .null {
      switch comparison {
      case .equal, .notEqual, .isIn: return .null
      default: throw error("only ==, != and IN can compare with NULL", at: written.offset)
      }
    }
    switch (attribute.kind, written.value) {
    case (.text, .text(let text)): return try choice(text, written, attribute, comparison)
    case (.text, let value):
      if let spelling = written.spelling {
        return try choice(spelling, written, attribute, comparison)
      }
      guard case .integer(let number) = value else { throw wrong("text") }
      return .text(String(number))
    case (.number, .integer): return written.value
    case (.number, .number(let value)): return Self.exact(value)
    case (.number, .text(let text)):
      guard let value = Self.number(text) else { throw wrong("a number") }
      return value
    case (.number, _): throw wrong("a number")
    case (.flag, .flag): return written.value
    case (.flag, .integer(0)), (.flag, .text("0")): return .flag(false)
    case (.flag, .integer(1)), (.flag, .text("1")): return .flag(true)
    case (.flag, .text(let text)):
      guard case .flag(let flag)? = Self.constant(text) else { throw wrong("0 or 1") }
      return .flag(flag)
    case (.flag, _): throw wrong("0 or 1")
    case (.date, .date): return written.value
    case (.date, .text(let text)):
      guard let date = DateText.nanoseconds(text) else {
        throw wrong("a date: '2026-01-31' or '2026-01-31T09:05:00Z'")
      }
      return .date(date)
    case (.date, _): throw wrong("a date: '2026-01-31' or '2026-01-31T09:05:00Z'")
    }
  }

  /// Text for an attribute that has few values is one of them, where it is to be equal.
  private func choice(
    _ text: String, _ written: Written, _ attribute: MetadataAttribute,
    _ comparison: MetadataComparison.Operator
  ) throws(PredicateError) -> MetadataValue {
    guard let choices = attribute.choices, [.equal, .notEqual, .isIn].contains(comparison) else {
      return .text(text)
    }
    var short = text
    if let prefix = attribute.choicePrefix, text.hasPrefix(prefix), text.count > prefix.count {
      let rest = text.dropFirst(prefix.count)
      short = rest.prefix(1).lowercased() + rest.dropFirst()
    }
    guard choices.contains(short) || short.contains("*") else {
      throw error(
        "\(attribute.key) is \(choices.dropLast().joined(separator: ", ")) or "
          + (choices.last ?? ""), at: written.offset)
    }
    return .text(short)
  }
}
