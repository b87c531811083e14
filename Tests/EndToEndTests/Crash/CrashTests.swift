import Foundation
import Testing

/// The daemon is killed at its fault points, started again, and has lost nothing.
///
/// Every workload is run once to learn which points are reached and how often after the mount; then
/// again for each of them, with the daemon killed there. Bounded in `make test`, all of it with
/// `UBIQUITYFS_CRASH=all` (`make crash`).
extension EndToEnd {
  @Suite struct CrashTests {
    static let isWhole = ProcessInfo.processInfo.environment["UBIQUITYFS_CRASH"] == "all"
    /// A point that is reached a thousand times is not a thousand points.
    static let countLimit = isWhole ? 5 : 1

    struct Kill: Sendable, Hashable {
      let workload: Int
      let point: String
      let count: Int
    }

    @Test func aDaemonKilledAtAFaultPointLosesNothing() async throws {
      try await withAccount { account in
        let bench = try await CrashBench(account)
        try await bench.makeTemplate()
        let workloads = Workload.all
        var models: [Model] = []
        for workload in workloads { models.append(try await bench.model(workload)) }

        let start = try await Self.points(bench, Workload("nothing", ""))
        var kills: [Kill] = start.flatMap { point, count in
          (1...min(count, Self.countLimit)).map { Kill(workload: 0, point: point, count: $0) }
        }
        var points = Set(start.keys)
        for (index, workload) in workloads.enumerated() {
          for (point, count) in try await Self.points(bench, workload) {
            points.insert(point)
            let before = start[point] ?? 0
            guard count > before else { continue }
            for next in 1...min(count - before, Self.countLimit) {
              kills.append(Kill(workload: index, point: point, count: before + next))
            }
          }
        }
        kills.sort { ($0.workload, $0.point, $0.count) < ($1.workload, $1.point, $1.count) }
        if !Self.isWhole { kills = Self.sample(kills, 30) }

        var deaths = 0
        var losses: [String] = []
        for (index, kill) in kills.enumerated() {
          let workload = workloads[kill.workload]
          let outcome = try await bench.crash(
            workload, fault: "\(kill.point):\(kill.count)",
            roundTrip: workload.syncs || index % 8 == 0)
          deaths += outcome.wasKilled ? 1 : 0
          if let loss = Self.judge(outcome, models[kill.workload]) {
            losses.append("\(workload), killed at \(kill.point):\(kill.count): \(loss)")
            Issue.record("\(losses.last!)")
          }
        }
        print(
          """
          crash figures: \(workloads.count) workloads, \(points.count) fault points reached, \
          \(kills.count) runs, \(deaths) killed at the point (the others at the end), \
          \(losses.count) losses
          """)
        #expect(deaths > kills.count / 2)
      }
    }

    /// How often each point was reached.
    static func points(_ bench: CrashBench, _ workload: Workload) async throws -> [String: Int] {
      let path = bench.account.root + "/work/points"
      try? FileManager.default.removeItem(atPath: path)
      try await bench.run(workload, fault: "list:\(path)")
      let text = String(
        decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
      return text.split(separator: "\n").reduce(into: [:]) { counts, line in
        counts[line.split(separator: " ").last.map(String.init) ?? "", default: 0] += 1
      }
    }

    static func judge(_ outcome: CrashBench.Outcome, _ model: Model) -> String? {
      if let code = outcome.results.first(where: { $0 != 0 }) { return "errno \(code)" }
      if let loss = model.judgeCrash(outcome.shown, done: outcome.results.count) { return loss }
      guard outcome.fsck.contains("Problems: 0") else { return "fsck: \(outcome.fsck)" }
      if let again = outcome.again {
        guard again.all == outcome.shown.all else {
          return "read back from the backend:\n" + again.differences(from: outcome.shown)
        }
        guard outcome.fsckAgain.contains("Problems: 0") else { return "fsck: \(outcome.fsckAgain)" }
      }
      return nil
    }

    /// So many of all, evenly, the same ones every time.
    static func sample<Element>(_ all: [Element], _ count: Int) -> [Element] {
      guard all.count > count else { return all }
      return (0..<count).map { all[$0 * all.count / count] }
    }
  }
}
