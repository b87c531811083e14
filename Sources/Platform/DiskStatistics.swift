internal import Glibc
package import SystemPackage

/// What `statvfs(3)` tells of a file system. Counts of blocks are of `blockSize`.
package struct DiskStatistics: Hashable, Sendable {
  package var blockSize: UInt64
  package var blocks: UInt64
  package var blocksFree: UInt64
  package var blocksAvailable: UInt64
  package let files: UInt64
  package let filesFree: UInt64

  /// Of the file system that holds `path`.
  package static func of(_ path: String) throws(Errno) -> DiskStatistics {
    var result = statvfs()
    _ = try retrying { statvfs(path, &result) }
    return DiskStatistics(
      blockSize: UInt64(result.f_frsize), blocks: UInt64(result.f_blocks),
      blocksFree: UInt64(result.f_bfree), blocksAvailable: UInt64(result.f_bavail),
      files: UInt64(result.f_files), filesFree: UInt64(result.f_ffree))
  }
}
