import ContentStore
import Testing

private final class Holder: DescriptorHolder {
  let lastUse: UInt64
  let log: Log

  init(lastUse: UInt64, _ log: Log) {
    (self.lastUse, self.log) = (lastUse, log)
  }

  func closeDescriptors() -> Bool {
    log.closed.append(lastUse)
    return true
  }
}

/// Used by one thread alone.
private final class Log: @unchecked Sendable {
  var closed: [UInt64] = []
}

@Suite struct DescriptorBudgetTests {
  @Test("above the limit the files that were not used for longest are closed")
  func theOldestAreClosed() {
    let budget = DescriptorBudget(limit: 4)
    let log = Log()
    let holders = [50, 10, 40, 20].map { Holder(lastUse: $0, log) }
    for holder in holders { budget.opened(holder) }
    #expect(log.closed.isEmpty)
    let last = Holder(lastUse: 30, log)
    budget.opened(last)
    // One is too many, and a quarter of the limit is closed ahead.
    #expect(log.closed == [10, 20])
    #expect(budget.count == 3)
    withExtendedLifetime((holders, last)) {}
  }

  @Test("a process without descriptors closes half of the files, the oldest first")
  func reliefClosesHalf() {
    let budget = DescriptorBudget(limit: 100)
    let log = Log()
    #expect(!budget.relieve())
    let holders = [3, 1, 4, 2].map { Holder(lastUse: $0, log) }
    for holder in holders { budget.opened(holder) }
    #expect(budget.relieve())
    #expect(log.closed == [1, 2])
    #expect(budget.count == 2)
    withExtendedLifetime(holders) {}
  }
}
