internal import ArgumentParser
internal import ControlProtocol
internal import Glibc

@main
struct UbiquityCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ubiquityfs",
    abstract: "iCloud-style ubiquity containers as Linux mounts.",
    discussion: """
      A container is a directory that is the same on all devices of an account. What other \
      devices put into it is there by name at once, and by content when it is opened.

      First steps:
        ubiquityfs account sign-in
        ubiquityfs mount iCloud.org.example.demo ~/Ubiquity
      """,
    subcommands: [
      AccountCommand.self, ContainerCommand.self, MountCommand.self, UnmountCommand.self,
      StatusCommand.self, EvictCommand.self, DownloadCommand.self, PinCommand.self,
      UnpinCommand.self, PolicyCommand.self, SyncCommand.self, OfflineCommand.self,
      LimitCommand.self, MeteredCommand.self, VersionsCommand.self, TrashCommand.self,
      StorageCommand.self, StoreCommand.self, CoordinateCommand.self, RunCommand.self,
      EventsCommand.self,
      QueryCommand.self,
      LogCommand.self, DoctorCommand.self, FsckCommand.self, VersionCommand.self,
      DaemonCommand.self, CompletionCommand.self,
    ])

  @OptionGroup var options: GlobalOptions

  func run() throws { throw ValidationError("Name a command; --help lists them.") }

  static func main() {
    // A reader that goes away early, as in `| head`, ends a command by an error of its write.
    _ = ChildProcess.ignoredPipe
    Glibc.exit(run(Array(CommandLine.arguments.dropFirst())))
  }

  /// Runs a command line; gives its exit status.
  static func run(_ arguments: [String]) -> Int32 {
    let line = CommandTail.split(arguments)
    return CommandTail.$command.withValue(line.command) { runParsed(line.parsed) }
  }

  private static func runParsed(_ arguments: [String]) -> Int32 {
    do {
      var command = try parseAsRoot(arguments)
      try command.run()
      return ExitStatus.done.rawValue
    } catch let error as ControlError {
      complain(error.message)
      return error.status.rawValue
    } catch let code as ExitCode {
      return code.rawValue
    } catch {
      if exitCode(for: error).isSuccess {
        Terminal.line(fullMessage(for: error))
        return ExitStatus.done.rawValue
      }
      if let first = arguments.first, !first.hasPrefix("-"), first != "help",
        !names.contains(first)
      {
        complain("there is no command “\(first)”; `ubiquityfs --help` lists them")
        return ExitStatus.usage.rawValue
      }
      complain(message(for: error))
      // All that the parser refuses is wrong usage, which is 2 here and 64 there.
      let lines = fullMessage(for: error).split(separator: "\n", omittingEmptySubsequences: false)
      if let usage = lines.firstIndex(where: { $0.hasPrefix("Usage:") }) {
        writeError(lines[usage...].joined(separator: "\n"))
      }
      return ExitStatus.usage.rawValue
    }
  }

  /// Of all commands.
  static var names: [String] {
    configuration.subcommands.flatMap {
      [$0.configuration.commandName ?? ""] + $0.configuration.aliases
    }
  }

  static func complain(_ message: String) { writeError("ubiquityfs: \(message)") }

  static func writeError(_ text: String) { Terminal.error(text + "\n") }
}
