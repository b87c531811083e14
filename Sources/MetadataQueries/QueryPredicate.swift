internal import ControlProtocol

/// A condition on an item's attributes, in the form of `NSPredicate`. `docs/queries.md` has the
/// grammar.
package indirect enum QueryPredicate: Hashable, Sendable {
  /// `TRUEPREDICATE`
  case always
  /// `FALSEPREDICATE`
  case never
  case not(QueryPredicate)
  /// At least two.
  case all([QueryPredicate])
  /// At least two.
  case any([QueryPredicate])
  case comparison(MetadataComparison)
}

/// An attribute and what it is compared with, which is of the attribute's kind, or null.
package struct MetadataComparison: Hashable, Sendable {
  package enum Operator: String, CaseIterable, Hashable, Sendable {
    case equal = "=="
    case notEqual = "!="
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
    case like = "LIKE"
    case beginsWith = "BEGINSWITH"
    case endsWith = "ENDSWITH"
    case contains = "CONTAINS"
    case isIn = "IN"
    case between = "BETWEEN"

    /// It takes text alone.
    package var isTextual: Bool {
      switch self {
      case .like, .beginsWith, .endsWith, .contains: true
      default: false
      }
    }

    /// With the two sides exchanged; nil where that cannot be said.
    var mirrored: Operator? {
      switch self {
      case .equal, .notEqual: self
      case .less: .greater
      case .lessOrEqual: .greaterOrEqual
      case .greater: .less
      case .greaterOrEqual: .lessOrEqual
      default: nil
      }
    }
  }

  package struct Options: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// `[c]`
    package static let caseInsensitive = Options(rawValue: 1)
    /// `[d]`
    package static let diacriticInsensitive = Options(rawValue: 2)
  }

  package var attribute: MetadataAttribute
  package var `operator`: Operator
  /// Of text alone.
  package var options: Options
  /// Two for `BETWEEN`, any number for `IN`, else one.
  package var values: [MetadataValue]

  package init(
    _ attribute: MetadataAttribute, _ operator: Operator, _ values: [MetadataValue],
    options: Options = []
  ) {
    self.attribute = attribute
    self.operator = `operator`
    self.values = values
    self.options = options
  }
}

extension QueryPredicate: CustomStringConvertible {
  /// Parsed again it is the same.
  package var description: String { text(within: 0) }

  /// `level`: 0 where anything may stand, 1 in a disjunction, 2 in a conjunction, 3 after NOT.
  private func text(within level: Int) -> String {
    switch self {
    case .always: return "TRUEPREDICATE"
    case .never: return "FALSEPREDICATE"
    case .comparison(let comparison): return comparison.description
    case .not(let negated): return "NOT " + negated.text(within: 3)
    case .all(let parts):
      let text = parts.map { $0.text(within: 2) }.joined(separator: " AND ")
      return level >= 2 ? "(\(text))" : text
    case .any(let parts):
      let text = parts.map { $0.text(within: 1) }.joined(separator: " OR ")
      return level >= 1 ? "(\(text))" : text
    }
  }
}

extension MetadataComparison: CustomStringConvertible {
  package var description: String {
    var text = attribute.key + " " + `operator`.rawValue
    if !options.isEmpty {
      text +=
        "[" + (options.contains(.caseInsensitive) ? "c" : "")
        + (options.contains(.diacriticInsensitive) ? "d" : "") + "]"
    }
    let shown = values.map(\.description)
    switch `operator` {
    case .isIn, .between: return text + " {" + shown.joined(separator: ", ") + "}"
    default: return text + " " + (shown.first ?? "NULL")
    }
  }
}

extension MetadataValue: CustomStringConvertible {
  /// As a predicate has it.
  package var description: String {
    switch self {
    case .text(let text): Self.quoted(text)
    case .integer(let value): String(value)
    case .number(let value): String(value)
    case .flag(let value): value ? "TRUE" : "FALSE"
    case .date(let nanoseconds): "CAST('\(Instant.text(nanoseconds: nanoseconds))', 'NSDate')"
    case .null: "NULL"
    }
  }

  /// With everything escaped that would not stand for itself.
  package static func quoted(_ text: String) -> String {
    var result = "'"
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": result += "\\\\"
      case "'": result += "\\'"
      case "\n": result += "\\n"
      case "\r": result += "\\r"
      case "\t": result += "\\t"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result + "'"
  }
}
