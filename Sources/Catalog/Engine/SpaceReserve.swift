internal import Glibc
internal import Platform
internal import SystemPackage

/// Room on the disk that the catalog keeps for itself: blocks behind the end of its write-ahead log.
///
/// SQLite gives up the whole open transaction when a commit meets a full disk, and with it changes
/// that programs were told are done. So the catalog never lets that be the first time it hears of a
/// full disk: the log's next megabytes are allocated while there is room, with `FALLOC_FL_KEEP_SIZE`,
/// and where they cannot be, nothing that makes the catalog grow is begun. Removing always works.
/// The room is the log's own from the start: a file that is emptied when it is needed gives its blocks
/// to whoever is filling the disk just then. Not thread-safe: used under the catalog's lock.
final class SpaceReserve {
  private static let size: UInt64 = 4 << 20
  /// With less than this allocated a commit might not fit.
  private static let low: UInt64 = 2 << 20
  /// With this much free on the disk a log without room of its own has enough: not every file system
  /// allocates beforehand.
  private static let enough: UInt64 = 6 << 20

  private let log: OpenFile
  private let directory: String
  /// Up to where the log's blocks are there.
  private var allocated: UInt64 = 0
  private var length: UInt64 = 0
  /// What is left is used up as commits come; a log that is folded is written from its start again.
  private var isShort = false

  /// `log`: the write-ahead log of the catalog at `path`.
  init(log: OpenFile, catalog path: String) {
    self.log = log
    let parts = path.split(separator: "/").dropLast().joined(separator: "/")
    directory = (path.hasPrefix("/") ? "/" : "") + (parts.isEmpty ? "." : parts)
    // Catalogs kept a file for this, which was emptied when room was needed.
    unlink(path + "-reserve")
    prepare()
  }

  /// Makes sure that the next commit has room, as far as that can be.
  func prepare() {
    guard let length = (try? log.status()).map({ UInt64($0.st_size) }) else { return }
    // What is cut off is gone, with what was allocated behind it.
    if length < self.length { allocated = 0 }
    self.length = length
    guard allocated < length + Self.low, !isShort || hasEnough else { return }
    do throws(Errno) {
      try log.allocateBeyondEnd(upTo: length + Self.size)
      allocated = length + Self.size
      isShort = false
    } catch {
      isShort = true
    }
  }

  /// Whether what makes the catalog grow has to wait: what is left is for removing.
  var isExhausted: Bool { isShort && !hasEnough }

  private var hasEnough: Bool {
    guard let disk = try? DiskStatistics.of(directory) else { return true }
    return disk.blocksAvailable * disk.blockSize >= Self.enough
  }
}
