import Foundation
import Glibc
import Logging

/// `EngineSimulation FIRST-SEED COUNT`: simulated runs of two to five devices, each of one seed.
///
/// `SIMULATION_TRACE=1` tells a run step by step, `SIMULATION_BUG` plants a bug, and with
/// `SIMULATION_TWICE=1` every seed is run twice and has to go the same way. A process for itself: what
/// it links makes the process single-threaded and takes its clocks away.
@main struct Main {
  static func main() {
    // The order of sets and dictionaries is the process's own otherwise.
    if getenv("SWIFT_DETERMINISTIC_HASHING") == nil {
      setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
      execv("/proc/self/exe", CommandLine.unsafeArgv)
    }
    var limit = rlimit()
    getrlimit(__rlimit_resource_t(7), &limit)
    limit.rlim_cur = limit.rlim_max
    setrlimit(__rlimit_resource_t(7), &limit)
    do {
      exit(try run(Array(CommandLine.arguments.dropFirst())) ? 0 : 1)
    } catch {
      print("\(error)")
      exit(2)
    }
  }

  private struct Usage: Error, CustomStringConvertible {
    var description: String { "usage: EngineSimulation FIRST-SEED COUNT" }
  }

  private static let failureLimit = 5

  private static func variable(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }

  /// Where devices have their files: in memory, where there is room.
  private static var place: String {
    let memory = "/dev/shm"
    var room = statvfs()
    guard statvfs(memory, &room) == 0, access(memory, W_OK) == 0,
      UInt64(room.f_bavail) * UInt64(room.f_bsize) > 1 << 30
    else { return NSTemporaryDirectory() }
    return memory
  }

  private static func run(_ arguments: [String]) throws -> Bool {
    guard arguments.count == 2, let first = UInt64(arguments[0]), let count = UInt64(arguments[1])
    else { throw Usage() }
    let bug = try variable("SIMULATION_BUG").map { name in
      guard let bug = PlantedBug(rawValue: name) else { throw Usage() }
      return bug
    }
    let isTold = variable("SIMULATION_TRACE") == "1"
    let isTwice = variable("SIMULATION_TWICE") == "1"
    let root = "\(place)/ubiquityfs-simulation-\(getpid())"
    defer { try? FileManager.default.removeItem(atPath: root) }
    var tally: [String: Int] = [:]
    var failures = 0
    var actions = 0
    var steps = 0
    var done = 0
    for seed in first..<first + count where failures < (bug == nil ? failureLimit : 1) {
      done += 1
      fflush(nil)
      var traces: [UInt64] = []
      for round in 0..<(isTwice ? 2 : 1) {
        let directory = "\(root)/\(seed)-\(round)"
        let world = try World(seed: seed, directory: directory, bug: bug, isTold: isTold)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        do { try world.run() } catch { world.report("\(error)") }
        traces.append(world.scheduler.trace)
        actions += world.actions
        tally.merge(world.tally, uniquingKeysWith: +)
        steps += world.scheduler.steps
        guard !world.problems.isEmpty else { continue }
        failures += 1
        print("seed \(seed): \(world.problems.joined(separator: "\n  "))")
        print("  replay it with: make simulate SEED=\(seed)")
        break
      }
      if Set(traces).count > 1 {
        failures += 1
        print("seed \(seed) does not go the same way twice: \(traces)")
      }
      if isTold || count == 1 {
        print("seed \(seed): trace \(traces.map { String($0, radix: 16) })")
      }
    }
    print("\(done) runs, \(actions) actions, \(steps) steps, \(failures) failed")
    if variable("SIMULATION_TALLY") == "1" {
      for (what, count) in tally.sorted(by: { $0.key < $1.key }) { print("\(count)\t\(what)") }
    }
    return failures == 0
  }
}
