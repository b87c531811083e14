internal import Model
internal import Platform
internal import Synchronization

/// Passes events on to who listens: in order, from a thread of its own that is there while somebody
/// does. Who posts is never kept waiting, and pays one load while nobody listens.
///
/// A listener that does not keep up loses events, and is told of that in their place.
package final class EventHub: Sendable {
  /// Gives false when there is no room: the event is offered again.
  package typealias Listener = @Sendable (ItemEvent) -> Bool

  private struct Subscription {
    let scope: EventScope
    let wantsStatus: Bool
    let listener: Listener
    var queue: [ItemEvent] = []
    /// How many at the front of `queue` were delivered.
    var delivered = 0
    /// Nothing is delivered before that is wanted.
    var isStarted = false

    var waiting: Int { queue.count - delivered }
    var first: ItemEvent? { isStarted && waiting > 0 ? queue[delivered] : nil }

    mutating func removeFirst() {
      delivered += 1
      guard delivered == queue.count || delivered > 1000 else { return }
      queue.removeFirst(delivered)
      delivered = 0
    }
  }

  private struct State {
    var subscriptions: [UInt64: Subscription] = [:]
    var next: UInt64 = 1
    var isRunning = false
  }

  /// How many events wait for one listener at most.
  private let capacity: Int
  /// Between two offers to a listener that had no room.
  private static let pause = 10
  private let listeners = Atomic<Int>(0)
  /// Of those, who wants `status` too.
  private let statusListeners = Atomic<Int>(0)
  /// A leaf.
  private let state = Lock(State())
  private let news = Gate()

  package init(capacity: Int = 10_000) { self.capacity = capacity }

  /// Whether anybody listens.
  package var isActive: Bool { listeners.load(ordering: .relaxed) > 0 }

  /// Whether anybody wants `status`.
  package var isStatusActive: Bool { statusListeners.load(ordering: .relaxed) > 0 }

  /// From here on events are kept for the listener; it gets them from `start` on. It is called on
  /// the hub's thread with no lock held, and must not block.
  package func subscribe(
    to scope: EventScope, withStatus: Bool = false, _ listener: @escaping Listener
  ) -> UInt64 {
    listeners.add(1, ordering: .sequentiallyConsistent)
    if withStatus { statusListeners.add(1, ordering: .sequentiallyConsistent) }
    return state.withLock { state in
      let id = state.next
      state.next += 1
      state.subscriptions[id] = Subscription(
        scope: scope, wantsStatus: withStatus, listener: listener)
      return id
    }
  }

  package func start(_ id: UInt64) {
    let mustStart = state.withLock { state in
      state.subscriptions[id]?.isStarted = true
      defer { state.isRunning = true }
      return !state.isRunning
    }
    news.open()
    if mustStart { _ = startThread { self.run() } }
  }

  package func unsubscribe(_ id: UInt64) {
    guard let gone = state.withLock({ $0.subscriptions.removeValue(forKey: id) }) else { return }
    listeners.subtract(1, ordering: .sequentiallyConsistent)
    if gone.wantsStatus { statusListeners.subtract(1, ordering: .sequentiallyConsistent) }
    news.open()
  }

  /// Any thread, no lock held.
  package func post(_ event: ItemEvent) {
    guard isActive else { return }
    let capacity = capacity
    state.withLock { state in
      for (id, subscription) in state.subscriptions
      where subscription.scope.contains(event)
        && (subscription.wantsStatus || !event.kind.isStatus)
      {
        let waiting = subscription.waiting
        // The one beyond the room says that others were lost there.
        guard waiting <= capacity else { continue }
        state.subscriptions[id]?.queue.append(
          waiting < capacity
            ? event
            : ItemEvent(time: event.time, kind: .overflow, container: event.container, path: []))
      }
    }
    news.open()
  }

  // MARK: Delivering

  private enum Round {
    case ended
    case idle
    case waits
  }

  private func run() {
    while true {
      news.close()
      switch deliver() {
      case .ended: return
      case .idle: news.wait()
      case .waits: _ = news.wait(milliseconds: Self.pause)
      }
    }
  }

  /// Delivers what there is room for.
  private func deliver() -> Round {
    var full: Set<UInt64> = []
    while true {
      let (next, isEnded) = state.withLock { state -> ((UInt64, Listener, ItemEvent)?, Bool) in
        guard !state.subscriptions.isEmpty else {
          state.isRunning = false
          return (nil, true)
        }
        for (id, subscription) in state.subscriptions where !full.contains(id) {
          if let event = subscription.first { return ((id, subscription.listener, event), false) }
        }
        return (nil, false)
      }
      if isEnded { return .ended }
      guard let (id, listener, event) = next else { return full.isEmpty ? .idle : .waits }
      if listener(event) {
        state.withLock { $0.subscriptions[id]?.removeFirst() }
      } else {
        full.insert(id)
      }
    }
  }
}
