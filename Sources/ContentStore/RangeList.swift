/// A set of byte offsets as sorted ranges, disjoint and not touching.
package struct RangeList: Hashable, Sendable {
  package private(set) var ranges: [Range<UInt64>] = []
  /// How many offsets are in it.
  package private(set) var count: UInt64 = 0

  package init() {}

  package mutating func insert(_ range: Range<UInt64>) {
    guard !range.isEmpty else { return }
    // All that overlap or touch become one.
    let first = index { $0.upperBound >= range.lowerBound }
    var end = first
    var merged = range
    while end < ranges.count, ranges[end].lowerBound <= range.upperBound {
      merged =
        min(
          merged.lowerBound, ranges[end].lowerBound)..<max(
          merged.upperBound, ranges[end].upperBound)
      count -= UInt64(ranges[end].count)
      end += 1
    }
    ranges.replaceSubrange(first..<end, with: CollectionOfOne(merged))
    count += UInt64(merged.count)
  }

  package func contains(_ range: Range<UInt64>) -> Bool {
    guard !range.isEmpty else { return true }
    let position = index { $0.upperBound > range.lowerBound }
    guard position < ranges.count else { return false }
    return ranges[position].lowerBound <= range.lowerBound
      && ranges[position].upperBound >= range.upperBound
  }

  /// What of `range` is not in it, in order.
  package func missing(in range: Range<UInt64>) -> [Range<UInt64>] {
    var result: [Range<UInt64>] = []
    var position = range.lowerBound
    var next = index { $0.upperBound > range.lowerBound }
    while position < range.upperBound {
      guard next < ranges.count, ranges[next].lowerBound < range.upperBound else {
        result.append(position..<range.upperBound)
        break
      }
      if ranges[next].lowerBound > position { result.append(position..<ranges[next].lowerBound) }
      position = ranges[next].upperBound
      next += 1
    }
    return result
  }

  /// The first range of which `predicate` holds; it must hold of all after that one too.
  private func index(where predicate: (Range<UInt64>) -> Bool) -> Int {
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if predicate(ranges[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
