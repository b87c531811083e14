internal import ControlProtocol
internal import Foundation
internal import Glibc
internal import Platform
internal import SystemPackage

/// What a container says of an item, as the item's `user.ubiquity.status` attribute has it.
struct ItemState: Sendable, Decodable {
  var downloadingStatus: String
  var isDownloading: Bool
  var isUploading: Bool
  var isUploaded: Bool
  var hasUnresolvedConflicts: Bool
  var isExcludedFromSync: Bool
  var percentDownloaded: Int
  var percentUploaded: Int
  var downloadingError: String?
  var uploadingError: String?
  var version: String?
  var container: String

  private static let status = "user.ubiquity.status"
  /// Costs less.
  static let container = "user.ubiquity.container"

  /// Nil for what is in no container. Reads one attribute of the item: no socket, no network. Of
  /// symbolic links and FIFOs, which the kernel gives no attributes of users, the daemon is asked.
  static func of(_ url: URL) throws(CocoaError) -> ItemState? {
    switch try attribute(status, of: url) {
    case .value(let value): return try? BoundedJSON.decode(ItemState.self, from: value)
    case .none: return nil
    case .noAttributes: break
    }
    guard let item = try? ItemCalls.locate(url, .reading), !VersionsPlace.contains(item) else {
      return nil
    }
    return try ItemCalls.call(
      Methods.ItemStatus.self, ItemsRequest(items: [item]), .reading, at: url
    ).items.first.map(ItemState.init)
  }

  enum Attribute {
    case value([UInt8])
    /// It is in no container.
    case none
    /// The kernel gives it none.
    case noAttributes
  }

  static func attribute(_ name: String, of url: URL) throws(CocoaError) -> Attribute {
    let path = try ItemCalls.path(url)
    do throws(Errno) {
      let status = try path.status()
      let kind = status.st_mode & S_IFMT
      guard kind == S_IFREG || kind == S_IFDIR else { return .noAttributes }
      guard let value = try path.attribute(name) else { return .none }
      // On another file system anyone could have written that.
      let isOurs = ContainerDevices.contain(status) {
        (try? ItemCalls.locate(url, .reading)) != nil
      }
      return isOurs ? .value(value) : .none
    } catch {
      throw UbiquityErrors.cocoa(error, .reading, at: url)
    }
  }

  private init(_ report: ItemReport) {
    downloadingStatus = report.downloadingStatus.rawValue
    isDownloading = report.isDownloading
    isUploading = report.isUploading
    isUploaded = report.isUploaded
    hasUnresolvedConflicts = report.hasUnresolvedConflicts
    isExcludedFromSync = report.isExcludedFromSync
    percentDownloaded = report.percentDownloaded
    percentUploaded = report.percentUploaded
    downloadingError = report.downloadingError
    uploadingError = report.uploadingError
    version = report.version
    container = report.container
  }
}
