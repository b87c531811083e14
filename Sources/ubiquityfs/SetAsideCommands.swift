internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient
internal import Platform

extension ContainerCommand {
  struct SetAside: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "set-aside",
      abstract: "Manage local files of containers that another device deleted.",
      discussion: """
        When another device deletes a container, this device keeps its local files, including \
        those that were not uploaded. The next mount of that name sets them aside. They stay until \
        `container set-aside remove`.
        """,
      subcommands: [List.self, Restore.self, Remove.self, Add.self], defaultSubcommand: List.self)

    @OptionGroup var options: GlobalOptions

    struct List: ParsableCommand {
      static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List set-aside containers.")
      @OptionGroup var options: GlobalOptions

      func run() throws {
        let report = try options.connect().call(Methods.ListSetAside.self, Nothing())
        if options.json { return try Terminal.printJSON(report) }
        guard !report.entries.isEmpty else { return }
        Terminal.line(
          Terminal.table(
            report.entries.map { entry in
              [
                entry.id, entry.time ?? "-",
                entry.error ?? "\(entry.files) files, \(Terminal.size(entry.bytes))",
                "\(entry.placeholders) placeholders", "\(entry.pendingUploads) pending uploads",
                entry.reason ?? "",
              ]
            }))
      }
    }

    struct Restore: ParsableCommand {
      static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Copy a set-aside container into a directory.",
        usage: "ubiquityfs container set-aside restore ID [DIRECTORY] [--continue]",
        discussion: """
          The command copies content, names, directories, links, modes, times and attributes. The \
          set-aside files stay. The command lists placeholders, whose content was not local.

          If an item cannot be copied, the command lists it with the reason, copies all others, \
          and exits with 1. Remove the cause and run the command again with --continue: it copies \
          the missing items and replaces none.
          """)
      @Argument(help: "The name that `container set-aside list` prints.") var id: String
      @Argument(
        help: "A new or empty directory (default: ID in the current directory).",
        completion: .directory)
      var directory: String?
      @Flag(
        name: .customLong("continue"),
        help: "Copy only missing items into the directory of an earlier restore.")
      var continues = false
      @OptionGroup var options: GlobalOptions

      func run() throws {
        let target = Files.absolutePath(directory ?? id)
        let result = try options.connect().call(
          Methods.RestoreSetAside.self,
          SetAsideRequest(id: id, directory: PathBytes(target), continues: continues))
        if options.json { try Terminal.printJSON(result) } else { show(result) }
        guard result.failed == 0 else {
          throw ControlError(
            .failed,
            "\(result.failed) items of \(id) were not copied to \(result.directory); all others "
              + "were. Remove the causes and run the command again with --continue.")
        }
      }

      private func show(_ result: RestoredSetAside) {
        for path in result.placeholders { Terminal.line("placeholder  \(path)") }
        if result.unlisted > 0 { Terminal.line("and \(result.unlisted) more placeholders") }
        for failure in result.failures {
          Terminal.line("not copied  \(failure.path): \(failure.reason)")
        }
        let rest = result.failed - UInt64(result.failures.count)
        if rest > 0 { Terminal.line("and \(rest) more not copied") }
        options.say(
          "Restored \(result.files) files (\(Terminal.size(result.bytes))) to \(result.directory)."
            + (result.kept > 0 ? " \(result.kept) existed already." : ""))
      }
    }

    struct Remove: ParsableCommand {
      static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Delete a set-aside container permanently.")
      @Argument(help: "The name that `container set-aside list` prints.") var id: String
      @Flag(help: "Required: confirm the deletion.") var yes = false
      @OptionGroup var options: GlobalOptions

      func run() throws {
        guard yes else {
          throw ControlError(
            .usage,
            "this deletes the set-aside files of \(id) permanently. Add --yes to confirm.")
        }
        let answer = try options.connect().call(
          Methods.RemoveSetAside.self, SetAsideRequest(id: id))
        if options.json { return try Terminal.printJSON(answer) }
        options.say("Deleted \(id).")
      }
    }

    struct Add: ParsableCommand {
      static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Set aside the local files of a container.",
        discussion: """
          Use it for a container that the backend no longer has and has no deletion record of. A \
          later mount of that name creates a new container.
          """)
      @Argument(help: "The container's name.") var id: String
      @OptionGroup var options: GlobalOptions

      func run() throws {
        try ContainerCommand.checkName(id)
        let entry = try options.connect().call(
          Methods.AddSetAside.self, ContainerRequest(id: id))
        if options.json { return try Terminal.printJSON(entry) }
        options.say("Set aside as \(entry.id), in \(entry.directory).")
      }
    }
  }
}
