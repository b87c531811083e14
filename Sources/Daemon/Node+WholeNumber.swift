internal import Yams

extension Node {
  /// Nil for what is no whole number. One to base 60, as `1:30`, is none, and YAML 1.2 has none: Yams
  /// multiplies its parts unchecked, and the process ends at an overflow.
  var wholeNumber: Int? {
    guard let text = string, !text.contains(":") else { return nil }
    return int
  }
}
