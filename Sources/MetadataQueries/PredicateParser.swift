extension QueryPredicate {
  /// How deep conditions, and the values in them, may be in one another.
  package static let maximumDepth = 100

  /// Parses a predicate; `arguments` stand for `%@` and the like, in order, all of them.
  package init(
    _ text: String, form: PredicateForm = .format, arguments: [PredicateArgument] = []
  ) throws(PredicateError) {
    var lexer = PredicateLexer(text, form: form)
    var parser = PredicateParser(
      text: text, form: form, tokens: try lexer.tokens(), arguments: arguments[...])
    self = try parser.parse()
  }
}

/// Source of the grammar: Apple's Predicate Programming Guide, "Predicate Format String Syntax".
struct PredicateParser {
  let text: String
  let form: PredicateForm
  let tokens: [PredicateToken]
  var arguments: ArraySlice<PredicateArgument>
  var place = 0
  var depth = 0

  init(
    text: String, form: PredicateForm, tokens: [PredicateToken],
    arguments: ArraySlice<PredicateArgument>
  ) {
    self.text = text
    self.form = form
    self.tokens = tokens
    self.arguments = arguments
  }

  mutating func parse() throws(PredicateError) -> QueryPredicate {
    guard token.kind != .end else { throw expected("a condition") }
    let result = try disjunction()
    guard token.kind == .end else { throw expected("AND, OR or the end") }
    guard arguments.isEmpty else {
      throw error("the predicate does not use \(arguments.count) of the arguments")
    }
    return result
  }

  // MARK: Tokens

  var token: PredicateToken { tokens[place] }

  mutating func advance() { if place < tokens.count - 1 { place += 1 } }

  func error(_ reason: String, at offset: Int? = nil) -> PredicateError {
    PredicateError(text: text, offset: offset ?? token.offset, reason: reason)
  }

  func expected(_ what: String) -> PredicateError {
    let found =
      switch token.kind {
      case .end: "the predicate ends here"
      case .word(let text), .symbol(let text): "found \"\(text)\""
      case .quoted: "found text"
      case .argument(let text): "found %\(text)"
      }
    return error("expected \(what), but \(found)")
  }

  func isSymbol(_ names: String...) -> Bool {
    if case .symbol(let text) = token.kind { return names.contains(text) }
    return false
  }

  /// A word of the language; they may be in any case.
  func isWord(_ names: String...) -> Bool {
    if case .word(let text) = token.kind { return names.contains(text.uppercased()) }
    return false
  }

  mutating func skipSymbol(_ name: String, _ what: String) throws(PredicateError) {
    guard isSymbol(name) else { throw expected(what) }
    advance()
  }

  // MARK: Conditions

  private mutating func disjunction() throws(PredicateError) -> QueryPredicate {
    var parts = [try conjunction()]
    while isWord("OR") || isSymbol("||") {
      advance()
      parts.append(try conjunction())
    }
    return parts.count == 1 ? parts[0] : .any(parts)
  }

  private mutating func conjunction() throws(PredicateError) -> QueryPredicate {
    var parts = [try negation()]
    while true {
      if isWord("AND") || isSymbol("&&") {
        advance()
      } else if form == .format || !beginsTerm {
        break
      }
      parts.append(try negation())
    }
    return parts.count == 1 ? parts[0] : .all(parts)
  }

  /// On the command line: whether another term follows without AND.
  private var beginsTerm: Bool {
    switch token.kind {
    case .word: !isWord("OR", "AND")
    case .quoted, .argument: true
    case .symbol(let text): text == "(" || text == "!"
    case .end: false
    }
  }

  /// Counts one level of nesting, since each takes stack. The caller ends it with `depth -= 1`.
  mutating func goDown() throws(PredicateError) {
    guard depth < QueryPredicate.maximumDepth else {
      throw error("the predicate is more than \(QueryPredicate.maximumDepth) levels deep here")
    }
    depth += 1
  }

  private mutating func negation() throws(PredicateError) -> QueryPredicate {
    try goDown()
    defer { depth -= 1 }
    if isWord("NOT") || isSymbol("!") {
      advance()
      return .not(try negation())
    }
    if isSymbol("(") {
      advance()
      let inner = try disjunction()
      try skipSymbol(")", "AND, OR or \")\"")
      return inner
    }
    return try term()
  }

  private mutating func term() throws(PredicateError) -> QueryPredicate {
    if isWord("TRUEPREDICATE") {
      advance()
      return .always
    }
    if isWord("FALSEPREDICATE") {
      advance()
      return .never
    }
    if isWord("ANY", "ALL", "SOME", "NONE"), form == .format {
      throw error("an attribute has one value: ANY, ALL, SOME and NONE have no meaning here")
    }
    let start = place
    let saved = arguments
    if let attribute = attribute() {
      advance()
      if form == .format || beginsComparison { return try comparison(of: attribute) }
      (place, arguments) = (start, saved)
    }
    return try termWithoutAttribute()
  }

  private var beginsComparison: Bool {
    switch token.kind {
    case .symbol(let text): !["(", ")", "{", "}", "!", "&&", "||", ",", "[", "]"].contains(text)
    case .word(let word):
      MetadataComparison.Operator(rawValue: Self.withoutOptions(word)) != nil
        || Self.withoutOptions(word) == "MATCHES"
    default: false
    }
  }

  private mutating func termWithoutAttribute() throws(PredicateError) -> QueryPredicate {
    let start = token
    if form == .commandLine {
      let next = place + 1 < tokens.count ? tokens[place + 1] : token
      let compares: Bool
      if case .symbol(let text) = next.kind {
        compares = ["==", "=", "!=", "<>", "<", ">", "<=", ">=", "=<", "=>"].contains(text)
      } else {
        compares = false
      }
      switch start.kind {
      case .word(let pattern) where !compares, .quoted(let pattern) where !compares:
        advance()
        return .comparison(MetadataComparison(.name, .like, [.text(pattern)]))
      default: break
      }
    }
    // A value first: `5 < size`.
    if case .word(let name) = start.kind, Self.number(name) == nil, Self.constant(name) == nil,
      name.uppercased() != "CAST"
    {
      throw unknownAttribute(name)
    }
    guard let value = try value() else { throw expected("an attribute") }
    let place = token
    let symbol = try comparisonOperator()
    guard let mirrored = symbol.operator.mirrored else {
      throw error("\(symbol.operator.rawValue) needs the attribute on its left", at: place.offset)
    }
    guard let attribute = attribute() else {
      if case .word(let name) = token.kind { throw unknownAttribute(name) }
      throw expected("an attribute")
    }
    advance()
    return .comparison(
      try made(attribute, (mirrored, symbol.options, place.offset), [value]))
  }

  private func unknownAttribute(_ name: String) -> PredicateError {
    let lowered = name.lowercased()
    let near = MetadataAttribute.allCases.first { $0.key.lowercased() == lowered }
    return error(
      "there is no attribute \"\(name.prefix(100))\""
        + (near.map { "; did you mean \($0.key)?" }
          ?? "; there are \(MetadataAttribute.allCases.map(\.key).joined(separator: ", "))"))
  }

  /// The attribute that the token names. Takes its argument.
  private mutating func attribute() -> MetadataAttribute? {
    switch token.kind {
    case .word(let name): return MetadataAttribute(named: name)
    case .argument("K"):
      guard case .value(.text(let name))? = arguments.first,
        let attribute = MetadataAttribute(named: name)
      else { return nil }
      arguments.removeFirst()
      return attribute
    default: return nil
    }
  }
}
