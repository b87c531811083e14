import Catalog
import Model
import Testing

@testable import SyncEngine

/// Times and spans that no honest device writes.
@Suite struct HostileTimeTests {
  private static let times: [Timestamp] = [
    .earliest, Timestamp(nanoseconds: 0), Timestamp(nanoseconds: .max),
    Timestamp(nanoseconds: .min),
    .latest,
  ]

  @Test("the policy of compaction answers for any pair of times")
  func policiesAnswer() {
    let policy = CompactionPolicy()
    for (index, since) in Self.times.enumerated() {
      for (other, now) in Self.times.enumerated() {
        let mayDelete = policy.mayDelete(condemnedAt: 1, since: since, cursors: [], now: now)
        let isLater = now.nanoseconds(since: since) >= policy.grace
        #expect(mayDelete == isLater)
        // From 2262-04-11 23:47:16.854775807 to the next nanosecond is no span.
        #expect(isLater == (index < other && (index, other) != (2, 3)))
      }
    }
  }

  @Test("a number of days that has no place in 64 bits is the longest span")
  func daysAreBounded() {
    #expect(CompactionPolicy.days(1) == CompactionPolicy.day)
    #expect(CompactionPolicy.days(Int64(UInt32.max)) == .max)
    let now = Timestamp(nanoseconds: 1_800_000_000_000_000_000)
    #expect(now.advanced(by: -CompactionPolicy.days(Int64(UInt32.max))) == .earliest)
  }

  @Test("a confirmation of deletions lasts for its minute at the ends of the range too")
  func confirmationsEnd() {
    for now in Self.times {
      var record = DeletionRecord()
      record.isHeld = true
      record.confirm(upTo: 1, at: now)
      #expect(record.hasConfirmed(2, at: now))
      let later = now.advanced(by: 2 * DeletionGuard.grace)
      #expect(record.hasConfirmed(2, at: later) == (now == .latest))
    }
  }
}
