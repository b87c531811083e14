internal import Model

/// SQL that orders columns as `Timestamp` does: times after 2262 are numbers below that of the
/// earliest time.
enum TimeOrder {
  static func isLate(_ value: String) -> String {
    "(\(value) < \(Timestamp.earliest.nanoseconds))"
  }

  static func precedes(_ left: String, _ right: String) -> String {
    "((\(isLate(left)), \(left)) < (\(isLate(right)), \(right)))"
  }
}
