import Foundation
import UbiquityKit

/// A note: lines of text in a file.
final class Note: UbiquitousDocument {
  private(set) var lines: [String] = []
  /// Called when another content has come, from another program or device.
  var onArrival: (() -> Void)?
  /// Called when something went wrong.
  var onError: ((any Error) -> Void)?

  override class var formatVersion: Int { 1 }

  // What is stored.
  override func contents(forType typeName: String) throws -> Any {
    Data(lines.map { $0 + "\n" }.joined().utf8)
  }

  // What was stored, here or elsewhere.
  override func load(fromContents contents: Any, ofType typeName: String?) throws {
    guard let data = contents as? Data, let text = String(data: data, encoding: .utf8) else {
      throw CocoaError(.fileReadCorruptFile)
    }
    lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
    if lines.last == "" { lines.removeLast() }
    if !documentState.contains(.closed) { onArrival?() }
  }

  override func handleError(_ error: any Error, userInteractionPermitted: Bool) { onError?(error) }

  /// An edit. It is saved by itself, a moment later.
  func edit(_ change: (inout [String]) -> Void) {
    change(&lines)
    updateChangeCount(.done)
  }

  /// What other devices wrote that is not the note's content now.
  var otherVersions: [NSFileVersion] {
    NSFileVersion.unresolvedConflictVersionsOfItem(at: fileURL) ?? []
  }

  /// Settles the conflict: `version` is the content from now on, or what is here already.
  func keep(_ version: NSFileVersion?) async throws {
    await autosave()
    let url = fileURL
    if let version {
      let coordinator = NSFileCoordinator(filePresenter: self)
      try await coordinator.coordinate(writingItemAt: url) { _ = try version.replaceItem(at: $0) }
    }
    for version in otherVersions { version.isResolved = true }
    try NSFileVersion.removeOtherVersionsOfItem(at: url)
    await revert(toContentsOf: url)
  }
}
