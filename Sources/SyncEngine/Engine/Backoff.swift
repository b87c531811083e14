/// Pauses between attempts at the same thing. Each is at most twice as long as the one before, and
/// random, so that devices that failed together do not try again together.
struct Backoff {
  private var longest: Duration
  private let limit: Duration

  init(first: Duration = .milliseconds(20), limit: Duration = .seconds(2)) {
    longest = first
    self.limit = limit
  }

  mutating func next() -> Duration {
    defer { longest = min(longest * 2, limit) }
    return longest * Double.random(in: 0.5...1)
  }

  /// Sleeps for the next pause, or until the task is cancelled.
  mutating func pause() async { try? await Task.sleep(for: next()) }
}

/// Slows down a cycle whose rounds bring nothing, and ends it.
package struct CyclePace {
  /// The outcome of a round that is followed by another one.
  package enum Round {
    /// The log, the mount or the store has something that it had not before.
    case moved
    /// Something changed here while the round was under way.
    case overtaken
    /// The store did not take a segment, and shows no other in its place.
    case refused
  }

  package enum Next {
    case goOn(after: Duration?)
    /// Programs change files all the time, or the store cannot be written to.
    case end
  }

  /// Rounds that take no pause, as long as each moves something.
  private static let quickRounds = 50
  private static let mostOvertaken = 12
  private static let mostRefused = 3

  private var rounds = 0
  private var overtaken = 0
  private var refused = 0
  private var fruitless = Backoff()
  private var endless = Backoff(limit: .milliseconds(200))

  package init() {}

  package mutating func next(after round: Round) -> Next {
    rounds += 1
    switch round {
    case .moved:
      (overtaken, refused, fruitless) = (0, 0, Backoff())
      return .goOn(after: rounds > Self.quickRounds ? endless.next() : nil)
    case .overtaken:
      overtaken += 1
      return overtaken < Self.mostOvertaken ? .goOn(after: fruitless.next()) : .end
    case .refused:
      refused += 1
      return refused < Self.mostRefused ? .goOn(after: fruitless.next()) : .end
    }
  }
}
