/// How many transfers at the same time are worth it: more as long as more bytes come through with
/// them, half as many when the store fails or asks for a pause.
///
/// It begins by doubling, as long as that gives a quarter more, and goes on one by one. It judges
/// by rounds of as many transfers as it allows. A round holds only time in which the limit was
/// reached: one in which fewer transfers were to do, or none, starts again.
package struct ParallelControl: Sendable {
  package static let bounds = 2...32

  package private(set) var limit = 4
  private var isDoubling = true
  /// Bytes in a nanosecond before the last step up; nil: the last step was none.
  private var before: Double?
  private var stepBack = 0
  /// Rounds to stay as it is.
  private var rest = 0

  /// Of the round; nil while fewer transfers run than may.
  private var started: UInt64?
  private var ended = 0
  private var bytes = 0
  private var hasFailed = false

  private static let restingRounds = 12

  package init() {}

  package mutating func began(inFlight: Int, at now: UInt64) {
    if inFlight < limit {
      newRound()
    } else if started == nil {
      newRound(at: now)
    }
  }

  /// Fewer transfers run than may, since no more are to do.
  package mutating func starved() { newRound() }

  package mutating func ended(bytes: Int, at now: UInt64) {
    ended += 1
    self.bytes += bytes
    guard ended >= limit, let started, now > started else { return }
    let rate = Double(self.bytes) / Double(now - started)
    newRound(at: now)
    if let before {
      self.before = nil
      guard rate >= before * (isDoubling ? 1.25 : 1.05) else {
        limit = max(Self.bounds.lowerBound, limit - stepBack)
        isDoubling = false
        rest = Self.restingRounds
        return
      }
    } else if rest > 0 {
      rest -= 1
      return
    }
    stepUp(from: rate)
  }

  /// Of many that fail together the first counts.
  package mutating func failed(at now: UInt64) {
    ended += 1
    guard !hasFailed else {
      if ended >= limit { newRound(at: now) }
      return
    }
    limit = max(Self.bounds.lowerBound, limit / 2)
    isDoubling = false
    before = nil
    rest = 0
    newRound(at: now)
    hasFailed = true
  }

  private mutating func stepUp(from rate: Double) {
    let next = min(Self.bounds.upperBound, isDoubling ? limit * 2 : limit + 1)
    guard next > limit else { return }
    before = rate
    stepBack = next - limit
    limit = next
  }

  private mutating func newRound(at now: UInt64? = nil) {
    started = now
    ended = 0
    bytes = 0
    hasFailed = false
  }
}
