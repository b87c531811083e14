import MetadataQueries
import Testing

/// A generator that gives the same numbers each time (SplitMix64).
private struct Seeded: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}

@Suite struct PredicatePropertyTests {
  private static let pieces = [
    "name", "size", "modified", "isUploaded", "kMDItemFSName", "NSMetadataItemPathKey", "kind",
    "==", "!=", "<", "<=", ">", ">=", "=", "LIKE", "BEGINSWITH", "CONTAINS[c]", "IN", "BETWEEN",
    "AND", "OR", "NOT", "&&", "||", "!", "(", ")", "{", "}", "[", "]", "[cd]", ",", "'a*'", "\"x\"",
    "'it\\'s'", "5", "-1", "1e30", "1.5", "TRUE", "NULL", "CAST(", "'NSDate'", "'2026-01-31'", "%@",
    "%K", "%d", "%", "\\", "'", "\"", "é☂", "\u{301}", "\r\n", "\t", "*.txt", "TRUEPREDICATE",
    "0x10",
    "\\u12", "'\\u00e9'", "nan", ".", "-",
  ]

  /// Any soup of words and signs is a predicate or an error, and what is one is the same when it is
  /// printed and parsed again.
  @Test(arguments: [PredicateForm.format, .commandLine])
  func nothingBreaksTheParser(form: PredicateForm) {
    var random = Seeded(state: 7)
    var parsed = 0
    for _ in 0..<10_000 {
      var text = ""
      for _ in 0..<Int.random(in: 0...7, using: &random) {
        text += Self.pieces.randomElement(using: &random) ?? ""
        if Bool.random(using: &random) { text += " " }
      }
      let arguments: [PredicateArgument] =
        text.contains("%") ? [.value(.text("name")), .list([.integer(1), .integer(2)])] : []
      let predicate: QueryPredicate
      do {
        predicate = try QueryPredicate(text, form: form, arguments: arguments)
      } catch {
        #expect(error.offset <= text.unicodeScalars.count)
        _ = error.description
        continue
      }
      parsed += 1
      #expect((try? QueryPredicate(predicate.description)) == predicate, "\(text)")
      _ = PredicateMatcher(predicate).matches { $0.kind == .text ? .text("x") : .null }
    }
    #expect(parsed > 10)
  }

  @Test func bytesOfAnyKindAreNoTrouble() {
    var random = Seeded(state: 11)
    for _ in 0..<5_000 {
      let bytes = (0..<Int.random(in: 0...40, using: &random)).map { _ in
        UInt8.random(in: 0...255, using: &random)
      }
      let text = "name == '" + String(decoding: bytes, as: UTF8.self) + "'"
      if let predicate = try? QueryPredicate(text) {
        #expect((try? QueryPredicate(predicate.description)) == predicate, "\(text)")
      }
    }
  }

  @Test func whatIsMadeIsParsedAsIt() throws {
    var random = Seeded(state: 3)
    for _ in 0..<5_000 {
      let predicate = Self.predicate(&random, depth: 5)
      #expect(try QueryPredicate(predicate.description) == predicate, "\(predicate)")
      // As on the command line too, where a word more has a meaning.
      #expect(
        try QueryPredicate(predicate.description, form: .commandLine) == predicate, "\(predicate)")
    }
  }

  private static func predicate(_ random: inout Seeded, depth: Int) -> QueryPredicate {
    switch depth == 0 ? 9 : Int.random(in: 0...9, using: &random) {
    case 0: return .not(predicate(&random, depth: depth - 1))
    case 1, 2:
      return .all(
        (0..<Int.random(in: 2...3, using: &random)).map { _ in
          predicate(&random, depth: depth - 1)
        })
    case 3, 4:
      return .any(
        (0..<Int.random(in: 2...3, using: &random)).map { _ in
          predicate(&random, depth: depth - 1)
        })
    case 5: return Bool.random(using: &random) ? .always : .never
    default: return .comparison(comparison(&random))
    }
  }

  private static func comparison(_ random: inout Seeded) -> MetadataComparison {
    let attribute =
      MetadataAttribute.allCases.filter { $0.choices == nil }
      .randomElement(using: &random) ?? .name
    let operators = MetadataComparison.Operator.allCases.filter {
      attribute.kind == .text || !$0.isTextual
    }
    let chosen = operators.randomElement(using: &random) ?? .equal
    let count = chosen == .between ? 2 : chosen == .isIn ? Int.random(in: 0...3, using: &random) : 1
    let values = (0..<count).map { _ in value(attribute.kind, &random) }
    let options: MetadataComparison.Options =
      attribute.kind == .text ? .init(rawValue: .random(in: 0...3, using: &random)) : []
    return MetadataComparison(attribute, chosen, values, options: options)
  }

  private static func value(_ kind: MetadataAttribute.Kind, _ random: inout Seeded) -> MetadataValue
  {
    switch kind {
    case .text:
      let characters = Array("ab*?\\'\"\n\r\tné☂{}%@[]\u{0}\u{301}")
      return .text(
        String(
          (0..<Int.random(in: 0...8, using: &random)).map { _ in
            characters.randomElement(using: &random) ?? "a"
          }))
    case .number:
      if Bool.random(using: &random) {
        return .integer(.random(in: .min ... .max, using: &random))
      }
      let number = Double.random(in: -1e6...1e6, using: &random)
      return Int64(exactly: number).map { .integer($0) } ?? .number(number)
    case .flag: return .flag(.random(using: &random))
    case .date:
      // From 1901 to 2446; from 2262 on the count wraps.
      let seconds = Int64.random(in: -2_147_483_648..<15_032_385_535, using: &random)
      return .date(
        seconds &* 1_000_000_000 &+ .random(in: 0..<1_000_000_000, using: &random))
    }
  }
}
