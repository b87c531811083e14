internal import ArgumentParser

/// The words after `--` of the current command line. The parser cannot handle two adjacent lists of
/// arguments, so these words are split off before it runs.
enum CommandTail {
  @TaskLocal static var command: [String] = []

  /// The names of the commands that run another command.
  private static var names: Set<String> {
    Set([CoordinateCommand.configuration, RunCommand.configuration].compactMap(\.commandName))
  }

  /// Splits the command line of such a command into the arguments to parse and the command after
  /// `--`.
  static func split(_ arguments: [String]) -> (parsed: [String], command: [String]) {
    guard let end = arguments.firstIndex(of: "--"),
      let name = arguments[..<end].first(where: { UbiquityCommand.names.contains($0) }),
      names.contains(name)
    else { return (arguments, []) }
    return (Array(arguments[..<end]), Array(arguments[(end + 1)...]))
  }

  static func check() throws {
    guard !command.isEmpty else { throw ValidationError("no command to run: add -- COMMAND") }
  }
}
