internal import Platform

/// How many retries all calls to a backend may make together. A retry costs one, and a call that
/// succeeds pays a part of one back: so of a backend that fails now and then every call is tried
/// again, and one that is down gets each call once, however many there are.
package final class RetryBudget: Sendable {
  package struct Policy: Sendable {
    /// What there is at the start, and at most.
    package var capacity = 32.0
    package var payback = 0.2

    package init() {}
  }

  private let policy: Policy
  private let left: Lock<Double>

  package init(_ policy: Policy = Policy()) {
    self.policy = policy
    left = Lock(policy.capacity)
  }

  /// Takes one retry; false if there is none.
  func spend() -> Bool {
    left.withLock { left in
      guard left >= 1 else { return false }
      left -= 1
      return true
    }
  }

  func succeeded() { left.withLock { $0 = min(policy.capacity, $0 + policy.payback) } }
}
