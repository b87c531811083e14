/// When the watches of all processes may be read again: in the long run the readings take a
/// twentieth of one processor.
///
/// A reading counts as the time that it had a processor. Beside busy programs it also waits for
/// one, for many times as long; that costs nobody anything and must not hold up the next reading.
struct WatchReadingBudget {
  /// Single batches need not wait: the readings may be ahead of their share by so many nanoseconds.
  private static let debt: UInt64 = 1_000_000_000
  private static let share: UInt64 = 20

  /// When the readings so far will have been their share of the time, as `monotonicNanoseconds`.
  private var paid: UInt64 = 0

  /// How many nanoseconds after `time` the next reading may begin.
  func pause(at time: UInt64) -> UInt64 {
    let due = paid - min(paid, Self.debt)
    return due - min(due, time)
  }

  /// Notes a reading that began at that time and took that much of a processor.
  mutating func note(began: UInt64, processor: UInt64) {
    paid = max(paid, began) + Self.share * processor
  }
}
