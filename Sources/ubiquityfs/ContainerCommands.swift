internal import ArgumentParser
internal import ControlProtocol
internal import DaemonClient
internal import Model

struct ContainerCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "container", abstract: "Create, list and delete containers.",
    subcommands: [Create.self, List.self, Delete.self, SetAside.self])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("name a subcommand; --help lists them") }

  /// Throws a usage error if the name is not a valid container name.
  static func checkName(_ id: String) throws {
    do throws(ContainerID.Invalid) { _ = try ContainerID(id) } catch {
      throw ControlError(
        .usage,
        "\"\(id)\" is not a container name: \(error.reason). "
          + "Use a name such as iCloud.com.example.notes.")
    }
  }

  struct Create: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "create", abstract: "Create a container.")
    @Argument(help: "The container's name, such as iCloud.com.example.notes.") var id: String
    @OptionGroup var options: GlobalOptions

    func run() throws {
      try ContainerCommand.checkName(id)
      let answer = try options.connect().call(
        Methods.CreateContainer.self, ContainerRequest(id: id))
      if options.json { return try Terminal.printJSON(answer) }
      options.say(answer.created ? "Created \(id)." : "\(id) already exists.")
    }
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "list", abstract: "List the account's containers.")
    @OptionGroup var options: GlobalOptions

    func run() throws {
      let report = try options.connect().call(Methods.ListContainers.self, Nothing())
      if options.json { return try Terminal.printJSON(report) }
      guard !report.containers.isEmpty else { return }
      Terminal.line(
        Terminal.table(
          report.containers.map {
            [
              $0.id, $0.items.map { "\($0) items" } ?? "-",
              $0.totalBytes.map(Terminal.size) ?? "-",
              $0.error.map { "cannot be opened: \($0)" } ?? $0.mountpoint ?? "",
            ]
          }))
    }
  }

  struct Delete: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "delete", abstract: "Delete a container and its content on every device.")
    @Argument(help: "The container's name.") var id: String
    @Flag(help: "Required: confirm the deletion.") var yes = false
    @OptionGroup var options: GlobalOptions

    func run() throws {
      try ContainerCommand.checkName(id)
      guard yes else {
        throw ControlError(
          .usage,
          "this deletes \(id) and its content on every device. Add --yes to confirm.")
      }
      let answer = try options.connect().call(
        Methods.DeleteContainer.self, ContainerRequest(id: id))
      if options.json { return try Terminal.printJSON(answer) }
      options.say("Deleted \(id).")
    }
  }
}
