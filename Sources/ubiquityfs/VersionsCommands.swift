internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import FoundationEssentials

struct VersionsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "versions", abstract: "Conflict versions of a file.",
    subcommands: [List.self, Cat.self, Resolve.self, Remove.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("Name a command; --help lists them.") }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "List the current version of a file and those that lost a conflict.")
    @Argument(help: "A file in a mount.", completion: .file()) var path: String
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
      commandName: "cat", abstract: "Print the bytes of a version.")
    @Argument(help: "A file in a mount.", completion: .file()) var path: String
    @Argument(help: "As `versions list` names it.") var version: String
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let item = try ItemLocator.locate(RawArguments.path(path))
      _ = try options.connect().call(
        Methods.ReadVersion.self, VersionRequest(item: item, version: version)
      ) { name, line throws(ControlError) in
        guard name == Notifications.data else { return }
        guard let piece = try? Message.parameters(DataPiece.self, in: line),
          let bytes = Data(base64Encoded: piece.base64)
        else { throw ControlError(.failed, "the daemon sent content that is not understood") }
        Terminal.write(Array(bytes))
      }
    }
  }

  struct Resolve: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "resolve", abstract: "Settle a conflict.",
      discussion: """
        The current version stays unless --keep leaves it out. Kept versions that are not current \
        become files beside it. The others go to the trash (`ubiquityfs trash`).

        If the file has versions that the last `versions list` since the daemon began did not \
        show, nothing is done and the exit status is 5. So it is if --keep leaves out the current \
        version and no `versions list` was run since the daemon began. --current says which \
        version may be replaced.
        """)
    @Argument(help: "A file in a mount.", completion: .file()) var path: String
    @Option(
      parsing: .upToNextOption,
      help: ArgumentHelp("Versions to keep, as `versions list` names them.", valueName: "version"))
    var keep: [String]
    @Option(
      help: ArgumentHelp(
        "The current version that you mean; the one that `versions list` showed last.",
        valueName: "version"))
    var current: String?
    @OptionGroup var options: GlobalOptions

    func run() throws {
      guard !keep.isEmpty else { throw ControlError(.usage, "--keep names no version") }
      let item = try ItemLocator.locate(RawArguments.path(path))
      let answer = try options.connect().call(
        Methods.ResolveVersions.self, ResolveRequest(item: item, keep: keep, current: current))
      if options.json { return try Terminal.printJSON(answer) }
      options.say("Resolved.")
    }
  }

  struct Remove: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "remove",
      abstract: "Drop conflict versions, on every device; they go to the trash.",
      discussion: "Those that are not named stay; the conflict ends with the last of them.")
    @Argument(help: "A file in a mount.", completion: .file()) var path: String
    @Argument(help: "As `versions list` names them; not the current one.") var versions: [String]
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let item = try ItemLocator.locate(RawArguments.path(path))
      let answer = try options.connect().call(
        Methods.RemoveVersions.self, RemoveVersionsRequest(item: item, versions: versions))
      if options.json { return try Terminal.printJSON(answer) }
      options.say(versions.count == 1 ? "Removed." : "Removed \(versions.count) versions.")
    }
  }
}
