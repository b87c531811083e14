import Foundation
import Testing

/// The engine whole, on a memory backend and in virtual time: `Tests/EngineSimulation` is a process of
/// its own, since it takes the process's threads and clocks away. `docs/testing.md` has what it does.
@Suite(.serialized) struct EngineSimulationTests {
  private static func variable(_ name: String) -> String? {
    ProcessInfo.processInfo.environment[name]
  }

  /// Beside the tests, wherever the program is.
  private static let program = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    .deletingLastPathComponent().appendingPathComponent("EngineSimulation")

  private func simulate(
    _ first: Int, _ count: Int, _ variables: [String: String] = [:]
  ) async throws -> (isGood: Bool, output: String) {
    let process = Process()
    process.executableURL = Self.program
    process.arguments = ["\(first)", "\(count)"]
    process.environment = ProcessInfo.processInfo.environment.merging(variables) { $1 }
    // A file: of a pipe somebody would have to read all the time.
    let path = NSTemporaryDirectory() + "/ubiquityfs-simulation-\(UUID().uuidString).log"
    _ = FileManager.default.createFile(atPath: path, contents: nil)
    defer { try? FileManager.default.removeItem(atPath: path) }
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    process.standardOutput = file
    process.standardError = file
    let end = AsyncStream<Void>.makeStream()
    process.terminationHandler = { _ in end.continuation.finish() }
    try process.run()
    for await _ in end.stream {}
    let output = try Data(contentsOf: URL(fileURLWithPath: path))
    return (process.terminationStatus == 0, String(decoding: output, as: UTF8.self))
  }

  /// `SIMULATION_RUNS` says how many, `SIMULATION_FIRST` from which seed on.
  @Test(.enabled(if: variable("SIMULATION_SEED") == nil))
  func devicesAgreeAndLoseNothing() async throws {
    let runs = Self.variable("SIMULATION_RUNS").flatMap { Int($0) } ?? 20
    let first = Self.variable("SIMULATION_FIRST").flatMap { Int($0) } ?? 1
    // What a crash leaves behind in a process stays there: a new one now and then.
    for start in stride(from: first, to: first + runs, by: 20) {
      let (isGood, output) = try await simulate(start, min(20, first + runs - start))
      print(output)
      try #require(isGood, "\(output)")
    }
  }

  /// The order of everything is the seed's: each run goes twice, and its pieces and the backend's
  /// calls are the same ones in the same order. With `SIMULATION_TWICE`: of some hundred runs one does
  /// not, see `docs/testing.md`.
  @Test(.enabled(if: variable("SIMULATION_TWICE") != nil))
  func aSeedGoesTheSameWayTwice() async throws {
    let (isGood, output) = try await simulate(1, 4, ["SIMULATION_TWICE": "1"])
    #expect(isGood, "\(output)")
    // In another process, too.
    let one = try await simulate(7, 1)
    let other = try await simulate(7, 1)
    #expect(one.isGood && one.output.contains("trace"), "\(one.output)")
    #expect(one.output == other.output)
  }

  /// Each bug of `PlantedBug` is met within a few runs; the first that does ends them.
  @Test(
    .enabled(if: variable("SIMULATION_SEED") == nil),
    arguments: [
      ("overwritesSegments", 2), ("losesPacks", 3), ("losesJournal", 5),
      ("removesUnsentContent", 2), ("hidesWriters", 3), ("forgetsWrites", 1),
    ])
  func aPlantedBugIsFound(name: String, seed: Int) async throws {
    let (isGood, output) = try await simulate(seed, 12, ["SIMULATION_BUG": name])
    #expect(!isGood && output.contains("1 failed"), "\(output)")
  }

  /// `make simulate SEED=n` tells a run step by step.
  @Test(.enabled(if: variable("SIMULATION_SEED") != nil))
  func replaysOneSimulation() async throws {
    let seed = Self.variable("SIMULATION_SEED").flatMap { Int($0) } ?? 1
    let (isGood, output) = try await simulate(seed, 1, ["SIMULATION_TRACE": "1"])
    print(output)
    #expect(isGood)
  }
}
