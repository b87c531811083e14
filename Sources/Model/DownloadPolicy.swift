/// What becomes of the content of files below a directory on this device: what
/// `user.ubiquity.policy` says. The nearest directory that does not say `inherit` decides.
///
/// Source: NSFileProviderContentPolicy, whose names these are.
package enum DownloadPolicy: String, Sendable, CaseIterable {
  /// As the directory above has it; the container's own directory, as the mount option `policy` has
  /// it.
  case inherit
  /// Content comes when it is read.
  case downloadLazily
  /// As before, and a newer content that comes from elsewhere takes the place of what is here
  /// unread.
  case downloadLazilyAndEvictOnRemoteUpdate
  /// Content comes as soon as it is known, and goes only when somebody says so.
  case downloadEagerlyAndKeepDownloaded
}
