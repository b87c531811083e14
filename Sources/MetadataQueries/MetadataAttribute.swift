package import ControlProtocol
package import Model

/// An attribute that a predicate compares and that a result has: the status attributes of
/// `ItemSyncStatus`, and those of names, sizes and times below.
///
/// Sources: Apple's `NSMetadataItem` keys; CONTRACT, "Extended attributes".
package struct MetadataAttribute: Sendable {
  package enum Kind: Sendable {
    case text
    case number
    case flag
    case date
  }

  /// The short name, as in `status --json`.
  package let key: String
  package let kind: Kind
  /// The name and the value of Apple's constant for it. Nil: it is ours alone.
  package let constant: (name: String, value: String)?
  /// All values, where these are few.
  package let choices: [String]?
  /// Known from an item's row, without a look at the log and at transfers.
  package let isPlain: Bool
  /// The value of an item that a query found, as the daemon compared it.
  package let value: @Sendable (QueryItem) -> MetadataValue
  private let ofStatus: (@Sendable (ItemSyncStatus) -> MetadataValue)?

  private init(
    _ key: String, _ kind: Kind, constant: (name: String, value: String)? = nil,
    choices: [String]? = nil, isPlain: Bool = true,
    value: @escaping @Sendable (QueryItem) -> MetadataValue
  ) {
    self.key = key
    self.kind = kind
    self.constant = constant
    self.choices = choices
    self.isPlain = isPlain
    self.value = value
    ofStatus = nil
  }

  /// An attribute that is computed from the status.
  private init(
    _ key: String, _ kind: Kind, apple: String?, choices: [String]? = nil, isPlain: Bool = false,
    status: @escaping @Sendable (ItemSyncStatus) -> MetadataValue
  ) {
    self.key = key
    self.kind = kind
    constant = apple.map { ($0, $0) }
    self.choices = choices
    self.isPlain = isPlain
    value = { status($0.status) }
    ofStatus = status
  }

  private init(_ attribute: StatusAttribute) {
    let kind: Kind =
      switch attribute.kind {
      case .text: .text
      case .number: .number
      case .flag: .flag
      }
    self.init(
      attribute.name, kind, apple: attribute.apple, choices: attribute.choices,
      isPlain: attribute.isPlain
    ) { status in
      switch attribute.value(status) {
      case .text(let text): .text(text)
      case .number(let number): .integer(Int64(clamping: number))
      case .flag(let flag): .flag(flag)
      case nil: .null
      }
    }
  }

  /// The value by an item's status. Nil: the attribute is none of the status.
  package func value(of status: ItemSyncStatus) -> MetadataValue? { ofStatus?(status) }

  // MARK: The attributes

  package static let name = MetadataAttribute(
    "name", .text, constant: ("NSMetadataItemFSNameKey", "kMDItemFSName")
  ) { .text($0.name) }
  package static let displayName = MetadataAttribute(
    "displayName", .text, constant: ("NSMetadataItemDisplayNameKey", "kMDItemDisplayName")
  ) { .text($0.name) }
  package static let path = MetadataAttribute(
    "path", .text, constant: ("NSMetadataItemPathKey", "kMDItemPath")
  ) { .text($0.path.description) }
  package static let url = MetadataAttribute(
    "url", .text, constant: ("NSMetadataItemURLKey", "kMDItemURL")
  ) { .text($0.path.description) }
  package static let kind = MetadataAttribute(
    "kind", .text,
    choices: [
      "file", "directory", "symbolicLink", "fifo", "socket", "characterDevice", "blockDevice",
    ]
  ) { .text($0.kind) }
  package static let size = MetadataAttribute(
    "size", .number, constant: ("NSMetadataItemFSSizeKey", "kMDItemFSSize")
  ) { .integer(Int64(clamping: $0.size)) }
  package static let created = MetadataAttribute(
    "created", .date, constant: ("NSMetadataItemFSCreationDateKey", "kMDItemFSCreationDate")
  ) { DateText.nanoseconds($0.created).map { .date($0) } ?? .null }
  package static let modified = MetadataAttribute(
    "modified", .date,
    constant: ("NSMetadataItemFSContentChangeDateKey", "kMDItemFSContentChangeDate")
  ) { DateText.nanoseconds($0.modified).map { .date($0) } ?? .null }
  package static let isUbiquitous = MetadataAttribute(
    "isUbiquitous", .flag, apple: "NSMetadataItemIsUbiquitousKey", isPlain: true
  ) { .flag(!$0.isExcludedFromSync) }
  package static let isDownloadRequested = MetadataAttribute(
    "isDownloadRequested", .flag, apple: "NSMetadataUbiquitousItemDownloadRequestedKey"
  ) { .flag($0.isDownloading || $0.downloadingStatus != .notDownloaded) }
  package static let isDownloaded = MetadataAttribute(
    "isDownloaded", .flag, apple: "NSMetadataUbiquitousItemIsDownloadedKey"
  ) { .flag($0.downloadingStatus != .notDownloaded) }
  package static let containerDisplayName = MetadataAttribute(
    "containerDisplayName", .text, apple: "NSMetadataUbiquitousItemContainerDisplayNameKey",
    isPlain: true
  ) { .text($0.container) }

  private static let ofStatus: [MetadataAttribute] = ItemSyncStatus.attributes
    .filter { !$0.comparesNames }.map { MetadataAttribute($0) }

  package static let allCases: [MetadataAttribute] =
    [name, displayName, path, url, kind, size, created, modified, isUbiquitous]
    + [isDownloadRequested, isDownloaded, containerDisplayName] + ofStatus

  /// By its short name, or by the name or the value of Apple's constant.
  package init?(named name: String) {
    guard let found = Self.byName[name] else { return nil }
    self = found
  }

  private static let byName: [String: MetadataAttribute] = {
    var result: [String: MetadataAttribute] = [:]
    for attribute in allCases {
      result[attribute.key] = attribute
      guard let constant = attribute.constant else { continue }
      result[constant.name] = attribute
      result[constant.value] = attribute
    }
    return result
  }()

  private static let downloadingStatus = "downloadingStatus"

  /// The beginning of Apple's constants for its values, before the value in upper case.
  var choicePrefix: String? { key == Self.downloadingStatus ? Self.statusPrefix : nil }

  /// That of `downloadingStatus`.
  static let statusPrefix = "NSMetadataUbiquitousItemDownloadingStatus"
}

extension MetadataAttribute: Hashable {
  package static func == (one: MetadataAttribute, other: MetadataAttribute) -> Bool {
    one.key == other.key
  }

  package func hash(into hasher: inout Hasher) { hasher.combine(key) }
}

/// A value of an attribute, or one that it is compared with.
package enum MetadataValue: Hashable, Sendable {
  case text(String)
  case integer(Int64)
  /// Never one that is not finite.
  case number(Double)
  case flag(Bool)
  /// Nanoseconds since 1970, as in `Timestamp.nanoseconds`.
  case date(Int64)
  /// There is none.
  case null
}
