internal import SystemPackage

/// What `ubiquityfs run` leaves in the environment of the command that it runs, and so of what that
/// starts.
package enum DownloadMark {
  package static let variable = "UBIQUITYFS_DOWNLOAD"

  package static func text(_ access: DownloadAccess) -> String? {
    switch access {
    case .allow: nil
    case .rangeOnly: "range-only"
    case .deny(let errno):
      "deny:" + (DownloadAccess.errors.first { $0.value == errno }?.key ?? "EPERM")
    }
  }

  /// What is not understood may be a later version's, and is taken for the most careful.
  package static func access(_ text: String) -> DownloadAccess {
    let parts = text.split(separator: ":", maxSplits: 1)
    switch parts.first {
    case nil, "allow": return .allow
    case "range-only": return .rangeOnly
    default: return .deny(parts.last.flatMap { DownloadAccess.errors[String($0)] } ?? .notPermitted)
    }
  }
}
