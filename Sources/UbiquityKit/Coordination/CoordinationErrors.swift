internal import ControlProtocol
internal import Foundation

/// What the daemon says, as the errors that Apple's methods end with. Source: Apple's documentation of
/// `CocoaError.Code`.
enum CoordinationError {
  static let noSuchFile = 4
  static let fileLocking = 255
  static let readUnknown = 256
  static let readNoPermission = 257
  static let readNoSuchFile = 260
  static let writeUnknown = 512
  static let writeNoPermission = 513
  static let userCancelled = 3072
  static let featureUnsupported = 3328
  static let ubiquitousFileUnavailable = 4353
  static let ubiquityServerNotAvailable = 4355

  static var cancelled: NSError {
    error(userCancelled, "The access was cancelled before its turn came.")
  }

  static func missing(_ url: URL) -> NSError {
    error(readNoSuchFile, "\(url.path): no such file or directory", url)
  }

  /// `reads`: of what only reads, which has codes of its own.
  static func from(_ error: ControlError, reads: Bool, _ url: URL? = nil) -> NSError {
    let code =
      switch error.status {
      case .notFound: reads ? readNoSuchFile : noSuchFile
      case .offline: ubiquitousFileUnavailable
      case .busy: fileLocking
      case .notPermitted: reads ? readNoPermission : writeNoPermission
      case .timedOut: ubiquityServerNotAvailable
      case .usage: featureUnsupported
      case .failed, .done: reads ? readUnknown : writeUnknown
      }
    return self.error(code, error.message, url)
  }

  static func error(_ code: Int, _ description: String, _ url: URL? = nil) -> NSError {
    var information: [String: Any] = [NSLocalizedDescriptionKey: description]
    if let url {
      information[NSFilePathErrorKey] = url.path
      information[NSURLErrorKey] = url
    }
    return NSError(domain: NSCocoaErrorDomain, code: code, userInfo: information)
  }
}
