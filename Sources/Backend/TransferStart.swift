internal import Platform

/// Whether the bytes of a transfer are on their way, or it waits for bandwidth or for a place.
///
/// Only one of `begin` and `giveUp` succeeds. The lock is a leaf.
package final class TransferStart: Sendable {
  private enum State { case waiting, begun, givenUp }

  private let state = Lock(State.waiting)

  package init() {}

  package var isGivenUp: Bool { state.withLock { $0 == .givenUp } }

  /// False if the transfer was given up: it must not send anything.
  package func begin() -> Bool {
    state.withLock { state in
      if state == .waiting { state = .begun }
      return state == .begun
    }
  }

  /// False if bytes are on their way.
  package func giveUp() -> Bool {
    state.withLock { state in
      if state == .waiting { state = .givenUp }
      return state == .givenUp
    }
  }
}
