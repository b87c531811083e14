/// Does a call again that may succeed a little later, after a random part of a pause that doubles,
/// so that devices and calls do not come back all at once, or after the pause that the store asks
/// for. Other errors are the caller's, and so is the failure when retries are used up:
/// `.unavailable`.
package final class RetryingStore: PassingStore {
  package struct Policy: Sendable {
    /// Calls in all, the first one included.
    package var attempts = 4
    package var firstDelay = Duration.milliseconds(100)
    package var longestDelay = Duration.seconds(5)
    /// A store that asks for a longer pause is the caller's failure at once.
    package var longestAsked = Duration.seconds(30)

    package init() {}
  }

  package let store: any ObjectStore
  private let policy: Policy
  private let budget: RetryBudget
  private let isWorthIt: @Sendable () -> Bool
  private let retrying: @Sendable (StoreCall) -> Void
  private let sleep: @Sendable (Duration) async throws -> Void

  /// `isWorthIt` is asked before each retry, `retrying` told of it. `sleep` is for tests; it throws
  /// when the task is cancelled.
  package init(
    _ store: any ObjectStore, policy: Policy = Policy(), budget: RetryBudget = RetryBudget(),
    isWorthIt: @escaping @Sendable () -> Bool = { true },
    retrying: @escaping @Sendable (StoreCall) -> Void = { _ in },
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  ) {
    self.store = store
    self.policy = policy
    self.budget = budget
    self.isWorthIt = isWorthIt
    self.retrying = retrying
    self.sleep = sleep
  }

  package func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    var longest = policy.firstDelay
    var left = policy.attempts
    while true {
      let text: String
      let asked: Duration
      do throws(StoreError) {
        let answer = try await body(store)
        budget.succeeded()
        return answer
      } catch .unavailable(let reason) {
        (text, asked) = (reason, .zero)
      } catch .busy(let reason, let pause) {
        (text, asked) = (reason, pause ?? .zero)
      } catch {
        throw error
      }
      left -= 1
      guard left > 0, asked <= policy.longestAsked, isWorthIt(), budget.spend() else {
        throw .unavailable(text)
      }
      do {
        try await sleep(asked + longest * Double.random(in: 0...1))
      } catch {
        throw .cancelled
      }
      retrying(call)
      longest = min(longest * 2, policy.longestDelay)
    }
  }
}
