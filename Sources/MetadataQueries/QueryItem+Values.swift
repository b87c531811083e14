package import ControlProtocol

extension QueryItem {
  /// The value of an attribute, as the daemon compared it.
  package func value(of attribute: MetadataAttribute) -> MetadataValue {
    switch attribute {
    case .name, .displayName: .text(name)
    case .path, .url: .text(path.description)
    case .kind: .text(kind)
    case .size: .integer(Int64(clamping: size))
    case .created: DateText.nanoseconds(created).map { .date($0) } ?? .null
    case .modified: DateText.nanoseconds(modified).map { .date($0) } ?? .null
    case .isUbiquitous: .flag(!isExcludedFromSync)
    case .downloadingStatus: .text(downloadingStatus)
    case .isDownloadRequested: .flag(isDownloading || downloadingStatus != "notDownloaded")
    case .isDownloading: .flag(isDownloading)
    case .isDownloaded: .flag(downloadingStatus != "notDownloaded")
    case .percentDownloaded: .integer(Int64(percentDownloaded))
    case .downloadingError: downloadingError.map { .text($0) } ?? .null
    case .isUploaded: .flag(isUploaded)
    case .isUploading: .flag(isUploading)
    case .percentUploaded: .integer(Int64(percentUploaded))
    case .uploadingError: uploadingError.map { .text($0) } ?? .null
    case .hasUnresolvedConflicts: .flag(hasUnresolvedConflicts)
    case .isExcludedFromSync: .flag(isExcludedFromSync)
    case .isPinned: .flag(isPinned)
    case .isPackage: .flag(isPackage)
    case .version: version.map { .text($0) } ?? .null
    case .itemIdentifier: .text(itemIdentifier)
    case .container, .containerDisplayName: .text(container)
    }
  }
}
