internal import ControlProtocol
public import Foundation
internal import MetadataQueries
internal import Platform

/// An item that a metadata query found.
///
/// It stays the same object as long as the query finds the item, through renames too; its values
/// are those of the query's last notification. Any thread may ask.
open class NSMetadataItem: NSObject, @unchecked Sendable {
  private let state: Lock<QueryItem>

  init(_ item: QueryItem) { state = Lock(item) }

  var report: QueryItem { state.withLock { $0 } }

  func update(_ item: QueryItem) { state.withLock { $0 = item } }

  /// The value of an attribute, of which the documentation of its key says what it is; nil where
  /// there is none, and of an attribute that items do not have.
  open func value(forAttribute key: String) -> Any? {
    guard let attribute = MetadataAttribute(named: key) else { return nil }
    let item = report
    switch (attribute.key, attribute.value(item)) {
    case (_, .null): return nil
    case ("url", _):
      return URL(fileURLWithPath: item.path.description, isDirectory: item.kind == "directory")
    case ("downloadingStatus", .text(let status)):
      return "NSMetadataUbiquitousItemDownloadingStatus" + status.prefix(1).uppercased()
        + status.dropFirst()
    case ("downloadingError", .text(let text)), ("uploadingError", .text(let text)):
      // Source of the codes: `NSUbiquitousFileUnavailableError`,
      // `NSUbiquitousFileUbiquityServerNotAvailable`.
      return NSError(
        domain: NSCocoaErrorDomain, code: attribute.key == "downloadingError" ? 4353 : 4355,
        userInfo: [NSLocalizedDescriptionKey: text])
    case (_, .text(let text)): return text
    case ("percentDownloaded", .integer(let value)), ("percentUploaded", .integer(let value)):
      return NSNumber(value: Double(value))
    case (_, .integer(let value)): return NSNumber(value: value)
    case (_, .number(let value)): return NSNumber(value: value)
    case (_, .flag(let value)): return NSNumber(value: value)
    case (_, .date):
      return attribute.value(item).secondsSince1970.map { Date(timeIntervalSince1970: $0) }
    }
  }

  /// The values of those attributes that have one.
  open func values(forAttributes keys: [String]) -> [String: Any]? {
    var result: [String: Any] = [:]
    for key in keys { result[key] = value(forAttribute: key) }
    return result
  }

  /// The attributes that have a value, by the values of Apple's constants or, where there is none,
  /// by their short names.
  open var attributes: [String] {
    let item = report
    return MetadataAttribute.allCases.filter { $0.value(item) != .null }
      .map { $0.constant?.value ?? $0.key }
  }
}
