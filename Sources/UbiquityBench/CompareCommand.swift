internal import ArgumentParser
internal import Glibc

struct CompareCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "compare",
    abstract: "Run the workloads on both, by turns, and print medians and ratios (the default).")

  @OptionGroup var place: PlaceOptions

  @Option(help: "How often each workload runs on each side.") var rounds = 5
  @Option(help: "Only workloads whose name has this in it; may be given again.")
  var only: [String] = []
  @Flag(help: "List the workloads.") var list = false
  @Flag(help: "Count nothing: times only.") var noCounts = false
  @Option(help: "Of the usual amounts, this part: for trying things out.") var scale = 1.0
  @Option(
    help: ArgumentHelp(
      "The repository for git and tar (default: $BENCH_REPOSITORY, else one that is generated)."),
    completion: .directory)
  var repository: String?

  func validate() throws {
    guard rounds > 0 else { throw ValidationError("--rounds takes a positive number.") }
    guard scale > 0, scale <= 1 else { throw ValidationError("--scale is above 0 and at most 1.") }
  }

  func run() throws {
    let sizes = Sizes(scale: scale)
    let workloads = Workloads.all(sizes).filter { workload in
      only.isEmpty || only.contains { workload.name.contains($0) }
    }
    if list {
      for workload in workloads { print("\(workload.name)\t\(workload.title)") }
      return
    }
    guard !workloads.isEmpty else { throw Failure("no workload has such a name; see --list") }
    let named = repository ?? getenv("BENCH_REPOSITORY").map { String(cString: $0) } ?? ""
    let report = try place.withStage { stage in
      stage.repository = named.isEmpty ? nil : named
      let counters = noCounts ? nil : Counters(stage: stage)
      let results = try Measuring(stage: stage, sizes: sizes, rounds: rounds, counters: counters)
        .run(workloads)
      return Report(
        conditions: try stage.conditions(), rounds: rounds, scale: scale,
        countsUnavailable: counters.flatMap(\.whyNot), results: results)
    }
    try place.publish(report.text, json: report)
  }
}
