internal import ArgumentParser
internal import ControlProtocol
internal import Coordination
internal import DaemonClient
internal import Glibc
internal import Platform

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Run a command without downloads, or with restricted ones.",
    usage: "ubiquityfs run --no-download [--range-only] [--error ERROR] -- COMMAND [ARGUMENT...]",
    discussion: """
      Use it for programs that read every file: `ubiquityfs run --no-download -- grep -r word \
      ~/Ubiquity`. Reads of local content succeed. With --no-download, reads of other content fail \
      with ERROR. The rules also apply to processes that the command starts.

      This process becomes the command. The exit status is 127 if the command does not exist, and \
      126 if it cannot run.
      """)

  @Flag(help: "Fail reads of content that is not local.") var noDownload = false
  @Flag(help: "Download only the ranges that are read, without the daemon's read-ahead.")
  var rangeOnly = false
  @Option(
    help: ArgumentHelp(
      "The error of failed reads: EPERM (default), or EAGAIN for programs that retry.",
      valueName: "error"))
  var error: String?
  @OptionGroup var options: GlobalOptions

  func validate() throws {
    guard noDownload || rangeOnly else {
      throw ValidationError("use --no-download or --range-only")
    }
    if let error {
      guard !rangeOnly else { throw ValidationError("--error and --range-only exclude each other") }
      guard DownloadAccess.errors[error] != nil else {
        throw ValidationError("--error takes EPERM or EAGAIN, not \"\(error)\"")
      }
    }
    try CommandTail.check()
  }

  func run() throws {
    let name = error ?? "EPERM"
    guard let start = Processes.start(of: getpid()) else {
      throw ControlError(
        .failed, "cannot read /proc, by which the daemon identifies processes; mount it")
    }
    // The daemon recognizes the process and its children by process ID, whatever their environment
    // is. The mark covers orphaned children, and other daemons.
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
