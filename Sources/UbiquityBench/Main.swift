internal import ArgumentParser

@main
struct Bench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ubiquityfs-bench",
    abstract: "Measures a mount against a native directory on the same disk, in the same run.",
    subcommands: [CompareCommand.self, FilesCommand.self], defaultSubcommand: CompareCommand.self)
}

/// Where and with what to measure; the same for every command.
struct PlaceOptions: ParsableArguments {
  @Option(help: "The program to measure.", completion: .file())
  var binary = ".build/release/ubiquityfs"

  @Option(
    help: "Where native directory, state and backend are made, and removed: a disk, not a tmpfs.",
    completion: .directory)
  var directory = ".build"

  @Option(name: .customLong("mount-options"), help: "Options of the mount, as after -o.")
  var mountOptions = ""

  @Flag(help: "Let the sync engine upload meanwhile. Without it the account is offline.")
  var online = false

  @Option(help: "Write the results there as JSON.", completion: .file())
  var json: String?

  @Option(help: "Write the tables there as Markdown, too.", completion: .file())
  var table: String?

  /// Makes a bench in a directory of its own, gives it to `body`, and takes all of it away.
  func withStage<Result>(_ body: (Stage) throws -> Result) throws -> Result {
    let stage = try Stage(
      binary: binary, parent: directory, mountOptions: mountOptions, isOnline: online)
    Cleanup.onSignals(stage)
    defer { stage.remove() }
    do {
      try stage.start()
      return try body(stage)
    } catch {
      if let obituary = stage.obituary() { say(obituary) }
      throw error
    }
  }

  /// Prints `text`, and writes what was asked for.
  func publish(_ text: String, json value: some Encodable) throws {
    say(text)
    if let table { try Bytes.write(Array((text + "\n").utf8), to: table) }
    if let json { try Bytes.write(JSON.encoded(value), to: json) }
  }
}
