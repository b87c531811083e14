package import Backend
internal import BackendDirectory
package import ControlProtocol
internal import Platform

/// The backend of an account, as a user names it.
package struct BackendAddress: Sendable, CustomStringConvertible {
  package let location: any BackendLocation
  /// Where this machine keeps a secret that it generated, so that a further state directory of the
  /// same user signs in without being given it. Only the default backend beside the state directory
  /// has one: elsewhere the secret may not lie beside the data that it protects, which may be
  /// another machine's or another user's to read.
  package let keyFile: String?

  package var description: String { location.description }

  /// A risk that the user should know of. Nil: there is none.
  package var warning: String? { location.warning }

  /// The forms of all URLs, for messages and help texts.
  package static var forms: String { BackendKinds.forms }

  /// Reads a URL; `environment` may complete it. Throws `usage` for a URL of no backend.
  package init(_ url: String, environment: [String: String] = [:]) throws(ControlError) {
    keyFile = nil
    guard let kind = Self.kind(of: url) else {
      throw ControlError(.usage, "\"\(url)\" is not the URL of a backend; use \(Self.forms)")
    }
    do throws(StoreError) {
      location = try kind.init(url: url, environment: environment)
    } catch {
      throw ControlError(.usage, "\(error)")
    }
  }

  private static func kind(of url: String) -> (any BackendLocation.Type)? {
    guard let colon = url.firstRange(of: "://") else { return nil }
    let scheme = url[..<colon.lowerBound].lowercased()
    return BackendKinds.all.first { $0.scheme == scheme }
  }

  /// The directory `ubiquityfs-cloud` beside the state directory.
  package init(besideState state: String) {
    let directory = DirectoryLocation(path: state + "/../ubiquityfs-cloud")
    location = directory
    keyFile = directory.path + ".key"
  }

  /// The variables that a sign-in stores with an account at this backend.
  package var variables: BackendVariables { type(of: location).variables }

  /// The variables of an environment that a sign-in to `url` passes to the daemon. None for the
  /// default backend and for a URL that the daemon refuses.
  package static func variables(
    from environment: [String: String], for url: String?
  ) -> [String: String] {
    guard let url, let kind = kind(of: url) else { return [:] }
    return kind.variables.selected(from: environment)
  }
}
