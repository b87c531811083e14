internal import Foundation
internal import SystemPackage

/// `.nosync`: see `docs/semantics.md`, "What moves".
enum ExclusionByName {
  private static let suffix = ".nosync"

  static func set(_ isExcluded: Bool, of url: URL) throws(CocoaError) -> URL {
    guard let state = try ItemState.of(url) else {
      throw UbiquityErrors.cocoa(.featureUnsupported, "the item is not in a container", at: url)
    }
    let name = url.lastPathComponent
    let new: String
    if isExcluded {
      guard !state.isExcludedFromSync else { return url }
      new = name + suffix
    } else {
      guard state.isExcludedFromSync else { return url }
      new = without(name)
      guard new != name, !new.isEmpty else {
        throw UbiquityErrors.cocoa(
          .featureUnsupported,
          "a parent directory excludes the item from sync; rename that directory instead",
          at: url)
      }
    }
    let target = url.deletingLastPathComponent().appendingPathComponent(
      new, isDirectory: url.hasDirectoryPath)
    let (from, to) = (try ItemCalls.path(url), try ItemCalls.path(target))
    do throws(Errno) { try from.renameExclusively(to: to) } catch {
      throw UbiquityErrors.cocoa(error, .writing, at: error == .fileExists ? target : url)
    }
    return target
  }

  private static func without(_ name: String) -> String {
    var result = name
    while result.hasSuffix(suffix) { result.removeLast(suffix.count) }
    return result.replacingOccurrences(of: suffix + ".", with: ".")
  }
}
