import Foundation
import Model
import SyncEngine
import Testing

/// A small generator whose sequence is the seed's alone.
struct SplitMix64: RandomNumberGenerator {
  var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

@Suite struct PlannerSimulationTests {
  /// Several devices work, lose races and stop between two steps. At rest all trees are equal, and
  /// every content is there that nobody overwrote or removed having seen it.
  @Test(arguments: 0..<40)
  func devicesConverge(block: Int) throws {
    for seed in UInt64(block * 50)..<UInt64(block * 50 + 50) {
      try check(PlannerLife(seed: seed))
    }
  }

  /// Trees that went apart for long, from one that all had, and meet then: the planner is given all
  /// of it at once.
  @Test(arguments: 0..<40)
  func treesThatWentApartMeet(block: Int) throws {
    for seed in UInt64(block * 50)..<UInt64(block * 50 + 50) {
      try check(PlannerLife(apart: seed))
    }
  }

  private func check(_ life: PlannerLife) throws {
    guard let problem = life.problem() else { return }
    let small = PlannerLife(
      name: life.name, devices: life.devices,
      steps: shrink(life.steps) { steps in
        PlannerLife(name: life.name, devices: life.devices, steps: steps).problem() != nil
      })
    let told = "\(problem)\n\(small.steps.count) steps are enough:\n\(small.told())"
    Issue.record("\(life.name): \(told)")
    throw Stop()
  }

  private struct Stop: Error {}

  /// `PLANNER_SEED=n swift test --filter replaysOneSeed` tells a run step by step;
  /// `PLANNER_APART=1` one of the other kind.
  @Test func replaysOneSeed() throws {
    let environment = ProcessInfo.processInfo.environment
    let seed = environment["PLANNER_SEED"].flatMap { UInt64($0) }
    let life =
      environment["PLANNER_APART"] == nil
      ? PlannerLife(seed: seed ?? 1) : PlannerLife(apart: seed ?? 1)
    if seed != nil { print(life.told()) }
    #expect(life.problem() == nil)
  }
}

@Suite struct ShrinkingTests {
  @Test func whatIsLeftFailsAndNothingOfItCanGo() {
    // Fails for whatever has a 7 before a 3.
    func fails(_ numbers: [Int]) -> Bool {
      guard let seven = numbers.firstIndex(of: 7) else { return false }
      return numbers[seven...].contains(3)
    }
    var random = SplitMix64(seed: 1)
    for _ in 0..<100 {
      let numbers = (0..<80).map { _ in Int.random(in: 0..<10, using: &random) } + [7, 3]
      #expect(shrink(numbers, fails) == [7, 3])
    }
  }

  /// A merge that forgets: shrunk to the few steps that it takes to see it.
  @Test func aLostContentNeedsFewSteps() throws {
    func loses(_ steps: [PlannerLife.Step]) -> Bool {
      PlannerLife(name: "", devices: 2, steps: steps, forgetsConflicts: true).problem() != nil
    }
    let life = try #require(
      (0..<200).lazy.map { PlannerLife(apart: UInt64($0), devices: 2) }.first { loses($0.steps) })
    let small = shrink(life.steps, loses)
    #expect(small.count <= 8, "\(small)")
  }
}

/// Leaves out what it can of a list that fails, large parts first, so that what is left still
/// fails.
func shrink<Element>(_ list: [Element], _ fails: ([Element]) -> Bool) -> [Element] {
  var list = list
  var part = max(1, list.count / 2)
  while true {
    var isShorter = false
    var start = 0
    while start < list.count {
      var without = list
      without.removeSubrange(start..<min(start + part, list.count))
      if fails(without) {
        list = without
        isShorter = true
      } else {
        start += part
      }
    }
    if part == 1, !isShorter { return list }
    part = max(1, part / 2)
  }
}
