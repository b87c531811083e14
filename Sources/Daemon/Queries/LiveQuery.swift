internal import Coordination
internal import MetadataQueries
internal import Platform

/// A query of a client. It has a thread of its own, which gathers and, where the client wants it,
/// goes on to tell of changes: so neither the hub of events nor a connection waits for it.
final class LiveQuery: Sendable {
  private struct State {
    var changes = QueryChanges()
    var isStopped = false
  }

  let id: UInt64
  let matcher: PredicateMatcher
  let selection: QuerySelection
  let watches: Bool
  /// A leaf.
  private let state = Lock(State())
  private let news = Gate()
  private let stopping = Gate()

  /// Between two updates while changes come without a break.
  private static let interval = 100

  init(id: UInt64, matcher: PredicateMatcher, selection: QuerySelection, watches: Bool) {
    self.id = id
    self.matcher = matcher
    self.selection = selection
    self.watches = watches
  }

  var isStopped: Bool { state.withLock { $0.isStopped } }

  func stop() {
    state.withLock { $0.isStopped = true }
    stopping.open()
    news.open()
  }

  /// Whether it was stopped within the time.
  func waitForStop(milliseconds: Int) -> Bool { stopping.wait(milliseconds: milliseconds) }

  /// For the hub of events: takes it at once, whatever the query's thread does.
  func note(_ event: ItemEvent) {
    guard event.kind == .overflow || selection.mayTakeIn(event.container) else { return }
    state.withLock { $0.changes.note(event) }
    news.open()
  }

  /// What is to be looked at again; nil at the end. Waits for the first of it.
  func nextChanges() -> QueryChanges? {
    while true {
      news.wait()
      news.close()
      let (changes, isStopped) = state.withLock { state in
        defer { state.changes = QueryChanges() }
        return (state.changes, state.isStopped)
      }
      if isStopped { return nil }
      if !changes.isEmpty { return changes }
    }
  }

  /// True when it was stopped instead.
  func pause() -> Bool { waitForStop(milliseconds: Self.interval) }
}
