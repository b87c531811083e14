internal import ControlProtocol
internal import DaemonClient
internal import Foundation

/// What a query's scopes and items say, as the daemon takes it.
struct QueryLimits {
  var scopes: [QueryScope] = []
  var within: [ItemReference]?

  /// Locates what is named by place. Of several places those that are in no mount are left out; all
  /// of them is an error.
  init(searchScopes: [Any], searchItems: [Any]?) throws(ControlError) {
    var places: [String] = []
    for scope in searchScopes {
      switch scope {
      case let text as String where text == NSMetadataQueryUbiquitousDocumentsScope:
        scopes.append(.documents)
      case let text as String where text == NSMetadataQueryUbiquitousDataScope:
        scopes.append(.data)
      case let other:
        guard let place = Self.place(other) else {
          throw ControlError(.usage, "\"\(other)\" is not a query scope")
        }
        places.append(place)
      }
    }
    for item in searchItems ?? [] {
      guard let place = Self.place(item) else {
        throw ControlError(.usage, "a query cannot search \"\(item)\"")
      }
      places.append(place)
    }
    guard !places.isEmpty else { return }
    var located: [ItemReference] = []
    var failure: ControlError?
    for place in places {
      do throws(ControlError) {
        located.append(try ItemLocator.locateFormer(PathBytes(place)))
      } catch {
        failure = error
      }
    }
    if located.isEmpty, let failure { throw failure }
    within = located
  }

  private static func place(_ value: Any) -> String? {
    switch value {
    case let url as URL where url.isFileURL: url.path
    case let path as String where path.hasPrefix("/"): path
    case let item as NSMetadataItem: item.report.path.description
    default: nil
    }
  }
}
