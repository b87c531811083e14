import Foundation
import UbiquityKit

/// Programs on UbiquityKit, each a scenario of its own: `KitScenarios NAME [ARGUMENT...]`. The
/// tests run them as processes against real daemons, so that a mount that hangs hangs no test.
@main
enum ScenarioCommand {
  typealias Scenario = @Sendable ([String]) async throws -> Void

  /// Every scenario by name; one file each for what belongs together.
  static let scenarios: [String: Scenario] = [
    GuideListings.scenarios, FileScenarios.scenarios, VersionScenarios.scenarios,
    CoordinatorScenarios.all, PresenterScenarios.all, QueryScenarios.all, DocumentScenarios.all,
  ].reduce(into: [:]) { all, some in all.merge(some) { first, _ in first } }

  static func main() async {
    let arguments = CommandLine.arguments.dropFirst()
    guard let name = arguments.first, let scenario = scenarios[name] else {
      fail("usage: KitScenarios \(scenarios.keys.sorted().joined(separator: "|")) [ARGUMENT...]")
    }
    do { try await scenario(Array(arguments.dropFirst())) } catch { fail("\(name): \(error)") }
  }

  static func fail(_ message: String) -> Never {
    FileHandle.standardError.write(Data((message + "\n").utf8))
    exit(1)
  }
}

/// What a scenario expects and does not find ends it.
struct Unexpected: Error, CustomStringConvertible {
  let description: String
}

func expect(
  _ condition: Bool, _ what: @autoclosure () -> String = "", line: Int = #line,
  file: String = #fileID
) throws {
  guard condition else { throw Unexpected(description: "\(file):\(line): \(what())") }
}

extension ScenarioCommand {
  /// Seen at once by who reads this program's output.
  static func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

  static func url(_ path: String) -> URL { URL(fileURLWithPath: path) }

  /// Prints the code of the error that `body` ends with, or `done`.
  static func printingCode(_ body: () async throws -> Void) async {
    do {
      try await body()
      print("done")
    } catch let error as CocoaError {
      print("\(error.code.rawValue)")
      FileHandle.standardError.write(Data("\(error.localizedDescription)\n".utf8))
    } catch {
      print("not Cocoa's: \(error)")
    }
  }
}
