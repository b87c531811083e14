/// A number of bytes as people write it: `10G`, `1.5 GiB`, `500MB`, `1048576`. K, M, G and T are
/// powers of 1024, as with GNU tools; with a B and no i, powers of 1000.
package struct ByteSize: Equatable, Sendable {
  package let bytes: UInt64

  package init?(_ text: String) {
    let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    let unit = text.dropFirst(digits.count).drop { $0 == " " }.lowercased()
    guard let number = Double(digits), number.isFinite, digits.first != ".", digits.last != "."
    else { return nil }
    let powers: [String: Int] = ["": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5]
    var base = 1024.0
    var letter = unit
    if letter.hasSuffix("ib") {
      letter = String(letter.dropLast(2))
      guard !letter.isEmpty else { return nil }
    } else if letter.hasSuffix("b") {
      letter = String(letter.dropLast())
      base = 1000
    }
    guard let power = powers[letter] else { return nil }
    let value = (0..<power).reduce(number) { value, _ in value * base }
    guard value >= 0, value < 9.2e18 else { return nil }
    bytes = UInt64(value.rounded())
  }
}
