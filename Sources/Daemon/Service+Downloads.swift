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
      try doing(item, "cannot be read") { () throws(Errno) in
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
        "the content of \(wanted.count == 1 ? "a file" : "\(wanted.count) files") is not local, "
          + "and offline mode is on; turn it off with `ubiquityfs offline off`")
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
      let percent = UInt128(min(100, max(0, status.percentDownloaded)))
      return UInt64(UInt128(inode.size) * percent / 100)
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

  /// How many are fetched at a time. Small files spend most of their time with waiting for the
  /// backend and the disk: more of them. 32 of them take no more memory than 6 large ones.
  private struct Parallel {
    private var large = 0
    private var small = 0

    private static func isLarge(_ download: Download) -> Bool { download.inode.size > 256 << 10 }

    func hasRoom(for download: Download) -> Bool {
      Self.isLarge(download) ? large < 6 : small < 32
    }

    mutating func begin(_ download: Download) {
      if Self.isLarge(download) { large += 1 } else { small += 1 }
    }

    mutating func end(_ download: Download) {
      if Self.isLarge(download) { large -= 1 } else { small -= 1 }
    }
  }

  /// Fetches all of them in their order, some at a time, and tells the client how far it is. The
  /// first failure is thrown when the others are through.
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
    try await withThrowingTaskGroup(of: (Download, (any Error)?).self) { group in
      var next = 0
      var parallel = Parallel()
      func add() {
        let index = next
        let download = downloads[index]
        next += 1
        parallel.begin(download)
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
            return (download, nil)
          } catch {
            let path = Self.path(download)
            let mapped = ControlError(mapping: error)
            return (download, ControlError(mapped.status, "\(path): \(mapped.message)"))
          }
        }
      }
      func addWhatHasRoom() {
        while next < downloads.count, parallel.hasRoom(for: downloads[next]) { add() }
      }
      addWhatHasRoom()
      while let (ended, error) = try await group.next() {
        if let error { failure = failure ?? error }
        parallel.end(ended)
        addWhatHasRoom()
      }
    }
    if let failure { throw failure }
  }

  private static func path(_ download: Download) -> String {
    let names = (try? download.session.catalog.path(of: download.inode.number)) ?? nil
    return names?.map(\.description).joined(separator: "/") ?? "a file that was removed meanwhile"
  }
}
