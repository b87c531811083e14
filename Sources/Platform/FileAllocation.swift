internal import CLinux
internal import Glibc
package import SystemPackage

extension OpenFile {
  package func length() throws(Errno) -> UInt64 { UInt64(max(0, try status().st_size)) }

  /// The 512-byte blocks that it takes on the disk.
  package func blocks() throws(Errno) -> UInt64 { UInt64(max(0, try status().st_blocks)) }

  /// The modes of `fallocate(2)` that leave the rest of a file where it is: allocate, punch a hole
  /// and zero, with and without keeping the size.
  package static let allocationModes: Set<Int32> = [
    0, linux_falloc_keep_size, linux_falloc_punch_hole | linux_falloc_keep_size,
    linux_falloc_zero_range, linux_falloc_zero_range | linux_falloc_keep_size,
  ]

  /// O_DIRECT of `open(2)`, which the Glibc module leaves out.
  package static let directFlag: Int32 = linux_o_direct

  /// Copies up to `count` bytes to another file, in the kernel where it can; gives how many, 0 at
  /// the end of this file.
  package func copy(at offset: UInt64, count: Int, to target: OpenFile, at targetOffset: UInt64)
    throws(Errno) -> Int
  {
    do {
      return try copyRange(at: offset, count: count, to: target, at: targetOffset)
    } catch {
      guard
        [.improperLink, .noFunction, .notSupported, .invalidArgument].contains(error)
      else { throw error }
      let bytes = try read(count: min(count, 1 << 20), at: offset)
      try target.write(bytes, at: targetOffset)
      return bytes.count
    }
  }
}
