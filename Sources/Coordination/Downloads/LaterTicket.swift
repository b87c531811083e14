internal import Platform

/// Of a fetch that begins when it is known who asks for it.
///
/// It *waits*, then *begins*, then has *begun*; or it is *over*, when it was given up, or refused,
/// before it began.
package final class LaterTicket: FetchTicket {
  private enum State {
    case waiting
    case beginning
    case begun(any FetchTicket)
    case over
  }

  private let state = Lock(State.waiting)
  private let cancelled: @Sendable () -> Void

  /// `cancelled` is called when it is given up before it began.
  package init(cancelled: @escaping @Sendable () -> Void) { self.cancelled = cancelled }

  /// Begins, unless it was given up.
  package func begin(_ fetch: () -> any FetchTicket) {
    guard leaves(for: .beginning) else { return }
    let ticket = fetch()
    let isGivenUp = state.withLock { state in
      if case .over = state { return true }
      state = .begun(ticket)
      return false
    }
    if isGivenUp { ticket.cancel() }
  }

  /// Whether it waited: then it is over, and the caller says why.
  package func refuse() -> Bool { leaves(for: .over) }

  private func leaves(for next: State) -> Bool {
    state.withLock { state in
      guard case .waiting = state else { return false }
      state = next
      return true
    }
  }

  package func cancel() {
    enum Step {
      case tell
      case cancel(any FetchTicket)
      case none
    }
    let step = state.withLock { state -> Step in
      switch state {
      case .waiting:
        state = .over
        return .tell
      case .beginning:
        state = .over
        return .none
      case .begun(let ticket): return .cancel(ticket)
      case .over: return .none
      }
    }
    switch step {
    case .tell: cancelled()
    case .cancel(let ticket): ticket.cancel()
    case .none: break
    }
  }
}
