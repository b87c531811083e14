/// What a program can ask about an item: the `user.ubiquity.*` attributes by name.
///
/// Source: CONTRACT, "Extended attributes"; the values of `downloadingStatus` are those of
/// `NSURLUbiquitousItemDownloadingStatusKey`.
package struct ItemStatus: Hashable, Sendable, Codable {
  package enum Downloading: String, Hashable, Sendable, Codable {
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
  /// A neighbour's name differs in case or Unicode form alone.
  package var nameCollision: Bool
  package var percentDownloaded: Int
  package var percentUploaded: Int
  /// Of a file or package: how many bytes of its content are local. `st_blocks` does not say it: a
  /// placeholder has a block so that archivers do not take it for a hole.
  package var localBytes: UInt64?
  package var downloadingError: String?
  package var uploadingError: String?
  package var version: String
  package var itemIdentifier: String
  package var container: String
  /// Of a directory: the name of its own policy.
  package var policy: String?
}
