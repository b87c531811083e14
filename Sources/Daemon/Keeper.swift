internal import Glibc
internal import Platform

/// Whether, and how, mounts outlive their daemon. `docs/decisions/keeper.md` has the whole of it.
enum Keeper {
  /// With `off` mounts end with their daemon, and nothing mounts them again.
  static let variable = "UBIQUITYFS_KEEPER"

  /// What the watchdog runs when this daemon dies; nil where it is to run nothing.
  static func successor(
    _ state: StateDirectory, logLevel: String?, earlyDeaths: UInt32
  ) -> SuccessorProgram? {
    guard getenv(variable).map({ String(cString: $0) }) != "off" else { return nil }
    let deleted = " (deleted)"
    guard var program = Files.linkTarget("/proc/self/exe") else { return nil }
    // An upgrade has put another file there.
    if program.hasSuffix(deleted) { program.removeLast(deleted.count) }
    var arguments = ["ubiquityfs", "daemon", "--detached", "--state", state.path]
    if let logLevel { arguments += ["--log-level", logLevel] }
    return SuccessorProgram(
      program: program, arguments: arguments, log: state.log, earlyDeaths: earlyDeaths)
  }
}
