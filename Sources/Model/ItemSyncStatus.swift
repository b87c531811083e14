/// The state of an item on this device: what is local, what is in transfer, what is uploaded.
///
/// **The one definition of status attributes.** Extended attributes, `status --json`, metadata
/// queries and their results take names, types and values from `attributes`. A new attribute is a
/// field and a row here, and its value in `Coordination/ContainerCoordinator+Items.swift`.
///
/// Source: CONTRACT, "Extended attributes"; the values of `downloadingStatus` are those of
/// `NSURLUbiquitousItemDownloadingStatusKey`.
package struct ItemSyncStatus: Hashable, Sendable, Codable {
  package enum Downloading: String, Hashable, Sendable, Codable, CaseIterable {
    case notDownloaded
    /// Local, and a newer one exists.
    case downloaded
    case current
  }

  package var downloadingStatus: Downloading
  package var isDownloading: Bool
  package var isUploading: Bool
  package var isUploaded: Bool
  package var hasUnresolvedConflicts: Bool
  package var isExcludedFromSync: Bool
  package var isPinned: Bool
  package var isPackage: Bool
  /// The name of another item in the directory differs only in case or Unicode form. Nil: the
  /// names were not compared.
  package var nameCollision: Bool?
  package var percentDownloaded: Int
  package var percentUploaded: Int
  /// The local bytes of a file or package. `st_blocks` does not tell them: a placeholder has a
  /// block so that archivers do not take it for a hole.
  package var localBytes: UInt64?
  package var downloadingError: String?
  package var uploadingError: String?
  package var version: String?
  package var itemIdentifier: String
  package var container: String
  /// The name of a directory's own policy.
  package var policy: String?

  package init(
    downloadingStatus: Downloading, isDownloading: Bool, isUploading: Bool, isUploaded: Bool,
    hasUnresolvedConflicts: Bool, isExcludedFromSync: Bool, isPinned: Bool, isPackage: Bool,
    percentDownloaded: Int, percentUploaded: Int, localBytes: UInt64?, downloadingError: String?,
    uploadingError: String?, version: String?, itemIdentifier: String, container: String,
    policy: String?
  ) {
    self.downloadingStatus = downloadingStatus
    self.isDownloading = isDownloading
    self.isUploading = isUploading
    self.isUploaded = isUploaded
    self.hasUnresolvedConflicts = hasUnresolvedConflicts
    self.isExcludedFromSync = isExcludedFromSync
    self.isPinned = isPinned
    self.isPackage = isPackage
    self.percentDownloaded = percentDownloaded
    self.percentUploaded = percentUploaded
    self.localBytes = localBytes
    self.downloadingError = downloadingError
    self.uploadingError = uploadingError
    self.version = version
    self.itemIdentifier = itemIdentifier
    self.container = container
    self.policy = policy
  }

  package static let attributes: [StatusAttribute] = [
    StatusAttribute(
      "downloadingStatus", .text, apple: "NSMetadataUbiquitousItemDownloadingStatusKey",
      choices: Downloading.allCases.map(\.rawValue)
    ) { .text($0.downloadingStatus.rawValue) },
    StatusAttribute(
      "isDownloading", .flag, apple: "NSMetadataUbiquitousItemIsDownloadingKey"
    ) { .flag($0.isDownloading) },
    StatusAttribute(
      "isUploading", .flag, apple: "NSMetadataUbiquitousItemIsUploadingKey"
    ) { .flag($0.isUploading) },
    StatusAttribute(
      "isUploaded", .flag, apple: "NSMetadataUbiquitousItemIsUploadedKey"
    ) { .flag($0.isUploaded) },
    StatusAttribute(
      "hasUnresolvedConflicts", .flag,
      apple: "NSMetadataUbiquitousItemHasUnresolvedConflictsKey"
    ) { .flag($0.hasUnresolvedConflicts) },
    StatusAttribute("isExcludedFromSync", .flag, isPlain: true) { .flag($0.isExcludedFromSync) },
    StatusAttribute("isPinned", .flag) { .flag($0.isPinned) },
    StatusAttribute("isPackage", .flag, isPlain: true) { .flag($0.isPackage) },
    StatusAttribute("nameCollision", .flag, comparesNames: true) {
      $0.nameCollision.map { .flag($0) }
    },
    StatusAttribute(
      "percentDownloaded", .number, apple: "NSMetadataUbiquitousItemPercentDownloadedKey"
    ) { .number(UInt64(max(0, $0.percentDownloaded))) },
    StatusAttribute(
      "percentUploaded", .number, apple: "NSMetadataUbiquitousItemPercentUploadedKey"
    ) { .number(UInt64(max(0, $0.percentUploaded))) },
    StatusAttribute("localBytes", .number) { $0.localBytes.map { .number($0) } },
    StatusAttribute(
      "downloadingError", .text, apple: "NSMetadataUbiquitousItemDownloadingErrorKey"
    ) { $0.downloadingError.map { .text($0) } },
    StatusAttribute(
      "uploadingError", .text, apple: "NSMetadataUbiquitousItemUploadingErrorKey"
    ) { $0.uploadingError.map { .text($0) } },
    StatusAttribute("version", .text, isPlain: true) { $0.version.map { .text($0) } },
    StatusAttribute("itemIdentifier", .text, isPlain: true) { .text($0.itemIdentifier) },
    StatusAttribute("container", .text, isPlain: true) { .text($0.container) },
    StatusAttribute("policy", .text) { $0.policy.map { .text($0) } },
  ]
}

/// One attribute of `ItemSyncStatus`, as programs see it.
package struct StatusAttribute: Sendable {
  package enum Kind: Sendable { case text, number, flag }

  package enum Value: Hashable, Sendable {
    case text(String)
    case number(UInt64)
    case flag(Bool)

    /// The text of an extended attribute.
    package var text: String {
      switch self {
      case .text(let text): text
      case .number(let number): String(number)
      case .flag(let flag): flag ? "1" : "0"
      }
    }
  }

  /// The name on the wire: in `user.ubiquity.NAME`, in JSON and in predicates.
  package let name: String
  package let kind: Kind
  /// Apple's constant for it, which is also the constant's value. Nil: it is ours alone.
  package let apple: String?
  /// All values, where these are few.
  package let choices: [String]?
  /// The value depends on the names of other items, and queries do not have it.
  package let comparesNames: Bool
  /// The value is known from the item's row, without a look at the log and at transfers.
  package let isPlain: Bool
  /// Nil: the item has no value now.
  package let value: @Sendable (ItemSyncStatus) -> Value?

  init(
    _ name: String, _ kind: Kind, apple: String? = nil, choices: [String]? = nil,
    comparesNames: Bool = false, isPlain: Bool = false,
    value: @escaping @Sendable (ItemSyncStatus) -> Value?
  ) {
    self.name = name
    self.kind = kind
    self.apple = apple
    self.choices = choices
    self.comparesNames = comparesNames
    self.isPlain = isPlain
    self.value = value
  }

  package static func named(_ name: String) -> StatusAttribute? { byName[name] }

  private static let byName = Dictionary(
    uniqueKeysWithValues: ItemSyncStatus.attributes.map { ($0.name, $0) })
}
