internal import ArgumentParser
internal import ControlProtocol
internal import Coordination
internal import DaemonClient
internal import Glibc
internal import Platform

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Run a command that downloads nothing.",
    usage: "ubiquityfs run --no-download [--range-only] [--error ERROR] -- COMMAND [ARGUMENT...]",
    discussion: """
      For what reads everything it finds: `ubiquityfs run --no-download -- grep -r word ~/Ubiquity`. Where it, or \
      what it starts, reads a part of a file that is not on this device, it gets an error instead. What is here \
      is read as ever.

      This process becomes the command. Ends with 127 where there is no such command, with 126 where it \
      cannot be run.
      """)

  @Flag(help: "Reads of what is not here fail.") var noDownload = false
  @Flag(help: "Reads bring what they ask for, but nothing ahead of that.") var rangeOnly = false
  @Option(
    help: ArgumentHelp(
      "With what reads fail: EPERM (default), or EAGAIN for programs that then try again later.",
      valueName: "error"))
  var error: String?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard noDownload || rangeOnly else {
      throw ValidationError("Say --no-download or --range-only.")
    }
    if let error {
      guard !rangeOnly else { throw ValidationError("--error is for reads that fail.") }
      guard DownloadAccess.errors[error] != nil else {
        throw ValidationError("--error takes EPERM or EAGAIN, not “\(error)”.")
      }
    }
    try CommandTail.check()
  }

  func run() throws {
    let name = error ?? "EPERM"
    guard let start = Processes.start(of: getpid()) else {
      throw ControlError(.failed, "/proc is not there, which the daemon goes by")
    }
    // The daemon knows the process by its number, whatever becomes of its environment; the mark
    // stays with what loses its parents, and is for other daemons too.
    _ = try options.connect().call(
      Methods.RegisterRun.self,
      RunRequest(
        access: rangeOnly ? "rangeOnly" : "deny", error: rangeOnly ? nil : name,
        started: start.ticks))
    let outer = DownloadMark.access(GlobalOptions.environment[DownloadMark.variable] ?? "")
    let access = outer.limited(
      by: rangeOnly ? .rangeOnly : .deny(DownloadAccess.errors[name] ?? .notPermitted))
    if let mark = DownloadMark.text(access) { setenv(DownloadMark.variable, mark, 1) }
    ChildProcess.become(CommandTail.command)
  }
}
