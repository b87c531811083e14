package import SystemPackage

/// Why a catalog cannot be opened.
package enum CatalogError: Error, Hashable, Sendable, CustomStringConvertible {
  /// It is no catalog, or its contents contradict each other. The text says what was found.
  case damaged(String)
  /// A newer program wrote it; the number is its format.
  case newerFormat(Int)
  case system(Errno)

  package var description: String {
    switch self {
    case .damaged(let reason):
      """
      the catalog of this container is damaged (\(reason)); move its directory out of the state \
      directory and mount again: uploaded files come back, and other content stays in the moved \
      directory
      """
    case .newerFormat(let version):
      """
      the catalog of this container has format \(version), which a newer release of ubiquityfs \
      wrote; update ubiquityfs
      """
    case .system(.resourceBusy):
      "another process has the catalog of this container open; end it and try again"
    case .system(let errno): "cannot open the catalog of this container: \(errno)"
    }
  }
}
