internal import Catalog
internal import Model
internal import RemoteStore

/// Files that are sent together: one that is large, or many that are small.
struct UploadBatch {
  var files: [Catalog.Inode]
  var isSmall: Bool
  var bytes: UInt64
  /// Of one file that programs have open: a copy is uploaded, which nothing writes to.
  var isSnapshot: Bool
  /// A caller waits for each of its files.
  var isAwaited: Bool

  init(_ inode: Catalog.Inode, isSnapshot: Bool = false, isAwaited: Bool = false) {
    files = [inode]
    self.isAwaited = isAwaited
    isSmall = !isSnapshot && inode.size <= ContentUploader.smallFile
    bytes = inode.size
    self.isSnapshot = isSnapshot
  }
}

/// In which order contents go up: awaited files first. Then files that were saved lately before
/// older ones, since someone works on them and may open them elsewhere next; then small before
/// large, so that many are there soon.
enum UploadOrder {
  private static let recently = Int64(60) * 1_000_000_000
  /// Each has a descriptor until it is durable or a little longer, and two batches are sent at a
  /// time.
  private static let mostFiles = 64

  static func recent(at now: Timestamp) -> Timestamp { now.advanced(by: -recently) }

  /// `last`: items that go after all others. `awaited`: items that go before all others, in batches
  /// of their own.
  static func batches(
    _ files: [Catalog.Inode], at now: Timestamp, last: Set<ItemID> = [],
    awaited: Set<ItemID> = []
  ) -> [UploadBatch] {
    func turn(_ inode: Catalog.Inode) -> Int {
      if awaited.contains(inode.item) { return -1 }
      return last.contains(inode.item) ? 2 : inode.changed < recent(at: now) ? 1 : 0
    }
    let ordered = files.sorted {
      (turn($0), $0.size, $0.item) < (turn($1), $1.size, $1.item)
    }
    var result: [UploadBatch] = []
    for inode in ordered {
      let isAwaited = awaited.contains(inode.item)
      if let last = result.last, last.isSmall, last.isAwaited == isAwaited,
        inode.size <= ContentUploader.smallFile, last.files.count < mostFiles,
        last.bytes + inode.size <= ContentUploader.batchBytes
      {
        result[result.count - 1].files.append(inode)
        result[result.count - 1].bytes += inode.size
      } else {
        result.append(UploadBatch(inode, isAwaited: isAwaited))
      }
    }
    return result
  }
}
