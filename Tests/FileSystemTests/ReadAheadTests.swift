import Testing

@testable import FileSystem

/// How much is fetched ahead of a reader: docs/s3.md.
@Suite struct ReadAheadTests {
  private static let piece: UInt64 = 128 << 10

  /// Reads pieces in order; gives the end of what was fetched ahead after each.
  private func read(
    _ count: UInt64, of size: UInt64 = 1 << 40, isMissing: Bool
  ) -> [UInt64] {
    var ahead = ReadAhead()
    var fetched: UInt64 = 0
    return (0..<count).map { index in
      let start = index * Self.piece
      if let more = ahead.next(
        after: start..<start + Self.piece, size: size, isMissing: isMissing)
      {
        // Nothing twice, nothing left out.
        #expect(fetched == 0 || more.lowerBound == fetched)
        fetched = more.upperBound
      }
      return max(fetched, start + Self.piece)
    }
  }

  @Test func whoReadsOnePieceGetsIt() {
    var ahead = ReadAhead()
    for start: UInt64 in [0, 5 << 30, 1 << 20, 7 << 20, 0] {
      #expect(ahead.next(after: start..<start + 4096, size: 1 << 40, isMissing: true) == nil)
    }
  }

  /// The window holds what a long way brings in one round trip, and at most twice of what was read
  /// is in vain.
  @Test func whoWaitsGetsEverMore() {
    let ends = read(2048, isMissing: true)
    for (index, end) in ends.enumerated() {
      let position = UInt64(index + 1) * Self.piece
      #expect(end - position <= max(2 * position, ReadAhead.smallestWindow))
    }
    let position = 2048 * Self.piece
    #expect(ends[2047] - position > ReadAhead.largestWindow - ReadAhead.largestStep)
  }

  /// The bytes that were asked for come with the next round trip. Until then the reader reads those
  /// that are here.
  @Test func aLongWayIsFullAfterFewRoundTrips() {
    var ahead = ReadAhead()
    var here: UInt64 = 0
    var position: UInt64 = 0
    var trips = 0
    while here - position < 16 << 20, trips < 100 {
      // The first read that has to wait is the last one.
      var wanted = here
      while position <= here {
        let range = position..<position + Self.piece
        let isMissing = range.upperBound > here
        let more = ahead.next(after: range, size: 1 << 40, isMissing: isMissing)
        wanted = max(wanted, range.upperBound, more?.upperBound ?? 0)
        position = range.upperBound
      }
      here = wanted
      trips += 1
    }
    #expect(trips <= 5)
  }

  @Test func whoNeverWaitsGetsLittle() {
    for (index, end) in read(2048, isMissing: false).enumerated() {
      #expect(end - UInt64(index + 1) * Self.piece <= ReadAhead.smallestWindow)
    }
  }

  @Test func nothingIsWantedBeyondTheEnd() {
    let size = 40 * Self.piece + 17
    let ends = read(41, of: size, isMissing: true)
    #expect(ends[39] == size)
  }

  /// As the kernel sends the pieces of its own read-ahead.
  @Test func piecesMayOvertakeEachOther() {
    var ahead = ReadAhead()
    var wanted: UInt64 = 0
    for pair in 0..<64 as Range<UInt64> {
      for index in [2 * pair + 1, 2 * pair] {
        let start = index * Self.piece
        if let more = ahead.next(
          after: start..<start + Self.piece, size: 1 << 40, isMissing: true)
        {
          wanted += UInt64(more.count)
        }
      }
    }
    #expect(wanted > 8 << 20)
  }
}
