internal import ArgumentParser

/// What stands behind `--` of the command line that is being run. The parser has no two lists
/// beside each other, so it is taken off before it parses.
enum CommandTail {
  @TaskLocal static var command: [String] = []

  /// Those that run another command.
  private static var names: Set<String> {
    Set([CoordinateCommand.configuration, RunCommand.configuration].compactMap(\.commandName))
  }

  /// A command line of theirs in two: what is parsed, and the command behind `--`.
  static func split(_ arguments: [String]) -> (parsed: [String], command: [String]) {
    guard let end = arguments.firstIndex(of: "--"),
      let name = arguments[..<end].first(where: { UbiquityCommand.names.contains($0) }),
      names.contains(name)
    else { return (arguments, []) }
    return (Array(arguments[..<end]), Array(arguments[(end + 1)...]))
  }

  static func check() throws {
    guard !command.isEmpty else { throw ValidationError("Say what to run after “--”.") }
  }
}
