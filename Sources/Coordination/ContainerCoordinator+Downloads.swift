package import Catalog

/// What downloads are for, as far as anybody wants to know.
extension ContainerCoordinator {
  package func noteFetched(_ bytes: UInt64, of number: InodeNumber, for cause: DownloadCause) {
    guard bytes > 0 else { return }
    downloadObserver?.fetched(bytes, of: number, for: cause)
  }

  package func noteDenied(_ number: InodeNumber, for cause: DownloadCause) {
    downloadObserver?.denied(number, for: cause)
  }
}
