package import Model
internal import Platform

/// The state of a container in the store, as this device sees it. In every condition but `normal`
/// the device uploads, evicts and removes nothing, and looks again seldom.
package enum StoreCondition: Sendable, Hashable {
  case normal
  /// The store went back to an earlier state, or lost part of the log. The reason says what is
  /// missing.
  case rolledBack(reason: String)
  /// The container has no name there, and no record says that it was deleted. Absence proves
  /// nothing.
  case missing(object: String)
  /// Its name was missing there, and another device made a container of that name meanwhile.
  case foreignName
  /// Another device deleted the container; the text says so.
  case deleted(String)
  /// Another device removed this one from the account; the text says so.
  case removed(String)

  package var isNormal: Bool { self == .normal }

  /// As `status --json` calls it.
  package var name: String {
    switch self {
    case .normal: "normal"
    case .rolledBack: "rolledBack"
    case .missing, .foreignName: "missing"
    case .deleted: "deleted"
    case .removed: "removed"
    }
  }

  /// The message for people: the event and the remedy. Nil while all is well.
  package func problem(of container: ContainerID) -> String? {
    switch self {
    case .normal: nil
    case .rolledBack(let reason):
      "the backend of \"\(container)\" went back to an earlier state: \(reason). Nothing is "
        + "uploaded, evicted or removed. Restore the newest copy of the backend, or run "
        + "`ubiquityfs store recover \(container)`"
    case .missing(let object):
      "the backend does not have \"\(object)\", the name of \"\(container)\", and no record there "
        + "says that it was deleted. Nothing is uploaded, evicted or removed. Restore the backend. "
        + "If the container is lost for good, unmount it and run `ubiquityfs container set-aside "
        + "add \(container)`"
    case .foreignName:
      "another container has the name \"\(container)\" in the backend: the name was missing there, "
        + "and a device created a new container. Nothing of this one is uploaded, evicted or "
        + "removed. To use the other container, unmount this one and run `ubiquityfs container "
        + "set-aside add \(container)`. Then copy the local files of this one into a directory "
        + "with `ubiquityfs container set-aside restore \(container) DIRECTORY`"
    case .deleted(let text), .removed(let text): text
    }
  }
}

/// The store's condition as a device knows it, and since when. The lock is a leaf.
final class StoreHealth: Sendable {
  private struct State {
    var condition = StoreCondition.normal
    /// The last position that the store was seen to hold with its hash, and when.
    var confirmed: (position: LogPosition, time: UInt64)?
    /// When the last look for an eviction began, if it found the store sound.
    var granted: UInt64?
    /// When the store last listed all packs that the log names, and for how long that counts.
    var inventoried: (time: UInt64, lasts: UInt64)?
    /// Nothing is asked before this; monotonic nanoseconds.
    var nextLook: UInt64 = 0
    var lastLook: UInt64 = 0
    var pause: UInt64 = 0
    var isChecking = false
    var waiting: [@Sendable (Bool) -> Void] = []
  }

  private let state = Lock(State())

  /// Before a put the store must have shown the head within this time.
  static let putLimit: UInt64 = 30_000_000_000
  /// For so long after a look a round that sends something needs no other one.
  static let freshness: UInt64 = 5_000_000_000
  /// How many segments before the head a look asks for: always, before puts and evictions, and when
  /// a user asks or the store was away. With a batch of new ones the last is a page of an S3 list.
  static let look = 16
  static let longLook = 128
  static let thoroughLook = 900
  /// How long a look may take after which a copy that lost a conflict gives way.
  static let dropLimit: UInt64 = 10_000_000_000
  /// A look that was made for an eviction holds for so long. No other look counts.
  private static let evictionLimit: UInt64 = 2_000_000_000
  /// Before an eviction the store must have listed its packs within this time, or within this
  /// multiple of the time that the list took.
  private static let inventoryLimit: UInt64 = 2_000_000_000
  private static let inventoryShare: UInt64 = 20
  package static let longestInventory: UInt64 = 60_000_000_000

