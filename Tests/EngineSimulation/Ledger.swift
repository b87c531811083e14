/// What devices wrote, and what became of it.
///
/// No two contents of a run have the same length, so that one is known by it even where its bytes are
/// not: on a device that has a placeholder only.
final class Ledger {
  private(set) var contents: [UInt64: [UInt8]] = [:]
  /// The file was closed without an error: from here on it must not be lost.
  private(set) var acknowledged: [UInt64: String] = [:]
  /// A device that showed it wrote over it or removed it.
  private(set) var superseded: Set<UInt64> = []
  private var random: SeededGenerator
  private var taken: Set<UInt64> = [0]

  init(seed: UInt64) { random = SeededGenerator(seed: seed, stream: 2) }

  /// A length that no content had, from `range`, mostly a short one.
  func length(in range: ClosedRange<UInt64>) -> UInt64? {
    for _ in 0..<50 {
      let top =
        random.chance(85) ? min(range.upperBound, range.lowerBound + 4000) : range.upperBound
      let length = UInt64.random(in: range.lowerBound...top, using: &random)
      if taken.insert(length).inserted { return length }
    }
    return nil
  }

  /// Bytes that no other content has.
  func bytes(count: Int) -> [UInt8] {
    var word = random.next()
    return (0..<count).map { index in
      if index & 255 == 0 { word = random.next() }
      return UInt8(truncatingIfNeeded: word >> UInt64(index & 55))
    }
  }

  func register(_ bytes: [UInt8]) { contents[UInt64(bytes.count)] = bytes }

  func acknowledge(_ length: UInt64, by device: String) {
    if length > 0 { acknowledged[length] = device }
  }

  func supersede(_ length: UInt64) { superseded.insert(length) }
}
