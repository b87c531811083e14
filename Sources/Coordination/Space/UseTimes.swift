package import Catalog
internal import Glibc
internal import Platform
package import SystemPackage

/// When each file of a container was last opened or closed, for choosing what is evicted.
///
/// A file of its own, with eight bytes for each inode number: nanoseconds since 1970 by the
/// device's clock, 0 where nothing is known. Noting a use is one write of eight bytes into the page
/// cache: no record in the catalog's journal, nothing to flush. So what was noted survives the end
/// of the process, however that comes, and a power cut takes what the kernel had not written back
/// yet. Losing it, or a disk that has no room for it, makes the choice worse and nothing else. Any
/// thread; no lock.
package final class UseTimes: Sendable {
  private static let width: UInt64 = 8
  /// The place of number 0, which no inode has, tells what this is.
  private static let magic: UInt64 = 0x5542_5553_4553_3031
  /// Numbers beyond have no place: the file would outgrow its use.
  private static let limit: UInt64 = 1 << 32

  private let file: OpenFile

  /// Made where it is missing; what is none of ours is begun anew.
  package init(path: String) throws(Errno) {
    file = try OpenFile.open(path, flags: O_RDWR | O_CREAT | O_NOFOLLOW)
    if read(0) != Self.magic {
      try file.truncate(to: 0)
      write(0, Self.magic)
    }
  }

  package func note(_ number: InodeNumber, at nanoseconds: Int64) {
    guard number.rawValue < Self.limit else { return }
    write(number.rawValue, UInt64(bitPattern: nanoseconds))
  }

  /// 0 for one that is not known to have been used.
  package func time(of number: InodeNumber) -> Int64 {
    Int64(bitPattern: read(number.rawValue))
  }

  private func write(_ place: UInt64, _ value: UInt64) {
    withUnsafeBytes(of: value.littleEndian) { bytes in
      _ = pwrite(file.descriptor, bytes.baseAddress, bytes.count, off_t(place * Self.width))
    }
  }

  private func read(_ place: UInt64) -> UInt64 {
    guard place < Self.limit else { return 0 }
    var value: UInt64 = 0
    let count = withUnsafeMutableBytes(of: &value) { bytes in
      pread(file.descriptor, bytes.baseAddress, bytes.count, off_t(place * Self.width))
    }
    return count == Int(Self.width) ? UInt64(littleEndian: value) : 0
  }
}
