/// Keeps to limits of bandwidth: calls with many bytes wait for their turn before they are made,
/// and what a program waits for, or is small, goes before them.
package final class PacedStore: PassingStore {
  package let store: any ObjectStore
  private let limits: BandwidthLimits

  /// As much goes with what programs wait for.
  private static let small = 64 << 10

  package init(_ store: any ObjectStore, limits: BandwidthLimits) {
    self.store = store
    self.limits = limits
  }

  package func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    if call.kind == .put {
      // The log never waits for content.
      try await limits.up.take(
        call.sends, isAwaited: Transfers.isAwaited || !call.isBulk || call.sends <= Self.small)
      return try await body(store)
    }
    guard call.kind != .delete else { return try await body(store) }
    // What is not known beforehand is paid afterwards.
    let expected = call.brings ?? 0
    try await limits.down.take(
      expected, isAwaited: Transfers.isAwaited || expected <= Self.small)
    do throws(StoreError) {
      let answer = try await body(store)
      limits.down.charge(received(answer) - expected)
      return answer
    } catch {
      limits.down.charge(-expected)
      throw error
    }
  }
}
