internal import Glibc
internal import OperationSequences

/// `OperationRunner NATIVE MOUNT FIRST-SEED COUNT [MINUTES]`: does random sequences of system calls
/// in two directories side by side, and says where they differ.
///
/// `MODEL_STEPS` is the length of a sequence, `MODEL_TRACE=1` tells every call, `MODEL_COMPARE=1`
/// does nothing but compare the trees that an earlier run left. With MINUTES it goes on for so
/// long, and leaves nothing of what went well.
@main struct Runner {
  private static let limit = 5

  static func main() {
    do {
      exit(try run(Array(CommandLine.arguments.dropFirst())) ? 0 : 1)
    } catch {
      print("\(error)")
      exit(2)
    }
  }

  private static func variable(_ name: String) -> Int? {
    getenv(name).flatMap { Int(String(cString: $0)) }
  }

  private static func run(_ arguments: [String]) throws -> Bool {
    guard arguments.count >= 4, let first = UInt64(arguments[2]), let count = UInt64(arguments[3])
    else { throw RunnerFailure("usage: OperationRunner NATIVE MOUNT FIRST-SEED COUNT [MINUTES]") }
    umask(0o022)
    // A group that is not the caller's own, for changing to it.
    var groups: [gid_t] = [100]
    guard setgroups(groups.count, &groups) == 0 else { throw RunnerFailure("this needs root") }
    let comparison = Comparison(
      native: try Side(name: "native", path: arguments[0]),
      mounted: try Side(name: "mount", path: arguments[1]), trace: variable("MODEL_TRACE") == 1,
      removes: arguments.count > 4)
    let end = arguments.count > 4 ? time(nil) + (Int(arguments[4]) ?? 0) * 60 : 0
    let steps = variable("MODEL_STEPS") ?? 50
    var failures = 0
    var done: UInt64 = 0
    while done < count || time(nil) < end {
      let seed = first + done
      done += 1
      if variable("MODEL_COMPARE") == 1 {
        guard let problem = try comparison.compare("s\(seed)") else { continue }
        print("MODEL_SEED=\(seed): \(problem)")
      } else {
        guard let report = try check(seed, steps, comparison) else { continue }
        print(report)
      }
      failures += 1
      if failures == limit { break }
    }
    print("\(done) sequences of \(steps) calls, \(failures) differ")
    return failures == 0
  }

  private static func check(_ seed: UInt64, _ steps: Int, _ comparison: Comparison) throws
    -> String?
  {
    let actions = SequenceGenerator.steps(seed: seed, count: steps)
    guard let problem = try comparison.run(actions, in: "s\(seed)") else { return nil }
    var attempt = 0
    func again(_ actions: [Action]) -> String? {
      attempt += 1
      do {
        return try comparison.run(actions, in: "s\(seed)-\(attempt)")
      } catch {
        return "\(error)"
      }
    }
    let few = shrink(actions) { again($0) != nil }
    return """
      MODEL_SEED=\(seed): \(problem)
      \(again(few) ?? "(not again)")
      \(few.enumerated().map { "  \($0): \($1)" }.joined(separator: "\n"))
      """
  }
}
