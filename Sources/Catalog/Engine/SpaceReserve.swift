internal import Glibc
internal import Platform
internal import SystemPackage

/// Room on the disk that the catalog keeps for itself.
///
/// SQLite gives up the whole open transaction when a commit meets a full disk, and with it changes
/// that programs were told are done. So the catalog never lets that be the first time it hears of a
/// full disk: a file of a few megabytes takes the room while there is plenty, is emptied just before
/// a commit that might not fit, and meanwhile nothing that makes the catalog grow is begun. Removing
/// always works. Not thread-safe: used under the catalog's lock.
final class SpaceReserve {
  private static let size: UInt64 = 4 << 20
  /// With less than this free a commit might not fit.
  private static let low: UInt64 = 2 << 20
  /// With this much free the reserve is taken again.
  private static let plenty: UInt64 = 10 << 20

  private let directory: String
  private let path: String
  private(set) var isHeld = false

  init(catalog path: String) {
    self.path = path + "-reserve"
    let parts = path.split(separator: "/").dropLast().joined(separator: "/")
    directory = (path.hasPrefix("/") ? "/" : "") + (parts.isEmpty ? "." : parts)
    isHeld = ((try? Files.status(self.path).st_blocks) ?? 0) > 0
    prepare()
  }

  /// Makes sure that the next commit has room, as far as that can be.
  func prepare() {
    guard let free = free() else { return }
    if isHeld {
      guard free < Self.low else { return }
      truncate(path, 0)
      isHeld = false
    } else if free > Self.plenty {
      isHeld = hold()
    }
  }

  /// Whether what makes the catalog grow has to wait: the reserve is all that is left.
  var isExhausted: Bool {
    guard !isHeld, let free = free() else { return false }
    return free < Self.size + Self.low
  }

  private func hold() -> Bool {
    do throws(Errno) {
      let file = try OpenFile.open(path, flags: O_RDWR | O_CREAT)
      try file.allocate(mode: 0, offset: 0, length: Self.size)
      return true
    } catch {
      truncate(path, 0)
      return false
    }
  }

  private func free() -> UInt64? {
    guard let disk = try? DiskStatistics.of(directory) else { return nil }
    return disk.blocksAvailable * disk.blockSize
  }
}
