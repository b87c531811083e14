import Foundation
import Testing

/// The engine whole, on a memory backend and in virtual time: `Tests/EngineSimulation` is a process
/// of its own, since it takes the process's threads and clocks away. `docs/testing.md` has what it
/// does.
///
/// `SIMULATION_PROGRAM` names the program, such as an optimised one, of which `make test` wants
/// more runs (`SIMULATION_RUNS`); else it is the one beside the tests.
@Suite(.serialized) struct EngineSimulationTests {
  private static func variable(_ name: String) -> String? {
    ProcessInfo.processInfo.environment[name]
  }

  private static let program =
    variable("SIMULATION_PROGRAM").map { URL(fileURLWithPath: $0) }
    ?? URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    .deletingLastPathComponent().appendingPathComponent("EngineSimulation")

  private static let isOptimised = variable("SIMULATION_PROGRAM") != nil

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
  @Test func devicesAgreeAndLoseNothing() async throws {
    let runs = Self.variable("SIMULATION_RUNS").flatMap { Int($0) } ?? 20
    let first = Self.variable("SIMULATION_FIRST").flatMap { Int($0) } ?? 1
    let (isGood, output) = try await simulate(first, runs)
    print("simulation figures: \(output)")
    try #require(isGood, "\(output)")
  }

  /// The first: a file was removed while the store lost the upload of its content, and stayed on
  /// other devices. The second: the cloud was set back at the last act. The third: a device stopped
  /// during a recovery, which went on. The fourth: a version that nobody could read was kept, and
  /// not one that could be read.
  @Test("seeds that once failed pass", arguments: [119_677, 119_590, 128_585, 154_660])
  func formerFailures(seed: Int) async throws {
    let kind = ["SIMULATION_ROLLBACK": "1", "SIMULATION_PACKAGES": "1"]
    let (isGood, output) = try await simulate(seed, 1, kind)
    #expect(isGood, "\(output)")
  }

  /// The order of everything is the seed's: each run goes twice, and its pieces and the backend's
  /// calls are the same ones in the same order.
  @Test func aSeedGoesTheSameWayTwice() async throws {
    let count = Self.isOptimised ? 24 : 6
    let (isGood, output) = try await simulate(1, count, ["SIMULATION_TWICE": "1"])
    #expect(isGood, "\(output)")
  }

  /// In another process, and whether or not others were run before it.
  @Test func aRunAloneIsTheRunAmongOthers() async throws {
    let many = try await simulate(7, 5, ["SIMULATION_TRACES": "1"])
    #expect(many.isGood, "\(many.output)")
    let one = try await simulate(9, 1, ["SIMULATION_TRACES": "1"])
    let trace = try #require(
      one.output.split(separator: "\n").first { $0.hasPrefix("seed 9: trace") })
    #expect(many.output.contains(trace))
  }

  /// Mistakes in the engine and around it, each with a seed from which on it is met within a few
  /// runs; the first that meets it ends them. The same are in the table of `docs/testing.md`.
  static let planted: [(name: String, seed: Int)] = [
    ("forgetsLosers", 1), ("removalBeatsEdit", 1), ("mergesAttributesWhole", 1),
    ("movesBaseEarly", 3), ("foldsHalf", 1), ("believesEveryPut", 2), ("endsDownloadsEarly", 2),
    ("recoversNothing", 1), ("evictsUnsent", 2), ("overwritesSegments", 2), ("losesPacks", 1),
    ("losesJournal", 1), ("removesUnsentContent", 2), ("hidesWriters", 1), ("forgetsWrites", 1),
    ("putsUnchecked", 1), ("evictsUnchecked", 649),
    ("readsForeignNames", 3), ("evictsDeleted", 5), ("takesAbsenceForDeletion", 4),
    ("stagesChangedUploads", 10), ("snapshotsWrittenFiles", 3),
    ("dropsReplacedVersions", 1), ("forgetsRevivedVersions", 1), ("dropsVersionsForGood", 1),
    ("resolvesUnseenVersions", 50), ("revivesUnedited", 1), ("believesRemoved", 3),
  ]

  @Test(arguments: planted)
  func aPlantedMistakeIsFound(name: String, seed: Int) async throws {
    let (isGood, output) = try await simulate(seed, 40, ["SIMULATION_BUG": name])
    #expect(!isGood && output.contains("replay it with"), "\(output)")
  }
}
