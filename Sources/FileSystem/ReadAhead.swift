/// Finds out whether a handle is read in order, and how much to fetch ahead of it.
///
/// The first read of a handle asks for its own range alone; a file of which a program reads the
/// header or one record costs no more than that. Only reads that go on where the last one ended
/// make the window grow, and once there is one, only those that had to wait for bytes: it comes to
/// hold what the network brings in a round trip, or what the reader takes in one, whichever is
/// less. It is never larger than twice what was read, so that no more is fetched in vain. Each
/// round trip trebles what is here, so that a long way is full after five.
struct ReadAhead {
  static let smallestWindow: UInt64 = 512 << 10
  static let largestWindow: UInt64 = 64 << 20
  /// As much is asked for at a time; of a small window half, so that requests stay large. With the
  /// rest of its last chunk it is one request of 8 MiB at most.
  static let largestStep: UInt64 = 7 << 20

  private var end: UInt64?
  private var window: UInt64 = 0
  private var fetched: UInt64 = 0
  /// Where the reading in order began.
  private var start: UInt64 = 0

  mutating func next(after range: Range<UInt64>, size: UInt64, isMissing: Bool) -> Range<UInt64>? {
    defer { end = max(range.upperBound, isNear(range) ? end ?? 0 : 0) }
    guard let end, isNear(range) else {
      window = 0
      fetched = range.upperBound
      start = range.lowerBound
      return nil
    }
    // The same bytes again are no progress.
    guard range.upperBound > end else { return nil }
    let read = range.upperBound - min(start, range.upperBound)
    if window == 0 {
      window = Self.smallestWindow
    } else if isMissing {
      window = max(window, min(read, Self.largestWindow / 2) * 2)
    }
    let next = max(fetched, range.upperBound)
    let wanted = min(range.upperBound + window, size)
    guard wanted > next, wanted - next >= min(window / 2, Self.largestStep) || wanted == size
    else { return nil }
    fetched = wanted
    return next..<wanted
  }

  /// The kernel sends the pieces of its own read-ahead side by side, so that one may overtake
  /// another.
  private func isNear(_ range: Range<UInt64>) -> Bool {
    guard let end else { return false }
    let length = UInt64(range.count)
    return range.lowerBound <= end + length && range.upperBound + length >= end
  }
}
