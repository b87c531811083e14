internal import CLinux
internal import Glibc
package import SystemPackage

/// What Linux has on open files beyond reading and writing.
extension OpenFile {
  /// The first offset at or after `offset` that has data (`lseek(2)`, SEEK_DATA); nil when there is
  /// none up to the end.
  package func nextData(from offset: UInt64) throws(Errno) -> UInt64? {
    try seek(offset, linux_seek_data)
  }

  /// The first hole at or after `offset`, the end of the file being one (`lseek(2)`, SEEK_HOLE);
  /// nil past the end.
  package func nextHole(from offset: UInt64) throws(Errno) -> UInt64? {
    try seek(offset, linux_seek_hole)
  }

  private func seek(_ offset: UInt64, _ whence: Int32) throws(Errno) -> UInt64? {
    let result = lseek(descriptor, off_t(offset), whence)
    if result >= 0 { return UInt64(result) }
    let code = errno
    if code == ENXIO { return nil }
    throw Errno(rawValue: code)
  }

  /// The smallest run of zeros that becomes a hole: a block of most file systems.
  package static let holeBlock: UInt64 = 4096

  /// Writes to a range of the file that is a hole or past its end, and leaves whole blocks of zeros
  /// out: they stay a hole. The file may be shorter than the range afterwards.
  package func fillHole(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(Errno) {
    let block = Int(Self.holeBlock)
    let count = bytes.count
    // Of a range that begins within a block the first part is no whole one.
    var position = min(count, (block - Int(offset % Self.holeBlock)) % block)
    var start = 0
    while count - position >= block {
      guard Self.isZero(bytes.baseAddress! + position, block) else {
        position += block
        continue
      }
      try writePart(bytes, start..<position, at: offset)
      position += block
      start = position
    }
    try writePart(bytes, start..<count, at: offset)
  }

  private func writePart(
    _ bytes: UnsafeRawBufferPointer, _ part: Range<Int>, at offset: UInt64
  ) throws(Errno) {
    guard !part.isEmpty else { return }
    try write(UnsafeRawBufferPointer(rebasing: bytes[part]), at: offset + UInt64(part.lowerBound))
  }

  /// Of other bytes one word tells mostly.
  private static func isZero(_ bytes: UnsafeRawPointer, _ count: Int) -> Bool {
    bytes.loadUnaligned(as: UInt64.self) == 0 && memcmp(bytes, bytes + 8, count - 8) == 0
  }

  /// `copy_file_range(2)`: copies up to `count` bytes to the same or another file, in the kernel,
  /// and gives how many it did. EXDEV, ENOSYS, EOPNOTSUPP and EINVAL mean that it cannot here.
  package func copyRange(
    at offset: UInt64, count: Int, to target: OpenFile, at targetOffset: UInt64
  ) throws(Errno) -> Int {
    try FaultPoint.check("file.copy")
    return Int(
      try retrying {
        var from = Int64(offset)
        var to = Int64(targetOffset)
        return linux_copy_file_range(descriptor, &from, target.descriptor, &to, count)
      })
  }

  /// How many bytes are not in holes; space that was reserved and not written to is a hole.
  package func dataBytes() throws(Errno) -> UInt64 {
    let size = try length()
    var sum: UInt64 = 0
    var position: UInt64 = 0
    while position < size, let data = try nextData(from: position), data < size {
      position = min(size, try nextHole(from: data) ?? size)
      sum += position - data
    }
    return sum
  }

  /// `ioctl_ficlone(2)`: makes the whole of `target` share the blocks of this file, holes kept.
  /// Most file systems cannot. A failed call may leave a part in `target`.
  package func clone(to target: OpenFile) throws(Errno) {
    try FaultPoint.check("file.clone")
    _ = try retrying { linux_clone_file(descriptor, target.descriptor) }
  }

  /// Whether anything, a shared mapping included, has the file of this read-only descriptor open
  /// for writing. A mapping outlives the close of the descriptor that it was made from, and nothing
  /// but a lease tells of it (`fcntl(2)`, F_SETLEASE).
  ///
  /// Who opens it for writing in the moment in which the lease is held waits for its end.
  package func hasWriter() throws(Errno) -> Bool {
    _ = Self.ignoringLeaseSignals
    // F_LINUX_SPECIFIC_BASE + 0, which the Glibc module leaves out.
    let setLease: Int32 = 1024
    if fcntl(descriptor, setLease, Int32(F_RDLCK)) == 0 {
      _ = fcntl(descriptor, setLease, Int32(F_UNLCK))
      return false
    }
    let code = errno
    if code == EAGAIN { return true }
    throw Errno(rawValue: code)
  }

  /// SIGIO tells the holder of a lease that someone waits for it, and would end the process.
  private static let ignoringLeaseSignals: Void = {
    signal(SIGIO, SIG_IGN)
  }()
}
