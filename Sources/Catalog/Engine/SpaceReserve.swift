internal import Glibc
internal import Platform
internal import SystemPackage

/// Room on the disk that the catalog keeps for itself: blocks behind the end of its write-ahead
/// log.
///
/// SQLite gives up the whole open transaction when a commit meets a full disk, and with it changes
/// that programs were told are done. So the catalog never lets that be the first time it hears of a
/// full disk: the log's next megabytes are allocated while there is room, with
/// `FALLOC_FL_KEEP_SIZE`, and where they cannot be, nothing that makes the catalog grow is begun.
/// Removing always works. All rows that wait in memory may go into one commit, so the room grows
/// with their number. The room is the log's own from the start: a file that is emptied when it is
/// needed gives its blocks to whoever is filling the disk just then. Not thread-safe: used under
/// the catalog's lock.
final class SpaceReserve {
  private static let size: UInt64 = 4 << 20
  /// With less than this allocated, beside what memory is ahead of, a commit might not fit.
  private static let low: UInt64 = 2 << 20
  /// Of the log, for each row that memory is ahead of. New rows share their pages.
  private static let rowBytes: UInt64 = 256
  /// With this much free on the disk a log without room of its own has enough: not every file
  /// system allocates beforehand.
  private static let enough: UInt64 = 6 << 20

  private let log: OpenFile
  private let directory: String
  /// Up to where the log's blocks are there.
  private var allocated: UInt64 = 0
  private var length: UInt64 = 0
  /// For what memory was ahead of when that was last asked.
  private var pending: UInt64 = 0
  /// What is left is used up as commits come; a log that is folded is written from its start again.
  private var isShort = false

  /// `log`: the write-ahead log of the catalog at `path`.
  init(log: OpenFile, catalog path: String) {
    self.log = log
    let parts = path.split(separator: "/").dropLast().joined(separator: "/")
    directory = (path.hasPrefix("/") ? "/" : "") + (parts.isEmpty ? "." : parts)
    // Catalogs kept a file for this, which was emptied when room was needed.
    unlink(path + "-reserve")
    prepare(forRows: 0)
  }

  /// Makes sure that the next commit has room, as far as that can be. `rows`: those that memory
  /// is ahead of.
  func prepare(forRows rows: Int) {
    pending = UInt64(rows) * Self.rowBytes
    guard let length = (try? log.status()).map({ UInt64($0.st_size) }) else { return }
    // What is cut off is gone, with what was allocated behind it.
    if length < self.length { allocated = 0 }
    self.length = length
    guard allocated < length + Self.low + pending, !isShort || hasEnough else { return }
    let end = length + Self.size + pending
    do throws(Errno) {
      try log.allocateBeyondEnd(upTo: end)
      allocated = end
      isShort = false
    } catch {
      isShort = true
    }
  }

  /// Whether what makes the catalog grow has to wait: what is left is for removing.
  var isExhausted: Bool { isShort && !hasEnough }

  private var hasEnough: Bool {
    guard let disk = try? DiskStatistics.of(directory) else { return true }
    return disk.blocksAvailable * disk.blockSize >= Self.enough + pending
  }
}
