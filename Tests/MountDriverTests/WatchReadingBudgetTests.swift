import Testing

@testable import MountDriver

@Suite struct WatchReadingBudgetTests {
  private static let second: UInt64 = 1_000_000_000

  @Test("readings that wait for a processor do not hold up the next one")
  func busyMachine() {
    var budget = WatchReadingBudget()
    var time = 100 * Self.second
    for _ in 0..<50 {
      #expect(budget.pause(at: time) == 0)
      // Of half a second it had a processor for 20 milliseconds.
      budget.note(began: time, processor: Self.second / 50)
      time += Self.second / 2
    }
  }

  @Test("readings take a twentieth of one processor in the long run")
  func share() {
    var budget = WatchReadingBudget()
    let start = 100 * Self.second
    var time = start
    var used: UInt64 = 0
    for _ in 0..<100 {
      time += budget.pause(at: time)
      budget.note(began: time, processor: Self.second / 10)
      used += Self.second / 10
      time += Self.second / 10
    }
    #expect(used * 20 <= time - start + 3 * Self.second)
    #expect(used * 20 >= (time - start) / 2)
  }

  @Test("a single reading makes the next one wait for no time, and a long one for its share")
  func debt() {
    var budget = WatchReadingBudget()
    budget.note(began: 100 * Self.second, processor: Self.second / 20)
    #expect(budget.pause(at: 100 * Self.second) == 0)
    budget.note(began: 100 * Self.second, processor: Self.second / 2)
    #expect(budget.pause(at: 100 * Self.second) == 10 * Self.second)
  }
}
