internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Glibc
internal import Platform

/// The options of every command.
struct GlobalOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The state directory (default: $UBIQUITYFS_STATE, else ~/.local/share/ubiquityfs).",
      valueName: "dir"),
    completion: .directory)
  var state: String?

  @Flag(help: "Print JSON: one document, or one per line for streams.")
  var json = false

  @Flag(name: [.long, .customShort("q")], help: "Print only results and errors.")
  var quiet = false

  static var environment: [String: String] { ProcessEnvironment.all }

  private static let released = Lock<Set<String>>([])

  /// Frees the mounts of a killed daemon, because a command that uses a path in one would hang. The
  /// command reports a mount that cannot be freed when it connects. The options of the program and
  /// of its command are both validated; only the first validation waits.
  func validate() {
    guard let state = try? stateDirectory(),
      Self.released.withLock({ $0.insert(state).inserted })
    else { return }
    _ = ServedMounts.release(state: state, milliseconds: 2000)
  }

  func stateDirectory() throws -> String {
    let environment = Self.environment
    return try Configuration.load(environment: environment)
      .stateDirectory(flag: state, environment: environment)
  }

  /// Connects to the daemon, and starts it if it does not run.
  func connect() throws -> ControlClient {
    try ControlClient.connect(state: try stateDirectory(), launcher: DaemonLauncher())
  }

  /// Prints a line that is not a result; nothing with `--quiet` or `--json`.
  func say(_ text: String) {
    if !quiet && !json { Terminal.line(text) }
  }
}

/// The raw bytes of arguments, because Swift replaces invalid UTF-8.
enum RawArguments {
  static func path(_ argument: String) -> PathBytes {
    guard argument.unicodeScalars.contains("\u{FFFD}") else { return PathBytes(argument) }
    for index in 0..<Int(CommandLine.argc) {
      guard let raw = CommandLine.unsafeArgv[index], String(cString: raw) == argument else {
        continue
      }
      return PathBytes(Array(UnsafeRawBufferPointer(start: raw, count: strlen(raw))))
    }
    return PathBytes(argument)
  }

  /// Locates the arguments in mounts.
  static func items(_ arguments: [String]) throws -> [ItemReference] {
    try arguments.map { try ItemLocator.locate(path($0)) }
  }
}
