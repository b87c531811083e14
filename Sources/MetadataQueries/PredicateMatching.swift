internal import Model

/// A predicate as it is asked of many items.
package struct PredicateMatcher: Sendable {
  private indirect enum Step: Sendable {
    case constant(Bool)
    case not(Step)
    case all([Step])
    case any([Step])
    case equals(MetadataAttribute, TextPattern)
    case starts(MetadataAttribute, String, MetadataComparison.Options)
    case ends(MetadataAttribute, String, MetadataComparison.Options)
    case contains(MetadataAttribute, [Character], MetadataComparison.Options)
    case isOneOf(MetadataAttribute, Set<MetadataValue>, MetadataComparison.Options)
    case compares(
      MetadataAttribute, MetadataComparison.Operator, [MetadataValue], MetadataComparison.Options)
  }

  private let step: Step
  /// It asks for more than an item's row tells.
  package let needsStatus: Bool

  package init(_ predicate: QueryPredicate) {
    step = Self.step(predicate)
    needsStatus = !Self.isPlain(predicate)
  }

  /// `value` is asked for the attributes that are needed, perhaps several times.
  package func matches(_ value: (MetadataAttribute) -> MetadataValue) -> Bool {
    Self.holds(step, value)
  }

  // MARK: Making

  private static func step(_ predicate: QueryPredicate) -> Step {
    switch predicate {
    case .always: .constant(true)
    case .never: .constant(false)
    case .not(let negated): .not(step(negated))
    case .all(let parts): .all(ordered(parts).map(step))
    case .any(let parts): .any(ordered(parts).map(step))
    case .comparison(let comparison): step(comparison)
    }
  }

  /// What an item's row tells comes first: the rest is dear, and often not asked for then.
  private static func ordered(_ parts: [QueryPredicate]) -> [QueryPredicate] {
    parts.filter(isPlain) + parts.filter { !isPlain($0) }
  }

  private static func isPlain(_ predicate: QueryPredicate) -> Bool {
    switch predicate {
    case .always, .never: true
    case .not(let negated): isPlain(negated)
    case .all(let parts), .any(let parts): parts.allSatisfy(isPlain)
    case .comparison(let comparison): comparison.attribute.isPlain
    }
  }

  private static func step(_ comparison: MetadataComparison) -> Step {
    let attribute = comparison.attribute
    let options = comparison.options
    let values = comparison.values.map { value -> MetadataValue in
      if case .text(let text) = value { return .text(TextPattern.folded(text, options)) }
      return value
    }
    guard case .text(let text)? = comparison.values.first else {
      if comparison.operator == .isIn { return .isOneOf(attribute, Set(values), options) }
      return .compares(attribute, comparison.operator, values, options)
    }
    switch comparison.operator {
    case .equal:
      return .equals(attribute, TextPattern(text, options: options, hasQuestionMark: false))
    case .notEqual:
      return .not(.equals(attribute, TextPattern(text, options: options, hasQuestionMark: false)))
    case .like:
      return .equals(attribute, TextPattern(text, options: options, hasQuestionMark: true))
    case .beginsWith: return .starts(attribute, TextPattern.folded(text, options), options)
    case .endsWith: return .ends(attribute, TextPattern.folded(text, options), options)
    case .contains:
      return .contains(attribute, Array(TextPattern.folded(text, options)), options)
    case .isIn: return .isOneOf(attribute, Set(values), options)
    default: return .compares(attribute, comparison.operator, values, options)
    }
  }

  // MARK: Asking

  private static func holds(
    _ step: Step, _ value: (MetadataAttribute) -> MetadataValue
  ) -> Bool {
    func text(_ attribute: MetadataAttribute) -> String? {
      if case .text(let text) = value(attribute) { return text }
      return nil
    }
    switch step {
    case .constant(let constant): return constant
    case .not(let negated): return !holds(negated, value)
    case .all(let parts): return parts.allSatisfy { holds($0, value) }
    case .any(let parts): return parts.contains { holds($0, value) }
    case .equals(let attribute, let pattern):
      return text(attribute).map(pattern.matches) ?? false
    case .starts(let attribute, let prefix, let options):
      return text(attribute).map { TextPattern.folded($0, options).hasPrefix(prefix) } ?? false
    case .ends(let attribute, let suffix, let options):
      return text(attribute).map { TextPattern.folded($0, options).hasSuffix(suffix) } ?? false
    case .contains(let attribute, let part, let options):
      guard let text = text(attribute) else { return false }
      return contains(Array(TextPattern.folded(text, options)), part)
    case .isOneOf(let attribute, let values, let options):
      return values.contains(folded(value(attribute), options))
    case .compares(let attribute, let comparison, let values, let options):
      return compares(folded(value(attribute), options), comparison, values)
    }
  }

  private static func folded(
    _ value: MetadataValue, _ options: MetadataComparison.Options
  ) -> MetadataValue {
    guard !options.isEmpty, case .text(let text) = value else { return value }
    return .text(TextPattern.folded(text, options))
  }

  private static func contains(_ text: [Character], _ part: [Character]) -> Bool {
    guard !part.isEmpty else { return true }
    guard text.count >= part.count else { return false }
    return (0...(text.count - part.count)).contains { start in
      text[start..<(start + part.count)].elementsEqual(part)
    }
  }

  private static func compares(
    _ value: MetadataValue, _ comparison: MetadataComparison.Operator, _ others: [MetadataValue]
  ) -> Bool {
    guard let other = others.first else { return false }
    if value == .null || other == .null {
      switch comparison {
      case .equal: return value == other
      case .notEqual: return value != other
      default: return false
      }
    }
    switch comparison {
    case .equal: return order(value, other) == 0
    case .notEqual: return order(value, other) != 0
    case .less: return order(value, other) < 0
    case .lessOrEqual: return order(value, other) <= 0
    case .greater: return order(value, other) > 0
    case .greaterOrEqual: return order(value, other) >= 0
    case .between:
      return others.count == 2 && order(value, others[0]) >= 0 && order(value, others[1]) <= 0
    default: return false
    }
  }

  /// Of two values of one kind: negative when the first comes first, 0 when they are equal.
  package static func order(_ left: MetadataValue, _ right: MetadataValue) -> Int {
    func sign<Value: Comparable>(_ left: Value, _ right: Value) -> Int {
      left < right ? -1 : left == right ? 0 : 1
    }
    return switch (left, right) {
    case (.text(let left), .text(let right)): sign(left, right)
    case (.date(let left), .date(let right)):
      sign(Timestamp(nanoseconds: left), Timestamp(nanoseconds: right))
    case (.null, .null): 0
    case (.null, _): -1
    case (_, .null): 1
    default:
      if let whole = left.whole, let other = right.whole {
        sign(whole, other)
      } else {
        sign(left.double, right.double)
      }
    }
  }
}

extension MetadataValue {
  fileprivate var whole: Int64? {
    switch self {
    case .integer(let value), .date(let value): value
    case .flag(let value): value ? 1 : 0
    case .number(let value): Int64(exactly: value)
    case .text, .null: nil
    }
  }

  fileprivate var double: Double {
    switch self {
    case .number(let value): value
    default: Double(whole ?? 0)
    }
  }
}
