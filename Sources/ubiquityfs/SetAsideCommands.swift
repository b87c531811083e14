internal import ArgumentParser
internal import ControlProtocol
internal import Daemon
internal import DaemonClient

extension ContainerCommand {
  struct SetAside: ParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "set-aside",
      abstract: "What this device keeps of containers that were deleted on another device.",
      discussion: """
        When a container was deleted on another device, this device keeps what it has of it: with the next mount of \
        that name, its files are set aside, among them changes that were not uploaded. They stay until \
        `container set-aside remove`.
        """,
      subcommands: [List.self, Restore.self, Remove.self, Add.self], defaultSubcommand: List.self)

    @OptionGroup var options: GlobalOptions

    struct List: ParsableCommand {
      static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List what was set aside.")
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
                "\(entry.placeholders) without content", "\(entry.pendingUploads) not uploaded",
                entry.reason ?? "",
              ]
            }))
      }
    }

    struct Restore: ParsableCommand {
      static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Copy what was set aside into a directory.",
        discussion: """
          Names, directories, links, modes, times and attributes come with the content. What was set aside stays. \
          Files whose content was not on this device are listed.

          Items that cannot be copied are listed with the reason, everything else is \
          copied, and the exit status is 1. Put the cause right and run the command again \
          with --continue: it copies the missing items, and replaces none.
          """)
      @Argument(help: "As `container set-aside list` has it.") var id: String
      @Argument(
        help: "A directory that does not exist or is empty; without it, one of that name here.",
        completion: .directory)
      var directory: String?
      @Flag(
        name: .customLong("continue"),
        help: "The directory has a part already: copy only missing items.")
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
            "\(result.failed) items of \(id) were not copied to \(result.directory), and all "
              + "others are there; put the causes right and run the command again with --continue")
        }
      }

      private func show(_ result: RestoredSetAside) {
        for path in result.placeholders { Terminal.line("without content  \(path)") }
        if result.unlisted > 0 { Terminal.line("and \(result.unlisted) more without content") }
        for failure in result.failures {
          Terminal.line("not copied  \(failure.path): \(failure.reason)")
        }
        let rest = result.failed - UInt64(result.failures.count)
        if rest > 0 { Terminal.line("and \(rest) more not copied") }
        options.say(
          "Restored \(result.files) files (\(Terminal.size(result.bytes))) to \(result.directory)."
            + (result.kept > 0 ? " \(result.kept) were there already." : ""))
      }
    }

    struct Remove: ParsableCommand {
      static let configuration = CommandConfiguration(
        commandName: "remove", abstract: "Remove what was set aside, for good.")
      @Argument(help: "As `container set-aside list` has it.") var id: String
      @Flag(help: "Yes, remove it.") var yes = false
      @OptionGroup var options: GlobalOptions

      func run() throws {
        guard yes else {
          throw ControlError(
            .usage,
            "this removes what is left of \(id) on this device, for good; add --yes to do it")
        }
        let answer = try options.connect().call(
          Methods.RemoveSetAside.self, SetAsideRequest(id: id))
        if options.json { return try Terminal.printJSON(answer) }
        options.say("Removed \(id).")
      }
    }

    struct Add: ParsableCommand {
      static let configuration = CommandConfiguration(
        commandName: "add", abstract: "Set aside what this device has of a container.",
        discussion: """
          For a container that the backend no longer has, although nothing there says that it was deleted. Mounting it \
          afterwards makes a new one.
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
