/// What can be asked of an item, and what a result tells.
///
/// The raw value is the short name, as in `status --json`. Source of the others: Apple's
/// `NSMetadataItem` keys and the attributes of items in iCloud; CONTRACT, "Extended attributes".
package enum MetadataAttribute: String, CaseIterable, Hashable, Sendable {
  case name
  case displayName
  case path
  case url
  case kind
  case size
  case created
  case modified
  case isUbiquitous
  case downloadingStatus
  case isDownloadRequested
  case isDownloading
  case isDownloaded
  case percentDownloaded
  case downloadingError
  case isUploaded
  case isUploading
  case percentUploaded
  case uploadingError
  case hasUnresolvedConflicts
  case containerDisplayName
  case isExcludedFromSync
  case isPinned
  case isPackage
  case version
  case itemIdentifier
  case container

  package enum Kind: Sendable {
    case text
    case number
    case flag
    case date
  }

  package var kind: Kind {
    switch self {
    case .size, .percentDownloaded, .percentUploaded: .number
    case .created, .modified: .date
    case .name, .displayName, .path, .url, .kind, .downloadingStatus, .downloadingError,
      .uploadingError, .containerDisplayName, .version, .itemIdentifier, .container:
      .text
    default: .flag
    }
  }

  /// The name and the value of Apple's constant for it; nil for what is ours alone.
  package var constant: (name: String, value: String)? {
    switch self {
    case .name: ("NSMetadataItemFSNameKey", "kMDItemFSName")
    case .displayName: ("NSMetadataItemDisplayNameKey", "kMDItemDisplayName")
    case .path: ("NSMetadataItemPathKey", "kMDItemPath")
    case .url: ("NSMetadataItemURLKey", "kMDItemURL")
    case .size: ("NSMetadataItemFSSizeKey", "kMDItemFSSize")
    case .created: ("NSMetadataItemFSCreationDateKey", "kMDItemFSCreationDate")
    case .modified: ("NSMetadataItemFSContentChangeDateKey", "kMDItemFSContentChangeDate")
    case .isUbiquitous: Self.same("NSMetadataItemIsUbiquitousKey")
    case .downloadingStatus: Self.same("NSMetadataUbiquitousItemDownloadingStatusKey")
    case .isDownloadRequested: Self.same("NSMetadataUbiquitousItemDownloadRequestedKey")
    case .isDownloading: Self.same("NSMetadataUbiquitousItemIsDownloadingKey")
    case .isDownloaded: Self.same("NSMetadataUbiquitousItemIsDownloadedKey")
    case .percentDownloaded: Self.same("NSMetadataUbiquitousItemPercentDownloadedKey")
    case .downloadingError: Self.same("NSMetadataUbiquitousItemDownloadingErrorKey")
    case .isUploaded: Self.same("NSMetadataUbiquitousItemIsUploadedKey")
    case .isUploading: Self.same("NSMetadataUbiquitousItemIsUploadingKey")
    case .percentUploaded: Self.same("NSMetadataUbiquitousItemPercentUploadedKey")
    case .uploadingError: Self.same("NSMetadataUbiquitousItemUploadingErrorKey")
    case .hasUnresolvedConflicts: Self.same("NSMetadataUbiquitousItemHasUnresolvedConflictsKey")
    case .containerDisplayName: Self.same("NSMetadataUbiquitousItemContainerDisplayNameKey")
    default: nil
    }
  }

  private static func same(_ name: String) -> (name: String, value: String) { (name, name) }

  /// By its short name, or by the name or the value of Apple's constant.
  package init?(named name: String) {
    guard let found = Self.byName[name] else { return nil }
    self = found
  }

  private static let byName: [String: MetadataAttribute] = {
    var result: [String: MetadataAttribute] = [:]
    for attribute in allCases {
      result[attribute.rawValue] = attribute
      guard let constant = attribute.constant else { continue }
      result[constant.name] = attribute
      result[constant.value] = attribute
    }
    return result
  }()

  /// The values that it has, where these are few.
  package var choices: [String]? {
    switch self {
    case .downloadingStatus: ["notDownloaded", "downloaded", "current"]
    case .kind:
      [
        "file", "directory", "symbolicLink", "fifo", "socket", "characterDevice", "blockDevice",
      ]
    default: nil
    }
  }

  /// What Apple's constants for its values begin with, before the value in upper case.
  var choicePrefix: String? {
    self == .downloadingStatus ? "NSMetadataUbiquitousItemDownloadingStatus" : nil
  }

  /// Known from an item's row alone, without asking how it stands to the log and to transfers.
  package var isPlain: Bool {
    switch self {
    case .name, .displayName, .path, .url, .kind, .size, .created, .modified, .isUbiquitous,
      .containerDisplayName, .isExcludedFromSync, .isPackage, .version, .itemIdentifier,
      .container:
      true
    default: false
    }
  }
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
