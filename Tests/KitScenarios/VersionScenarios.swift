import Foundation
import TestWaiting
import UbiquityKit

/// Versions of documents. A call of the library each where a script says when, and the ways in
/// which the iCloud Design Guide has conflicts resolved.
enum VersionScenarios {
  static let scenarios: [String: ScenarioCommand.Scenario] = [
    "versions": { arguments in try list(ScenarioCommand.url(arguments[0])) },
    "nonlocal-versions": { arguments in try await nonlocal(ScenarioCommand.url(arguments[0])) },
    "find-version": { arguments in
      let version = NSFileVersion.version(
        itemAt: ScenarioCommand.url(arguments[0]), forPersistentIdentifier: arguments[1])
      print(
        try version.map { try String(contentsOf: $0.url, encoding: .utf8) } ?? "no such version")
    },
    "keep-current": { arguments in
      await ScenarioCommand.printingCode { try keepCurrent(ScenarioCommand.url(arguments[0])) }
    },
    "keep-other": { arguments in
      await ScenarioCommand.printingCode { try keepOther(ScenarioCommand.url(arguments[0])) }
    },
    "keep-both": { arguments in
      await ScenarioCommand.printingCode { try keepBoth(ScenarioCommand.url(arguments[0])) }
    },
    "mark": { arguments in
      await ScenarioCommand.printingCode {
        try conflict(arguments[0]).setResolved(arguments[1] == "resolved")
      }
    },
    "set-resolved": { arguments in
      let version = try conflict(arguments[0])
      version.isResolved = true
      print(version.isResolved)
    },
    "remove-version": { arguments in
      await ScenarioCommand.printingCode { try conflict(arguments[0]).remove() }
    },
    "remove-current": { arguments in
      await ScenarioCommand.printingCode {
        try NSFileVersion.currentVersionOfItem(at: ScenarioCommand.url(arguments[0]))?.remove()
      }
    },
    "remove-others": { arguments in
      await ScenarioCommand.printingCode {
        try NSFileVersion.removeOtherVersionsOfItem(at: ScenarioCommand.url(arguments[0]))
      }
    },
    // Looks at the versions, says so with a file, and replaces the document when another file is
    // there.
    "replace-late": { arguments in
      let version = try conflict(arguments[0])
      FileManager.default.createFile(atPath: arguments[1] + ".listed", contents: nil)
      try await eventually("the file \"\(arguments[1])\" is there") {
        FileManager.default.fileExists(atPath: arguments[1])
      }
      await ScenarioCommand.printingCode {
        _ = try version.replaceItem(at: ScenarioCommand.url(arguments[0]))
      }
    },
    "replace": { arguments in
      await ScenarioCommand.printingCode {
        let target = ScenarioCommand.url(arguments[1])
        let place = try conflict(arguments[0]).replaceItem(
          at: target, options: arguments.count > 2 ? .byMoving : [])
        try expect(place == target, "it went to \(place)")
      }
    },
  ]

  private static func conflict(_ path: String) throws -> NSFileVersion {
    guard let first = NSFileVersion.otherVersionsOfItem(at: ScenarioCommand.url(path))?.first else {
      throw Unexpected(description: "no other version")
    }
    return first
  }

  /// A line for each version: what it is, who saved it, its seconds, its identifier and its bytes.
  private static func list(_ url: URL) throws {
    guard let current = NSFileVersion.currentVersionOfItem(at: url),
      let others = NSFileVersion.otherVersionsOfItem(at: url),
      let unresolved = NSFileVersion.unresolvedConflictVersionsOfItem(at: url)
    else { return print("no document") }
    try expect(current.url == url && !current.isConflict && current.isResolved)
    try expect(others.filter { !$0.isResolved } == unresolved, "others and unresolved differ")
    for version in [current] + others {
      try expect(version.localizedName == url.lastPathComponent && !version.isDiscardable)
      let found = NSFileVersion.version(
        itemAt: url, forPersistentIdentifier: version.persistentIdentifier)
      try expect(found == version, "\(version) is not found by its identifier")
      let kind =
        version === current ? "current" : version.isResolved ? "resolved" : "unresolved"
      print(
        kind, version.localizedNameOfSavingComputer ?? "-",
        Int(version.modificationDate?.timeIntervalSince1970 ?? 0),
        "\(version.persistentIdentifier)", version.hasLocalContents ? "here" : "elsewhere")
    }
  }

  private static func nonlocal(_ url: URL) async throws {
    let found = try await NSFileVersion.nonlocalVersionsOfItem(at: url)
    let told: [NSFileVersion] = try await withCheckedThrowingContinuation { continuation in
      NSFileVersion.getNonlocalVersionsOfItem(at: url) { versions, error in
        continuation.resume(with: error.map { .failure($0) } ?? .success(versions ?? []))
      }
    }
    try expect(found == told, "\(found) and \(told)")
    print(found.count)
  }

  // MARK: iCloud Design Guide, "App Responsibilities for Using iCloud Documents", on conflicts

  /// The one that was nominated is accepted. What is left behind would take storage.
  private static func keepCurrent(_ url: URL) throws {
    for version in NSFileVersion.unresolvedConflictVersionsOfItem(at: url) ?? [] {
      version.isResolved = true
      try expect(version.isResolved, "\(version) could not be marked")
    }
    try NSFileVersion.removeOtherVersionsOfItem(at: url)
  }

  /// It is overridden by the latest of the others.
  private static func keepOther(_ url: URL) throws {
    guard let winner = NSFileVersion.unresolvedConflictVersionsOfItem(at: url)?.first else {
      throw Unexpected(description: "no conflict")
    }
    try winner.replaceItem(at: url)
    try keepCurrent(url)
  }

  /// Both are documents afterwards.
  private static func keepBoth(_ url: URL) throws {
    for version in NSFileVersion.unresolvedConflictVersionsOfItem(at: url) ?? [] {
      let name = url.deletingPathExtension().lastPathComponent
      let beside = url.deletingLastPathComponent().appendingPathComponent(
        "\(name) of \(version.localizedNameOfSavingComputer ?? "another").\(url.pathExtension)")
      try version.replaceItem(at: beside, options: .byMoving)
    }
  }
}
