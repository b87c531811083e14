import ArgumentParser
import Foundation
import Testing

@testable import ubiquityfs

/// All texts of the command line in one file each, so that a change of wording is reviewed beside
/// all others. After an intended change: `UBIQUITYFS_UPDATE_GOLDEN=1 swift test --filter Golden`.
@Suite struct GoldenTests {
  @Test("the help texts of all commands are those of Golden/help.txt")
  func helpTexts() throws {
    try Golden.check(Self.help(of: UbiquityCommand.self, "ubiquityfs"), "help.txt")
  }

  private static func help(of command: any ParsableCommand.Type, _ name: String) -> String {
    let text = UbiquityCommand.helpMessage(for: command, columns: 100)
    let own = "=== \(name)\n\n\(text)\n"
    let subcommands = command.configuration.subcommands.sorted { $0._commandName < $1._commandName }
    return own
      + subcommands.map { help(of: $0, "\(name) \($0._commandName)") }.joined(separator: "\n")
  }

  @Test("no line of help has a trailing blank or more than 100 columns")
  func helpWidth() {
    let text = Self.help(of: UbiquityCommand.self, "ubiquityfs")
    for line in text.split(separator: "\n") {
      #expect(line.count <= 100 && !line.hasSuffix(" "), "\(line)")
    }
  }
}

enum Golden {
  private static var directory: URL {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().appendingPathComponent("Golden")
  }

  /// Compares a text with the committed file of that name.
  static func check(_ text: String, _ name: String) throws {
    let file = directory.appendingPathComponent(name)
    if ProcessInfo.processInfo.environment["UBIQUITYFS_UPDATE_GOLDEN"] != nil {
      try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
      try Data(text.utf8).write(to: file)
      return
    }
    let expected = try String(contentsOf: file, encoding: .utf8)
    guard text != expected else { return }
    let (new, old) = (text.split(separator: "\n"), expected.split(separator: "\n"))
    let removed = Set(old).subtracting(new)
    let added = Set(new).subtracting(old)
    Issue.record(
      """
      the texts differ from \(name). Review them, then set UBIQUITYFS_UPDATE_GOLDEN=1.
      \(removed.prefix(10).map { "- \($0)" }.joined(separator: "\n"))
      \(added.prefix(10).map { "+ \($0)" }.joined(separator: "\n"))
      """)
  }
}
