internal import Backend
internal import BackendDirectory
package import BackendS3
package import ControlProtocol
internal import Platform

/// A backend as its URL names it.
package struct BackendAddress: Equatable, Sendable, CustomStringConvertible {
  package enum Place: Equatable, Sendable {
    /// Absolute.
    case directory(String)
    case bucket(S3Address)
  }

  package let place: Place
  /// Where this machine keeps a secret that it generated for the directory, so that a further state
  /// directory of the same user signs in without being given it. Only of the directory that is used
  /// where none is named: anywhere else the secret may not lie beside the data that it protects,
  /// which may be another machine's or another user's to read.
  package let keyFile: String?

  package var description: String {
    switch place {
    case .directory(let path): "file://\(path)"
    case .bucket(let address): address.description
    }
  }

  /// What a user should know of the way there; nil: nothing.
  package var warning: String? {
    guard case .bucket(let address) = place, address.base.isExposed else { return nil }
    return
      "the connection to \(address.base.authority) is not encrypted: others on the way see when and "
      + "how much you store, and can delete or hold back what you store. Your files and their names stay "
      + "sealed. Use an endpoint with https://"
  }

  /// Of a directory.
  package var path: String? {
    if case .directory(let path) = place { path } else { nil }
  }

  /// `file:///DIRECTORY`, with `%XX` for any byte, or `s3://BUCKET/PREFIX?endpoint=URL&region=R`,
  /// of which `environment` may say what is missing. Throws `usage` for what is no backend's URL.
  package init(_ url: String, environment: [String: String] = [:]) throws(ControlError) {
    keyFile = nil
    guard let colon = url.firstRange(of: "://") else {
      throw ControlError(
        .usage, "“\(url)” is no backend's URL; give one like file:///srv/ubiquityfs")
    }
    let scheme = url[..<colon.lowerBound].lowercased()
    let rest = url[colon.upperBound...]
    switch scheme {
    case "file":
      guard rest.hasPrefix("/"), let path = PercentText.decode(rest) else {
        throw ControlError(
          .usage, "“\(url)” names no absolute directory; give one like file:///srv/ubiquityfs")
      }
      place = .directory(Configuration.absolute(path))
    case "s3":
      do throws(StoreError) {
        place = .bucket(try S3Address(url, environment: environment))
      } catch {
        throw ControlError(.usage, "\(error)")
      }
    default:
      throw ControlError(
        .usage, "there is no backend \(scheme)://; give file:///DIRECTORY or s3://BUCKET/PREFIX")
    }
  }

  /// The directory `ubiquityfs-cloud` beside the state directory.
  package init(besideState state: String) {
    let path = Configuration.absolute(state + "/../ubiquityfs-cloud")
    place = .directory(path)
    keyFile = path + ".key"
  }
}
