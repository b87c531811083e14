internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import FoundationEssentials

struct VersionsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "versions", abstract: "List, read and resolve conflict versions.",
    subcommands: [List.self, Cat.self, Resolve.self, Remove.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("name a subcommand; --help lists them") }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "List the current version of a file and its conflict versions.")
    @Argument(help: "A file or package in a mount.", completion: .file()) var path: String
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let item = try ItemLocator.locate(RawArguments.path(path))
      let report = try options.connect().call(
        Methods.ListVersions.self, ItemRequest(item: item, isShown: true))
      if options.json { return try Terminal.printJSON(report) }
      Terminal.line(
        Terminal.table(
          report.versions.map {
            [
              $0.isCurrent ? "current" : $0.isResolved ? "resolved" : "conflict", $0.id,
              $0.modified,
              Terminal.size($0.size), $0.device,
            ]
          }))
    }
  }

  struct Cat: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "cat", abstract: "Print the content of a version; a package as a tar file.")
    @Argument(help: "A file or package in a mount.", completion: .file()) var path: String
    @Argument(help: "A version's identifier from `versions list`.") var version: String
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let item = try ItemLocator.locate(RawArguments.path(path))
      _ = try options.connect().call(
        Methods.ReadVersion.self, VersionRequest(item: item, version: version)
      ) { name, line throws(ControlError) in
        guard name == Notifications.data else { return }
        guard let piece = try? Message.parameters(DataPiece.self, in: line),
          let bytes = Data(base64Encoded: piece.base64)
        else { throw ControlError(.failed, "cannot decode the daemon's content") }
        Terminal.write(Array(bytes))
      }
    }
  }

  struct Resolve: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "resolve", abstract: "Resolve a conflict.",
      usage: "ubiquityfs versions resolve PATH --keep VERSION... [--current VERSION]",
      discussion: """
        The current version stays unless --keep omits it. Kept versions that are not current \
        become files beside it. The others go to the trash (`ubiquityfs trash`).

        The command changes nothing and exits with 5 if the file has versions that the last \
        `versions list` since the daemon's start did not show. The same happens if --keep omits \
        the current version and no `versions list` ran since the daemon's start. --current names \
        the current version that may be replaced.
        """)
    @Argument(help: "A file or package in a mount.", completion: .file()) var path: String
    @Option(
      parsing: .upToNextOption,
      help: ArgumentHelp("A version's identifier from `versions list`.", valueName: "version"))
    var keep: [String]
    @Option(
      help: ArgumentHelp(
        "The identifier of the current version that may be replaced.",
        valueName: "version"))
    var current: String?
    @OptionGroup var options: GlobalOptions

    func run() throws {
      guard !keep.isEmpty else { throw ControlError(.usage, "--keep needs a version") }
      let item = try ItemLocator.locate(RawArguments.path(path))
      let answer = try options.connect().call(
        Methods.ResolveVersions.self, ResolveRequest(item: item, keep: keep, current: current))
      if options.json { return try Terminal.printJSON(answer) }
      options.say("Resolved the conflict.")
    }
  }

  struct Remove: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "remove",
      abstract: "Move conflict versions to the trash on every device.",
      discussion: "Versions that are not named stay. The conflict ends when none is left.")
    @Argument(help: "A file or package in a mount.", completion: .file()) var path: String
    @Argument(
      help: ArgumentHelp(
        "A version's identifier from `versions list`; not the current one.", valueName: "version"))
    var versions: [String]
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let item = try ItemLocator.locate(RawArguments.path(path))
      let answer = try options.connect().call(
        Methods.RemoveVersions.self, RemoveVersionsRequest(item: item, versions: versions))
      if options.json { return try Terminal.printJSON(answer) }
      options.say(
        versions.count == 1 ? "Removed 1 version." : "Removed \(versions.count) versions.")
    }
  }
}
