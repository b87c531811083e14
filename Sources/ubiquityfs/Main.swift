internal import ArgumentParser
internal import ControlProtocol
internal import Glibc

@main
struct UbiquityCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ubiquityfs",
    abstract: "Mount iCloud-style document containers on Linux.",
    discussion: """
      A container is a directory with the same content on all devices of an account. Every device \
      lists all files. A file is downloaded when a program opens it.

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

  func run() throws { throw ValidationError("name a command; `ubiquityfs --help` lists them") }

  static func main() {
    // A closed pipe, as in `| head`, ends a command by a write error instead of a signal.
    _ = ChildProcess.ignoredPipe
    Glibc.exit(run(Array(CommandLine.arguments.dropFirst())))
  }

  /// Runs a command line and returns its exit status.
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
        complain("there is no command \"\(first)\"; `ubiquityfs --help` lists all commands")
        return ExitStatus.usage.rawValue
      }
      complain(message(for: error))
      // The parser's own status for wrong usage is 64.
      let lines = fullMessage(for: error).split(separator: "\n", omittingEmptySubsequences: false)
      if let usage = lines.firstIndex(where: { $0.hasPrefix("Usage:") }) {
        writeError(lines[usage...].joined(separator: "\n"))
      }
      return ExitStatus.usage.rawValue
    }
  }

  /// The names and aliases of all commands.
  static var names: [String] {
    configuration.subcommands.flatMap {
      [$0.configuration.commandName ?? ""] + $0.configuration.aliases
    }
  }

  static func complain(_ message: String) { writeError("ubiquityfs: \(message)") }

  static func writeError(_ text: String) { Terminal.error(text + "\n") }
}
