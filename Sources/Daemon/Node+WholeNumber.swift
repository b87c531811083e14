internal import Yams

extension Node {
  /// Nil if the text is no whole number. A number to base 60, such as `1:30`, is none: YAML 1.2 has
  /// no such numbers, and Yams traps when one overflows.
  var wholeNumber: Int? {
    guard let text = string, !text.contains(":") else { return nil }
    return int
  }
}
