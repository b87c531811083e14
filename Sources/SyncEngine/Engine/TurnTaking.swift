package import Model

/// Files that two devices rewrite in answer to each other, such as two programs that each "correct"
/// what the other saved. Nothing is wrong with any single change, and without an end they keep both
/// devices and the backend busy for ever: so it is noticed, told, and slowed.
///
/// A turn is a content that is sent soon after another device's came. By name, not by identity:
/// programs that save by renaming make a new item each time. Times are nanoseconds of one monotonic
/// clock.
package struct TurnTaking: Sendable {
  private struct Series {
    var received: UInt64?
    var turns = 0
    var lastSent: UInt64 = 0
  }

  private static let second: UInt64 = 1_000_000_000
  /// A content that is sent within this of another's coming may be an answer to it.
  private static let window = 30 * second
  /// So many answers in a row are no chance; people do not work like that.
  package static let limit = 6
  private static let firstPause = 5 * second
  private static let longestPause = 300 * second
  /// More names than this are not kept in mind.
  private static let mostSeries = 4_096

  private var series: [Link: Series] = [:]

  package init() {}

  /// Another device's content was placed under a name.
  package mutating func received(_ link: Link, at now: UInt64) {
    if series.count >= Self.mostSeries { forgetOld(at: now) }
    series[link, default: Series()].received = now
  }

  /// A content of this device went into the log.
  package mutating func sent(_ link: Link, at now: UInt64) {
    guard var known = series[link] else { return }
    guard let received = known.received, now < received + Self.window else {
      series[link] = nil
      return
    }
    known.received = nil
    known.turns += 1
    known.lastSent = now
    series[link] = known
  }

  /// How long a content is not to be sent yet; nil: now.
  package func pause(_ link: Link, at now: UInt64) -> Duration? {
    guard let known = series[link], known.turns >= Self.limit else { return nil }
    let pause = min(
      Self.longestPause, Self.firstPause << UInt64(min(known.turns - Self.limit, 10)))
    let end = known.lastSent + pause
    return now < end ? .nanoseconds(Int64(end - now)) : nil
  }

  /// The names that wait now, with the turns so far.
  package func paused(at now: UInt64) -> [(link: Link, turns: Int, pause: Duration)] {
    series.compactMap { link, known in pause(link, at: now).map { (link, known.turns, $0) } }
      .sorted { $0.link < $1.link }
  }

  /// Someone asks for everything to be sent: that is no loop.
  package mutating func forgive() { series = [:] }

  private mutating func forgetOld(at now: UInt64) {
    series = series.filter {
      now < max($0.value.lastSent, $0.value.received ?? 0) + Self.longestPause
    }
    if series.count >= Self.mostSeries { series = [:] }
  }
}
