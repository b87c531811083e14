internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Platform

struct TrashCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "trash", abstract: "What was removed lately, and bringing it back.",
    subcommands: [List.self, Restore.self, Empty.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("Name a command; --help lists them.") }

  private static func table(_ report: RemovedReport) -> String {
    Terminal.table(
      report.items.map {
        [$0.id, $0.removed, Terminal.size($0.size), $0.device, "\($0.path)"]
      })
  }

  /// Calls a method that sends items before its answer too.
  private static func call<Method: ControlMethod>(
    _ method: Method.Type, _ parameters: Method.Parameters, _ options: GlobalOptions
  ) throws -> RemovedReport where Method.Answer == RemovedReport {
    var items: [ListedRemoved] = []
    let last = try options.connect().call(method, parameters) { name, line throws(ControlError) in
      guard name == Notifications.trashItems else { return }
      guard let page = try? Message.parameters(RemovedReport.self, in: line) else {
        throw ControlError(.failed, "the daemon sent a list that is not understood")
      }
      items += page.items
    }
    return RemovedReport(items: items + last.items)
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "List what was removed on any device and can be brought back, the newest first.")
    @Argument(help: "Only the containers that these are in.", completion: .file())
    var paths: [String] = []
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let items = try RawArguments.items(paths)
      let report = try TrashCommand.call(
        Methods.ListRemoved.self, ItemsRequest(items: items), options)
      if options.json { return try Terminal.printJSON(report) }
      Terminal.line(TrashCommand.table(report))
    }
  }

  struct Restore: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "restore", abstract: "Bring items back, on every device.",
      discussion: """
        A directory comes back with all that was in it. What has got the name meanwhile keeps it; \
        the item that comes back becomes `name 2`.
        """)
    @Argument(
      help: ArgumentHelp(
        "Where it was, or its identifier as `trash list` has it.", valueName: "path"),
      completion: .file())
    var items: [String]
    @OptionGroup var options: GlobalOptions

    func run() throws {
      var identifiers: [String] = []
      var places: [ItemReference] = []
      for item in items {
        if item.utf8.count == 32, item.allSatisfy(\.isHexDigit) {
          identifiers.append(item.lowercased())
        } else {
          places.append(try ItemLocator.locateFormer(RawArguments.path(item)))
        }
      }
      let report = try TrashCommand.call(
        Methods.RestoreRemoved.self, RestoreRequest(identifiers: identifiers, items: places),
        options)
      if options.json { return try Terminal.printJSON(report) }
      for item in report.items { options.say("\(item.path) is back.") }
    }
  }

  struct Empty: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "empty",
      abstract: "Forget what was removed: nobody can bring it back then, on any device.")
    @Argument(help: "Only the containers that these are in.", completion: .file())
    var paths: [String] = []
    @Flag(help: "Yes, for good.") var yes = false
    @OptionGroup var options: GlobalOptions

    func run() throws {
      guard yes else {
        throw ControlError(
          .usage,
          "what was removed could not be brought back any more; if that is wanted, add --yes")
      }
      let items = try RawArguments.items(paths)
      let answer = try options.connect().call(
        Methods.ForgetRemoved.self, ItemsRequest(items: items))
      if options.json { return try Terminal.printJSON(answer) }
      options.say("Nothing that was removed can be brought back.")
    }
  }
}
