internal import ControlProtocol
internal import Foundation
internal import Glibc
internal import SystemPackage

/// Errors of the daemon and of the system as programs know them: Cocoa's codes, with the message
/// for people in `NSLocalizedDescriptionKey`.
enum UbiquityErrors {
  /// What was tried, where one code would not say it.
  enum Doing {
    case reading, writing, downloading
  }

  static func cocoa(_ error: ControlError, _ doing: Doing, at url: URL?) -> CocoaError {
    let code: CocoaError.Code =
      switch (error.status, doing) {
      case (.timedOut, .downloading), (.failed, .downloading): .ubiquitousFileUnavailable
      case (.offline, _), (.timedOut, _): .ubiquitousFileUbiquityServerNotAvailable
      case (.notFound, .writing): .fileNoSuchFile
      case (.notFound, _): .fileReadNoSuchFile
      case (.busy, _): .fileLocking
      case (.notPermitted, .writing): .fileWriteNoPermission
      case (.notPermitted, _): .fileReadNoPermission
      case (.usage, _): .featureUnsupported
      case (_, .writing): .fileWriteUnknown
      default: .fileReadUnknown
      }
    return cocoa(code, error.message, at: url)
  }

  static func cocoa(_ error: Errno, _ doing: Doing, at url: URL?) -> CocoaError {
    let code: CocoaError.Code =
      switch error {
      case .noSuchFileOrDirectory, .notDirectory:
        doing == .writing ? .fileNoSuchFile : .fileReadNoSuchFile
      case .fileExists, .directoryNotEmpty: .fileWriteFileExists
      case .permissionDenied, .notPermitted:
        doing == .writing ? .fileWriteNoPermission : .fileReadNoPermission
      case .noSpace, Errno(rawValue: EDQUOT): .fileWriteOutOfSpace
      case .fileNameTooLong: .fileWriteInvalidFileName
      case .readOnlyFileSystem: .fileWriteVolumeReadOnly
      case .networkDown: .ubiquitousFileUbiquityServerNotAvailable
      case .timedOut, .staleNFSFileHandle: .ubiquitousFileUnavailable
      case .resourceBusy: .fileLocking
      default: doing == .writing ? .fileWriteUnknown : .fileReadUnknown
      }
    let below = NSError(domain: NSPOSIXErrorDomain, code: Int(error.rawValue))
    return cocoa(code, "\(error)", at: url, below: below)
  }

  static func missing(_ url: URL) -> CocoaError {
    cocoa(.fileReadNoSuchFile, "\(url.path): no such file or directory", at: url)
  }

  static var cancelled: CocoaError {
    cocoa(.userCancelled, "the access was cancelled while it waited", at: nil)
  }

  static func cocoa(
    _ code: CocoaError.Code, _ message: String, at url: URL?, below: NSError? = nil
  ) -> CocoaError {
    var info: [String: Any] = [NSLocalizedDescriptionKey: message]
    if let url {
      info[NSURLErrorKey] = url
      info[NSFilePathErrorKey] = url.path
    }
    if let below { info[NSUnderlyingErrorKey] = below }
    return CocoaError(code, userInfo: info)
  }

  /// What went wrong with an item's content on its way, as its status has it in words.
  static func transfer(_ message: String?, isUpload: Bool, at url: URL) -> NSError? {
    guard let message else { return nil }
    let isFull = message.contains(Errno.noSpace.description) || message.contains("quota")
    let isOffline = message.contains("offline") || message.contains("cannot be reached")
    let code: CocoaError.Code =
      if isUpload {
        isFull ? .ubiquitousFileNotUploadedDueToQuota : .ubiquitousFileUbiquityServerNotAvailable
      } else {
        isOffline ? .ubiquitousFileUbiquityServerNotAvailable : .ubiquitousFileUnavailable
      }
    return cocoa(code, message, at: url) as NSError
  }
}
