internal import Catalog
internal import Platform

/// Files that change while they are uploaded.
extension UploadQueue {
  /// How often running uploads are compared with their files.
  private static let watchPause = Duration.milliseconds(250)
  /// How long a batch of small files may take before it is abandoned for one that changed.
  private static let batchPatience: UInt64 = 500_000_000

  /// Abandons uploads of files that were removed, replaced, written to or opened for it, as long as
  /// there are any uploads: they would be for nothing, and keep the blocks of removed files.
  func watch() async {
    while true {
      try? await Task.sleep(for: Self.watchPause)
      let runs = state.withLock { state -> [UploadQueueRun] in
        state.isWatched = !state.runs.isEmpty && !state.isStopped
        return state.isWatched ? Array(state.runs.values) : []
      }
      guard !runs.isEmpty else { return }
      let now = monotonicNanoseconds()
      for run in runs {
        // A batch of small files is soon over by itself.
        let isShort = run.lane == .small || run.lane == .express
        let batches = run.current.values.filter {
          !isShort || now >= $0.since && now - $0.since >= Self.batchPatience
        }.map(\.batch)
        let changed = batches.flatMap { batch in
          batch.files.filter { hasChanged($0, isSnapshot: batch.isSnapshot) }
        }
        guard !changed.isEmpty else { continue }
        let time = coordinator.catalog.now
        state.withLock { state in
          for file in changed { state.restless[file.item] = now }
          // The run ends, and the files that it has not begun wait with the others. The new content
          // may wait already: without them it would be the only one, and so the next.
          state.returnRest(of: run.number)
          state.removeWaiting([], at: time)
        }
        run.task?.cancel()
      }
    }
  }

  private func hasChanged(_ inode: Catalog.Inode, isSnapshot: Bool) -> Bool {
    if isSnapshot {
      guard let now = try? coordinator.catalog.inode(inode.number) else { return true }
      return now.isOrphan || now.item != inode.item || now.generation != inode.generation
        || now.size < inode.size
    }
    if coordinator.isOpenForWriting(inode.number) { return true }
    guard let now = try? coordinator.catalog.inode(inode.number) else { return true }
    return now.isOrphan || UploadIdentity(now) != UploadIdentity(inode)
  }
}
