internal import Catalog
internal import ControlProtocol
internal import Coordination
internal import Platform
internal import SystemPackage

/// Bringing the content of items.
extension DaemonService {
  func download(_ request: DownloadRequest, _ connection: ClientConnection) throws(ControlError) {
    let found = try find(request.items)
    // It was asked for, so that no rule is looked at.
    let cause = DownloadCause(.command, by: requester(connection))
    var wanted: [Download] = []
    for item in found {
      try doing(item, "cannot be looked at") { () throws(Errno) in
        func want(_ inode: Catalog.Inode) {
          guard inode.kind == .file, inode.content == .remote else { return }
          wanted.append(Download(session: item.session, inode: inode, cause: cause))
        }
        want(item.inode)
        guard item.inode.kind == .directory else { return }
        try item.session.coordinator.forEachBelow(item.inode.number, want)
      }
    }
    guard !wanted.isEmpty else { return }
    guard !offline.isOffline else {
      throw ControlError(
        .offline,
        "the content of \(wanted.count == 1 ? "a file" : "\(wanted.count) files") is not on this "
          + "device, and offline mode is on: turn it off with "
          + "`ubiquityfs offline off`")
    }
    try lookForBackend(requireAccount(), connection)
    guard request.waits else {
      for item in found {
        try doing(item, "cannot be downloaded") { () throws(Errno) in
          try item.session.coordinator.startDownload(item.inode.number, cause: cause)
        }
      }
      return
    }
    let downloads = wanted
    defer { Self.waitForKernel(found.map(\.session)) }
    try connection.wait { try await Self.run(downloads, connection) }
  }

  private struct Download: Sendable {
    let session: ContainerSession
    let inode: Catalog.Inode
    let cause: DownloadCause

    /// Bytes of it that are here.
    var present: UInt64 {
      guard let status = try? session.coordinator.status(of: inode.number) else { return 0 }
      return inode.size * UInt64(min(100, max(0, status.percentDownloaded))) / 100
    }

    func run() async throws {
      try await DaemonService.fetch(inode.number, size: inode.size, for: cause, in: session)
    }
  }

  /// Brings the whole content of a file. Ends with the task.
  static func fetch(
    _ number: InodeNumber, size: UInt64, for cause: DownloadCause, in session: ContainerSession
  ) async throws {
    guard let fetcher = session.coordinator.fetcher else { throw FetchFailure.offline }
    let ticket = Lock<(any FetchTicket)?>(nil)
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation {
        (continuation: CheckedContinuation<Void, any Error>) in
        let made = fetcher.fetch(number, range: 0..<size, cause: cause) { result in
          continuation.resume(with: result.mapError { $0 })
        }
        ticket.withLock { $0 = made }
        // The handler may have come before, and found nothing.
        if Task.isCancelled { made.cancel() }
      }
    } onCancel: {
      ticket.withLock { $0 }?.cancel()
    }
  }

  private struct DownloadProgress {
    var done: UInt64 = 0
    var running: [Int: Download] = [:]
  }

  private static let parallelDownloads = 6

  /// Fetches all of them, a few at a time, and tells the client how far it is. The first failure is
  /// thrown when the others are through.
  private static func run(_ downloads: [Download], _ connection: ClientConnection) async throws {
    let total = downloads.reduce(0) { $0 + $1.inode.size }
    let progress = Lock(DownloadProgress())
    let reporter = Task {
      while !Task.isCancelled {
        let now = progress.withLock { $0 }
        let partial = now.running.values.reduce(UInt64(0)) { $0 + $1.present }
        connection.notify(
          Notifications.progress, Progress(done: now.done + partial, total: total, unit: "bytes"))
        try? await Task.sleep(for: .milliseconds(200))
      }
    }
    defer { reporter.cancel() }
    var failure: (any Error)?
    try await withThrowingTaskGroup(of: (any Error)?.self) { group in
      var next = 0
      func add() {
        guard next < downloads.count else { return }
        let index = next
        let download = downloads[index]
        next += 1
        group.addTask {
          progress.withLock { $0.running[index] = download }
          defer {
            progress.withLock {
              $0.running[index] = nil
              $0.done += download.inode.size
            }
          }
          do {
            try await download.run()
            return nil
          } catch {
            let path = Self.path(download)
            let mapped = ControlError(mapping: error)
            return ControlError(mapped.status, "\(path): \(mapped.message)")
          }
        }
      }
      for _ in 0..<parallelDownloads { add() }
      while let ended = try await group.next() {
        if let error = ended { failure = failure ?? error }
        add()
      }
    }
    if let failure { throw failure }
  }

  private static func path(_ download: Download) -> String {
    let names = (try? download.session.catalog.path(of: download.inode.number)) ?? nil
    return names?.map(\.description).joined(separator: "/") ?? "a file that was removed meanwhile"
  }
}
