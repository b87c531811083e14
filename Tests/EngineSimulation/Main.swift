import CSimulation
import Glibc
import Platform
import SystemPackage

/// `EngineSimulation FIRST-SEED COUNT`: simulated runs of two to five devices, each of one seed and
/// in a process of its own. Without a count it goes on until a run fails or it is interrupted.
///
/// - `SIMULATION_TRACE=1` tells a run step by step, `SIMULATION_TALLY=1` counts what was done.
/// - `SIMULATION_TRACES=1` gives a number for each run that is the same when it goes the same way.
/// - `SIMULATION_PACKAGES`, `SIMULATION_COMPACTS`, `SIMULATION_MANY`, `SIMULATION_FOREIGN`,
///   `SIMULATION_DELETION`, `SIMULATION_ABSENCE`, `SIMULATION_ROLLBACK`, `SIMULATION_PLOTS`: 1 for
///   every run, 0 for none; else seeds differ in it.
/// - `SIMULATION_BUG=NAME` plants a bug; the first run that fails ends it.
/// - `SIMULATION_TWICE=1` does every run twice: both have to go the same way.
/// - `SIMULATION_JOBS=N`: so many runs at a time, else one for each processor.
@main struct Main {
  static func main() {
    // The order of sets and dictionaries is the process's own otherwise, and so are addresses.
    if getenv("SWIFT_DETERMINISTIC_HASHING") == nil || getenv("UBIQUITYFS_FAULT") == nil {
      setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1)
      setenv("UBIQUITYFS_FAULT", "observe", 1)
      // BoringSSL mixes random numbers of the processor into its keys where there are fast ones,
      // as on Intel's. Without the processor's RDRAND bit it asks `getrandom`, which is the seed's.
      setenv("OPENSSL_ia32cap", "~0x4000000000000000", 1)
      simulation_prepare_process()
      execv("/proc/self/exe", CommandLine.unsafeArgv)
    }
    guard let plan = Plan(Array(CommandLine.arguments.dropFirst())) else {
      print("usage: EngineSimulation FIRST-SEED [COUNT]; SIMULATION_BUG is one of")
      print("  " + Planting.names.joined(separator: " "))
      exit(2)
    }
    exit(plan.run() ? 0 : 1)
  }
}

/// What was asked for.
struct Plan {
  private let first: UInt64
  private let count: UInt64?
  private let planting: Planting?
  private let isTold = Self.variable("SIMULATION_TRACE") == "1"
  private let isTwice = Self.variable("SIMULATION_TWICE") == "1"
  private let jobs: Int

  private static let failureLimit = 5

  init?(_ arguments: [String]) {
    guard (1...2).contains(arguments.count), let first = UInt64(arguments[0]) else { return nil }
    self.first = first
    count = arguments.count == 2 ? UInt64(arguments[1]) : nil
    if arguments.count == 2, count == nil { return nil }
    let bug = Self.variable("SIMULATION_BUG")
    planting = bug.flatMap { Planting($0) }
    if bug != nil, planting == nil { return nil }
    let processors = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
    jobs = Self.variable("SIMULATION_JOBS").flatMap { Int($0) } ?? processors
  }

  private static func variable(_ name: String) -> String? {
    getenv(name).map { String(cString: $0) }
  }

  /// Where devices have their files: in memory, where there is room.
  private static var place: String {
    let memory = "/dev/shm"
    var room = statvfs()
    guard statvfs(memory, &room) == 0, access(memory, W_OK) == 0,
      UInt64(room.f_bavail) * UInt64(room.f_bsize) > 1 << 30
    else { return variable("TMPDIR") ?? "/tmp" }
    return memory
  }

  func run() -> Bool {
    // Of the same length whatever process it is, as is all that a run sees of it.
    let root = "\(Self.place)/ubiquityfs-simulation-\(1_000_000_000 + Int(getpid()))"
    do throws(Errno) { try Files.makeDirectories(root) } catch {
      print("\(root): \(error)")
      return false
    }
    defer { try? Files.removeTree(root) }
    let start = monotonicNanoseconds()
    var totals = Totals()
    var failures = 0
    var next = first
    let crew = Crew(size: max(1, jobs))
    repeat {
      let part = min(count.map { $0 - (next - first) } ?? 1000, 1000)
      let seeds = (next..<next + part).flatMap { isTwice ? [$0, $0] : [$0] }
      var traces: [UInt64: UInt64] = [:]
      crew.run(seeds) { seed in
        simulate(seed, in: root)
      } done: { outcome in
        totals.add(outcome)
        var problems = outcome.problems
        if isTwice, let other = traces.updateValue(outcome.trace, forKey: outcome.seed),
          other != outcome.trace
        {
          problems.append("it does not go the same way twice")
        }
        if !problems.isEmpty {
          failures += 1
          print("seed \(outcome.seed): \(problems.joined(separator: "\n  "))")
          print("  replay it with: make simulate SEED=\(outcome.seed)")
        }
        if isTold || count == 1 || Self.variable("SIMULATION_TRACES") == "1" {
          print("seed \(outcome.seed): trace \(String(outcome.trace, radix: 16))")
        }
        fflush(nil)
        return failures < (planting == nil ? Self.failureLimit : 1)
      }
      next += part
      if count == nil { print("up to seed \(next - 1): \(told(totals, start))") }
    } while failures == 0 && (count.map { next - first < $0 } ?? true)
    print(told(totals, start))
    if Self.variable("SIMULATION_TALLY") == "1" {
      for (what, count) in totals.tally.sorted(by: { $0.key < $1.key }) {
        print("\(count)\t\(what)")
      }
    }
    return failures == 0
  }

  private func told(_ totals: Totals, _ start: UInt64) -> String {
    totals.description(seconds: Double(monotonicNanoseconds() - start) / 1e9)
  }

  private func simulate(_ seed: UInt64, in root: String) -> Outcome {
    var outcome = Outcome()
    outcome.seed = seed
    // In their order with what the engine logs.
    if isTold { simulation_print_lines() }
    PlantedMistake.planted = planting?.mistake
    let directory = "\(root)/\(1_000_000_000 + Int(getpid()))"
    do {
      let world = try World(seed: seed, directory: directory, bug: planting?.bug, isTold: isTold)
      do { try world.run() } catch { world.report("\(error)") }
      outcome.trace = world.scheduler.trace
      outcome.acts = world.acts
      outcome.pieces = world.scheduler.steps
      outcome.devices = world.devices.count
      outcome.problems = world.problems
      outcome.tally = world.tally
    } catch {
      outcome.problems.append("\(error)")
    }
    _ = simulation_remove(directory)
    return outcome
  }
}
