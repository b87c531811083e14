internal import Catalog
internal import Model
internal import SystemPackage

/// Uploads that go on after this device stopped: chunks that are in the backend and in no segment.
extension ContainerSync {
  /// What nobody names in the log is removed from the backend some day, and not before this.
  private static let sentLasts = Int64(7 * 24 * 3600) * 1_000_000_000

  /// What went up before this device stopped and was not announced.
  func resumeUploads() throws(CycleFailure) {
    guard !hasResumed else { return }
    let catalog = coordinator.catalog
    unannounced += try local { () throws(Errno) in
      try catalog.sentChunks(since: catalog.now.advanced(by: -Self.sentLasts))
    }
    hasResumed = true
  }

  /// Chunks of contents that changed again before they were committed: garbage, not ours to tell.
  func forgetUnannounced() throws(CycleFailure) {
    guard !unannounced.isEmpty else { return }
    try local { () throws(Errno) in try coordinator.catalog.forgetSent() }
    unannounced = []
  }
}
