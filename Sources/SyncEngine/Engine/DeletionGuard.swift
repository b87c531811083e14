package import Catalog
package import Model

/// Whether this device may remove what it is about to remove from all others, or asks first.
///
/// Pure. It asks when the removals are more than `least` and at least `share` of the container,
/// either in one plan, or within an hour from the first of them: the removal of a large tree takes
/// longer than a cycle. Within the hour only those count that were there when it began; else a
/// program that makes and removes a small file all day would have to ask in a small container.
///
/// Directories that hold something are not counted: half of the files is half of the container.
///
/// Other devices' removals are theirs to ask about.
package struct DeletionGuard: Sendable, Hashable {
  /// From 1 on it never asks.
  package var share: Double
  package var least: Int

  package static let window = Int64(3600) * 1_000_000_000
  /// What is removed so soon after a confirmation belongs to it: the `rm` may still be running. Not
  /// for longer as long as it goes on: something is removed all the time where programs work.
  package static let grace = Int64(60) * 1_000_000_000

  package init(share: Double = 0.5, least: Int = 100) {
    self.share = share
    self.least = least
  }

  /// An item of the log that is gone here.
  package struct Removal: Hashable, Sendable {
    /// The dirty mark that the plan saw.
    package var stamp: UInt64
    package var created: Timestamp

    package init(stamp: UInt64, created: Timestamp) {
      self.stamp = stamp
      self.created = created
    }
  }

  package enum Verdict: Hashable, Sendable {
    /// With what is to be remembered once they are in the log.
    case goOn(DeletionRecord)
    case hold(removed: Int, of: Int)
  }

  /// Counts removals one at a time: there may be very many.
  package struct Count: Sendable {
    private let record: DeletionRecord
    private let now: Timestamp
    /// How many the log has before these go.
    fileprivate let items: Int
    fileprivate var window: DeletionRecord.Window
    /// The removals that the user has not confirmed.
    fileprivate var asked = 0
    package private(set) var isEmpty = true

    package init(after record: DeletionRecord, items: Int, now: Timestamp) {
      self.record = record
      self.items = items
      self.now = now
      window = record.window(at: now) ?? DeletionRecord.Window(began: now, items: items, removed: 0)
    }

    package mutating func add(_ removal: Removal) {
      isEmpty = false
      guard !record.hasConfirmed(removal.stamp, at: now) else { return }
      asked += 1
      if removal.created <= window.began { window.removed += 1 }
    }

    /// The deletion record once these removals are in the log.
    fileprivate var result: DeletionRecord {
      var result = record
      result.isHeld = false
      result.window = window.removed > 0 ? window : nil
      return result
    }
  }

  package func verdict(on count: Count) -> Verdict {
    let most = max(count.window.items, count.items)
    if isMass(count.window.removed, of: most), count.asked > 0 {
      return .hold(removed: count.window.removed, of: most)
    }
    if isMass(count.asked, of: count.items) {
      return .hold(removed: count.asked, of: count.items)
    }
    return .goOn(count.result)
  }

  private func isMass(_ removed: Int, of items: Int) -> Bool {
    share < 1 && removed > least && Double(removed) >= share * Double(items)
  }
}

extension DeletionRecord {
  /// What is gone with marks up to `stamp` may go, and what follows at once if the user was asked;
  /// of what comes later nothing is said.
  package mutating func confirm(upTo stamp: UInt64, at now: Timestamp) {
    confirmed = stamp
    confirmedUntil = isHeld ? now.advanced(by: DeletionGuard.grace) : nil
    isHeld = false
    window = nil
  }

  func hasConfirmed(_ stamp: UInt64, at now: Timestamp) -> Bool {
    // Without a mark nobody knows when it went.
    if stamp > 0, stamp <= confirmed { return true }
    guard let until = confirmedUntil else { return false }
    return now <= until && until <= now.advanced(by: DeletionGuard.grace)
  }

  /// An hour that is over counts no more, unless the user is being asked: else waiting would be an
  /// answer. So does one that begins in the future, after the clock was set back.
  func window(at now: Timestamp) -> Window? {
    guard let window, !isHeld else { return window }
    let end = window.began.advanced(by: DeletionGuard.window)
    return window.began <= now && now <= end ? window : nil
  }
}
