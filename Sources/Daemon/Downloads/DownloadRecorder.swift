internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Model

/// Tells the log of a container's downloads.
final class DownloadRecorder: DownloadObserving {
  private let log: DownloadLog
  /// It holds this, and is the only one to call it.
  private unowned let coordinator: ContainerCoordinator
  private let mountpoint: @Sendable () -> String?

  /// `mountpoint`: where the container is mounted now.
  init(
    log: DownloadLog, coordinator: ContainerCoordinator,
    mountpoint: @escaping @Sendable () -> String?
  ) {
    self.log = log
    self.coordinator = coordinator
    self.mountpoint = mountpoint
  }

  func fetched(_ bytes: UInt64, of number: InodeNumber, for cause: DownloadCause) {
    note(number, cause, isDenied: false, bytes)
  }

  func denied(_ number: InodeNumber, for cause: DownloadCause) {
    note(number, cause, isDenied: true, 0)
  }

  private func note(
    _ number: InodeNumber, _ cause: DownloadCause, isDenied: Bool, _ bytes: UInt64
  ) {
    guard let inode = try? coordinator.catalog.inode(number) else { return }
    let reason = DownloadLog.Reason(
      container: coordinator.container, item: inode.item, cause: cause, isDenied: isDenied)
    log.note(reason, bytes: bytes) { path(number) }
  }

  /// In the mount; where there is none, in the container; empty of what has no name any more.
  private func path(_ number: InodeNumber) -> PathBytes {
    guard let names = (try? coordinator.catalog.path(of: number)) ?? nil else {
      return PathBytes([])
    }
    let inside = names.reduce(into: [UInt8]()) { $0 += [0x2F] + $1.bytes }
    return PathBytes(Array((mountpoint() ?? "").utf8) + inside)
  }
}
