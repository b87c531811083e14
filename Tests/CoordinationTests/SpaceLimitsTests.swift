import Coordination
import Testing

@Suite struct SpaceLimitsTests {
  private let mebi: UInt64 = 1 << 20

  @Test func evictingBeginsAtTheHighMarkAndEndsAtTheLowOne() throws {
    let marks = SpaceMarks(limit: 100 * mebi, minimumFree: nil)
    let high = try #require(marks.high)
    let low = try #require(marks.low)
    #expect(low < high && high < 100 * mebi)
    #expect(marks.excess(used: high, free: 0) == 0)
    #expect(marks.excess(used: high + 1, free: 0) == high + 1 - low)
    #expect(marks.excess(used: low, free: 0, coming: high - low) == 0)
    #expect(marks.excess(used: low, free: 0, coming: high - low + 1) == high - low + 1)
    #expect(marks.overshoot(used: 100 * mebi, free: 0) == 0)
    #expect(marks.overshoot(used: 100 * mebi + 5, free: 0) == 5)
  }

  @Test func aLargeLimitIsNotEmptiedInOneGo() throws {
    let marks = SpaceMarks(limit: 1 << 40, minimumFree: nil)
    #expect(try #require(marks.low) >= 1 << 40 - 2 << 30)
  }

  @Test func whatIsToStayFreeCountsWhoeverTakesIt() {
    let marks = SpaceMarks(limit: nil, minimumFree: 100 * mebi)
    #expect(marks.excess(used: 500 * mebi, free: 100 * mebi) == 0)
    #expect(marks.excess(used: 500 * mebi, free: 90 * mebi) == 15 * mebi)
    // No more than there is.
    #expect(marks.excess(used: 3 * mebi, free: 0) == 3 * mebi)
    #expect(marks.overshoot(used: 500 * mebi, free: 90 * mebi) == 10 * mebi)
    #expect(marks.overshoot(used: 500 * mebi, free: 110 * mebi, coming: 20 * mebi) == 10 * mebi)
  }

  @Test func withoutLimitsNothingIsTooMuch() {
    let marks = SpaceMarks(limit: nil, minimumFree: nil)
    #expect(marks.excess(used: .max / 2, free: 0) == 0)
    #expect(marks.overshoot(used: .max / 2, free: 0) == 0)
    #expect(SpaceLimits().isEmpty)
  }
}
