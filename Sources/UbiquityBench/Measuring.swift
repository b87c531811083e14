/// Times of one workload on one side, in seconds.
struct Times: Codable {
  let all: [Double]

  var median: Double {
    let sorted = all.sorted()
    let middle = sorted.count / 2
    guard !sorted.isEmpty else { return .nan }
    return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
  }
  var fastest: Double { all.min() ?? .nan }
  var slowest: Double { all.max() ?? .nan }
}

/// Runs workloads on both sides by turns: whatever else the machine does meets both alike.
struct Measuring {
  let stage: Stage
  let sizes: Sizes
  let rounds: Int
  let counters: Counters?

  func run(_ workloads: [Workload]) throws -> [WorkloadResult] {
    var results: [WorkloadResult] = []
    for (index, workload) in workloads.enumerated() {
      let result = try run(workload)
      say(result.line)
      results.append(result)
      let needed = Set(workloads[(index + 1)...].flatMap(\.fixtures))
      for fixture in Fixture.allCases where !needed.contains(fixture) {
        for place in stage.places { try place.remove(fixture) }
      }
    }
    return results
  }

  private func run(_ workload: Workload) throws -> WorkloadResult {
    for fixture in workload.fixtures {
      for place in stage.places { try place.prepare(fixture, sizes: sizes, stage: stage) }
    }
    var times: [Place.Kind: [Double]] = [:]
    for round in 0..<rounds {
      for place in round % 2 == 0 ? stage.places : stage.places.reversed() {
        times[place.kind, default: []].append(try time(workload, at: place))
      }
    }
    return WorkloadResult(
      workload, native: Times(all: times[.native] ?? []), mount: Times(all: times[.mount] ?? []),
      counts: try count(workload))
  }

  private func time(_ workload: Workload, at place: Place) throws -> Double {
    try workload.prepare(place, stage)
    let taken = try seconds { try workload.body(place, stage) }
    try workload.finish(place, stage)
    return taken
  }

  /// Once more, untimed.
  private func count(_ workload: Workload) throws -> Counts? {
    guard let counters, counters.whyNot == nil else { return nil }
    try workload.prepare(stage.mount, stage)
    let counts = try counters.count { try workload.body(stage.mount, stage) }
    try workload.finish(stage.mount, stage)
    return counts
  }
}
