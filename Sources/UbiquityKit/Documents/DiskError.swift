internal import Foundation
internal import Glibc

/// A failed system call as Foundation's own methods report one.
enum DiskError {
  /// Of the call that has just failed.
  static func current(_ url: URL) -> NSError { from(errno, url) }

  static func from(_ code: Int32, _ url: URL) -> NSError {
    let cocoa =
      switch code {
      case ENOENT, ENOTDIR: CoordinationError.noSuchFile
      case EACCES, EPERM: CoordinationError.writeNoPermission
      case EROFS: 642
      case ENOSPC, EDQUOT: 640
      case EEXIST: 516
      case ENAMETOOLONG: 514
      case ENETDOWN: CoordinationError.ubiquitousFileUnavailable
      case ETIMEDOUT: CoordinationError.ubiquityServerNotAvailable
      default: CoordinationError.writeUnknown
      }
    let underlying = NSError(domain: NSPOSIXErrorDomain, code: Int(code))
    return NSError(
      domain: NSCocoaErrorDomain, code: cocoa,
      userInfo: [
        NSLocalizedDescriptionKey: "\(url.path): \(String(cString: strerror(code)))",
        NSFilePathErrorKey: url.path, NSUnderlyingErrorKey: underlying,
      ])
  }
}