  private static let firstPause: UInt64 = 2_000_000_000
  private static let pauseAfterNews: UInt64 = 10_000_000_000
  private static let longestPause: UInt64 = 300_000_000_000

  var condition: StoreCondition { state.withLock { $0.condition } }

  /// Gives whether it was another one.
  func set(_ condition: StoreCondition) -> Bool {
    let now = monotonicNanoseconds()
    return state.withLock { state in
      let isNew = state.condition != condition
      state.condition = condition
      if condition.isNormal {
        state.pause = 0
        state.nextLook = 0
      } else {
        state.confirmed = nil
        state.granted = nil
        state.inventoried = nil
        state.pause = min(max(state.pause * 2, Self.firstPause), Self.longestPause)
        state.lastLook = now
        state.nextLook = now &+ state.pause
      }
      return isNew
    }
  }

  /// Nil: the store may be asked. Else how long it is to be left alone.
  var rest: Duration? {
    let now = monotonicNanoseconds()
    return state.withLock { state in
      state.condition.isNormal || now >= state.nextLook
        ? nil : .nanoseconds(Int64(clamping: state.nextLook - now))
    }
  }

  /// Something in the store is new: perhaps it was made whole.
  func hearNews() {
    state.withLock { $0.nextLook = min($0.nextLook, $0.lastLook &+ Self.pauseAfterNews) }
  }

  /// The store held this position, with its hash, at `time`.
  func confirm(_ position: LogPosition, at time: UInt64 = monotonicNanoseconds()) {
    state.withLock { state in
      guard state.condition.isNormal else { return }
      state.confirmed = (position, time)
    }
  }

  /// The way to the store was interrupted: what was seen before counts no more.
  func forget() {
    state.withLock { state in
      state.confirmed = nil
      state.granted = nil
      state.inventoried = nil
    }
  }

  /// Whether the store was seen since the way to it was last interrupted.
  var isConnected: Bool { state.withLock { $0.confirmed != nil } }

  func isConfirmed(_ position: LogPosition, within limit: UInt64) -> Bool {
    let now = monotonicNanoseconds()
    return state.withLock { state in
      guard state.condition.isNormal, let confirmed = state.confirmed else { return false }
      return confirmed.position == position && now &- confirmed.time <= limit
    }
  }

  /// Whether a look that began after `since` found the store sound a moment ago.
  func mayEvict(since: UInt64) -> Bool {
    state.withLock { state in
      guard state.condition.isNormal, let granted = state.granted else { return false }
      // Under the lock, as in `hasInventory`.
      let now = monotonicNanoseconds()
      return granted >= since && now &- granted <= Self.evictionLimit
    }
  }

  /// A look that began at `time` found the store sound. False: something else was seen meanwhile.
  func grantEvictions(at time: UInt64) -> Bool {
    state.withLock { state in
      guard state.condition.isNormal else { return false }
      state.granted = time
      return true
    }
  }

  var hasInventory: Bool {
    state.withLock { state in
      // Under the lock: a time from before it may be earlier than that of the inventory.
      let now = monotonicNanoseconds()
      return state.inventoried.map { now &- $0.time <= $0.lasts } ?? false
    }
  }

  /// The store lists all packs that the log names, or the missing ones were noted. The look began
  /// at `time`.
  func inventoried(at time: UInt64) {
    state.withLock { state in
      guard state.condition.isNormal else { return }
      let took = monotonicNanoseconds() &- time
      let lasts = min(max(Self.inventoryLimit, took &* Self.inventoryShare), Self.longestInventory)
      state.inventoried = (time, lasts &+ took)
    }
  }

  // MARK: Checks that are shared

  /// True: the caller is to check. False: another one does, and `completion` hears of it.
  func join(_ completion: @escaping @Sendable (Bool) -> Void) -> Bool {
    state.withLock { state in
      state.waiting.append(completion)
      defer { state.isChecking = true }
      return !state.isChecking
    }
  }

  func checked(_ isSound: Bool) {
    let waiting = state.withLock { state in
      defer { state.waiting = [] }
      state.isChecking = false
      return state.waiting
    }
    for completion in waiting { completion(isSound) }
  }
}
