import Catalog
import Foundation
import OperationSequences
import Testing

/// Random sequences of operations on the file system without FUSE, against `ReferenceFileSystem`.
@Suite(.serialized) struct ModelTests {
  private static let steps = 50

  @Test(arguments: 0..<10)
  func randomSequencesAgreeWithTheReference(block: UInt64) throws {
    try check(.seldom, seeds: block * 200..<(block + 1) * 200)
  }

  @Test func sequencesAgreeWithACommitAfterEachStep() throws {
    try check(.commits, seeds: 10_000..<10_100)
  }

  @Test func sequencesAgreeWithARestartAfterEachStep() throws {
    try check(.restarts, seeds: 20_000..<20_010)
  }

  @Test func sequencesAgreeWithKillsInBetween() throws {
    try check(.kills, seeds: 30_000..<30_100)
  }

  /// `make soak-model`.
  @Test(.enabled(if: ProcessInfo.processInfo.environment["MODEL_MINUTES"] != nil))
  func sequencesGoOnForMinutes() throws {
    let minutes = ProcessInfo.processInfo.environment["MODEL_MINUTES"].flatMap { Int($0) } ?? 1
    let end = time(nil) + minutes * 60
    var seed = UInt64(time(nil)) * 1_000_000
    while time(nil) < end {
      for upkeep in Upkeep.allCases {
        try check(upkeep, seeds: seed..<seed + 50)
        seed += 50
      }
    }
  }

  /// Four threads, each in a directory of its own, on one container.
  @Test func sequencesSideBySideAgree() throws {
    let container = try ModelContainer()
    DispatchQueue.concurrentPerform(iterations: 4) { thread in
      for seed in 40_000..<UInt64(40_100) {
        let seed = seed + UInt64(thread) * 100
        do {
          let steps = SequenceGenerator.steps(seed: seed, count: Self.steps)
          guard let problem = try run(steps, seed, .seldom, container) else { continue }
          Issue.record("MODEL_SEED=\(seed), beside others: \(problem)")
        } catch {
          Issue.record("MODEL_SEED=\(seed), beside others: \(error)")
        }
        return
      }
    }
    #expect(try container.catalog.orphans().isEmpty)
    #expect(try container.problems() == [])
  }

  private func check(_ upkeep: Upkeep, seeds: Range<UInt64>) throws {
    let container = try ModelContainer()
    for seed in seeds {
      let steps = SequenceGenerator.steps(seed: seed, count: Self.steps)
      guard let problem = try run(steps, seed, upkeep, container) else { continue }
      let few = try shrunk(steps, seed, upkeep)
      Issue.record(
        """
        MODEL_SEED=\(seed) MODEL_UPKEEP=\(upkeep.rawValue): \(problem)
        \(try run(few, seed, upkeep, ModelContainer()) ?? "(not after a new start)")
        \(few.enumerated().map { "\($0): \($1)" }.joined(separator: "\n"))
        """)
      return
    }
    #expect(try container.catalog.orphans().isEmpty)
    #expect(try container.problems() == [])
  }

  private func run(
    _ steps: [Action], _ seed: UInt64, _ upkeep: Upkeep, _ container: ModelContainer
  ) throws -> String? {
    try ModelRun(container, name: "s\(seed)", seed: seed, upkeep: upkeep)
      .run(steps)
  }

  private func shrunk(_ steps: [Action], _ seed: UInt64, _ upkeep: Upkeep) throws -> [Action] {
    shrink(steps) { fewer in
      (try? run(fewer, seed, upkeep, ModelContainer())) != .some(nil)
    }
  }

  /// `MODEL_SEED=n MODEL_UPKEEP=kills swift test --filter replaysOneSequence` tells a run step by
  /// step.
  @Test func replaysOneSequence() throws {
    let environment = ProcessInfo.processInfo.environment
    let seed = environment["MODEL_SEED"].flatMap { UInt64($0) }
    let upkeep = environment["MODEL_UPKEEP"].flatMap { Upkeep(rawValue: $0) } ?? .seldom
    let steps = SequenceGenerator.steps(seed: seed ?? 1, count: Self.steps)
    let run = try ModelRun(
      ModelContainer(), name: "replay", seed: seed ?? 1, upkeep: upkeep,
      trace: seed == nil ? nil : { print($0) })
    #expect(try run.run(steps) == nil)
  }
}
