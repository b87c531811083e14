import Dispatch
import SyncEngine
import Testing

@Suite struct SignalTests {
  /// A change that another thread notes between two steps of asking is not one in the future.
  @Test func changesOfOtherThreadsAreNeverAhead() {
    let signals = SyncSignals()
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
      for _ in 0..<50_000 {
        signals.changedHere()
        if signals.quietSince() < .zero { Issue.record("a change was ahead") }
      }
    }
    signals.finish()
    #expect(signals.quietSince() >= .zero)
  }
}
