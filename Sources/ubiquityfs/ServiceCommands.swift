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
      Commands start the daemon when they need it; this command is for a service manager. On \
      SIGTERM and SIGINT, the daemon flushes, unmounts and ends. It logs to standard error and to \
      daemon.log in the state directory. When a daemon dies, another one takes over its mounts, \
      and programs see a pause.
      """)

  @Option(
    help: ArgumentHelp(
      "The log level: \(Configuration.logLevels.joined(separator: ", ")) (default: info).",
      valueName: "level"),
    completion: .list(Configuration.logLevels))
  var logLevel: String?

  @Flag(help: "Take over from the running daemon without unmounting.")
  var replace = false

  @Flag(help: .hidden) var detached = false

  @OptionGroup var options: GlobalOptions

  func validate() throws {
    if let logLevel, !Configuration.logLevels.contains(logLevel) {
      throw ValidationError(
        "--log-level takes one of \(Configuration.logLevels.joined(separator: ", "))")
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
    commandName: "completion", abstract: "Print a completion script for a shell.")

  enum Shell: String, ExpressibleByArgument, CaseIterable { case bash, zsh, fish }

  @Argument(help: "The shell.") var shell: Shell
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
