internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient

struct VersionCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "version", abstract: "Print the version.")
  @OptionGroup var options: GlobalOptions

  func run() throws {
    if options.json { return try Terminal.printJSON(["version": Product.version]) }
    Terminal.line("\(Product.name) \(Product.version)")
  }
}

struct DaemonCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "daemon", abstract: "Run the daemon in the foreground.",
    discussion: """
      Commands that need the daemon start it; this is for a service manager. SIGTERM and SIGINT \
      flush, unmount and end it. It logs to stderr and to daemon.log in the state directory. When a \
      daemon dies, another one goes on with its mounts; programs see a pause.
      """)

  @Option(
    help: ArgumentHelp(
      "One of \(Configuration.logLevels.joined(separator: ", ")) (default: info).",
      valueName: "level"),
    completion: .list(Configuration.logLevels))
  var logLevel: String?

  @Flag(help: "Take over from the daemon that runs, with its mounts as they are.")
  var replace = false

  @Flag(help: .hidden) var detached = false

  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if let logLevel, !Configuration.logLevels.contains(logLevel) {
      throw ValidationError(
        "--log-level is none of \(Configuration.logLevels.joined(separator: ", ")).")
    }
  }

  func run() throws {
    var configuration = try Configuration.load(environment: GlobalOptions.environment)
    if let logLevel { configuration.logLevel = logLevel }
    let state = try configuration.stateDirectory(
      flag: options.state, environment: GlobalOptions.environment)
    try DaemonProcess.run(
      state: state, configuration: configuration, isDetached: detached, isQuiet: options.quiet,
      replaces: replace)
  }
}

struct CompletionCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "completion", abstract: "Print shell completions.")

  enum Shell: String, ExpressibleByArgument, CaseIterable { case bash, zsh, fish }

  @Argument(help: "bash, zsh or fish.") var shell: Shell
  @OptionGroup var options: GlobalOptions

  func run() throws {
    let known: CompletionShell =
      switch shell {
      case .bash: .bash
      case .zsh: .zsh
      case .fish: .fish
      }
    let script = UbiquityCommand.completionScript(for: known)
    if options.json { return try Terminal.printJSON(["completion": script]) }
    Terminal.line(script)
  }
}
