import Foundation
import UbiquityKit

/// Versions of documents.
enum VersionScenarios {
  static let scenarios: [String: ScenarioCommand.Scenario] = [:]
}
