internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Platform

struct TrashCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "trash", abstract: "List, restore and delete removed items.",
    subcommands: [List.self, Restore.self, Empty.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("name a subcommand; --help lists them") }

  private static func table(_ report: RemovedReport) -> String {
    Terminal.table(
      report.items.map {
        [$0.id, $0.removed, Terminal.size($0.size), $0.device, "\($0.path)"]
      })
  }

  /// Calls a method that sends items in pages before its answer, and returns them all.
  private static func call<Method: ControlMethod>(
    _ method: Method.Type, _ parameters: Method.Parameters, _ options: GlobalOptions
  ) throws -> RemovedReport where Method.Answer == RemovedReport {
    var items: [ListedRemoved] = []
    let last = try options.connect().call(method, parameters) { name, line throws(ControlError) in
      guard name == Notifications.trashItems else { return }
      guard let page = try? Message.parameters(RemovedReport.self, in: line) else {
        throw ControlError(.failed, "cannot decode the daemon's list")
      }
      items += page.items
    }
    return RemovedReport(items: items + last.items)
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list",
      abstract: "List removed items that can be restored, the newest first.")
    @Argument(
      help: ArgumentHelp(
        "A file or directory in a mount: list only its container (default: all containers).",
        valueName: "path"), completion: .file())
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
      commandName: "restore", abstract: "Restore removed items on every device.",
      discussion: """
        A directory is restored with its content. If another item has the name now, the restored \
        item becomes `name 2`.
        """)
    @Argument(
      help: ArgumentHelp(
        "An item's former path, or its identifier from `trash list`.", valueName: "path"),
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
      for item in report.items { options.say("Restored \(item.path).") }
    }
  }

  struct Empty: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "empty",
      abstract: "Delete removed items permanently, on every device.")
    @Argument(
      help: ArgumentHelp(
        "A file or directory in a mount: empty only its container (default: all containers).",
        valueName: "path"), completion: .file())
    var paths: [String] = []
    @Flag(help: "Required: confirm the deletion.") var yes = false
    @OptionGroup var options: GlobalOptions

    func run() throws {
      guard yes else {
        throw ControlError(
          .usage,
          "this deletes removed items permanently, on every device. Add --yes to confirm.")
      }
      let items = try RawArguments.items(paths)
      let answer = try options.connect().call(
        Methods.ForgetRemoved.self, ItemsRequest(items: items))
      if options.json { return try Terminal.printJSON(answer) }
      options.say("Emptied the trash.")
    }
  }
}
