internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Glibc
internal import Platform

/// What every command takes.
struct GlobalOptions: ParsableArguments {
  @Option(
    help: ArgumentHelp(
      "The state directory (default: $UBIQUITYFS_STATE, else ~/.local/share/ubiquityfs).",
      valueName: "dir"),
    completion: .directory)
  var state: String?

  @Flag(help: "Print JSON: one document, or one a line for streams.")
  var json = false

  @Flag(name: [.long, .customShort("q")], help: "Print nothing but results and errors.")
  var quiet = false

  static var environment: [String: String] { ProcessEnvironment.all }

  private static let released = Lock<Set<String>>([])

  /// Before a command looks at any path: a daemon that was killed may have left its mounts hanging.
  /// The command reports a mount that cannot be freed when it connects. The program's options and
  /// its command's are validated one after the other, and one wait is enough.
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

  /// Connects to the daemon, starting it if it does not run.
  func connect() throws -> ControlClient {
    try ControlClient.connect(state: try stateDirectory(), launcher: DaemonLauncher())
  }

  /// Says something to a person who did not ask for a result.
  func say(_ text: String) {
    if !quiet && !json { Terminal.line(text) }
  }
}

/// The bytes of arguments. Swift repairs those that are not UTF-8 into others.
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

  /// Where the arguments are in mounts.
  static func items(_ arguments: [String]) throws -> [ItemReference] {
    try arguments.map { try ItemLocator.locate(path($0)) }
  }
}
