internal import CLinux
package import Glibc
package import SystemPackage

/// An open descriptor that closes itself when the last reference goes.
///
/// Safe to use from several threads: every operation names its offset. `EINTR` is retried, short
/// reads and writes are continued. Errors are what the system call gave.
package final class OpenFile: Sendable {
  package let descriptor: Int32

  /// Takes ownership of `descriptor`.
  package init(owning descriptor: Int32) { self.descriptor = descriptor }

  deinit { close(descriptor) }

  package static func open(
    _ path: String, flags: Int32, mode: UInt32 = 0o600
  ) throws(Errno) -> OpenFile {
    if flags & O_CREAT != 0 { try FaultPoint.check("file.create") }
    return OpenFile(owning: try retrying { Glibc.open(path, flags | O_CLOEXEC, mode) })
  }

  /// Reads until `buffer` is full or the file ends; gives the bytes read.
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64)
    throws(Errno) -> Int
  {
    var done = 0
    while done < buffer.count {
      let start = buffer.baseAddress! + done
      let room = buffer.count - done
      let position = off_t(offset) + off_t(done)
      let count = try retrying { pread(descriptor, start, room, position) }
      if count == 0 { break }
      done += count
    }
    return done
  }

  package func read(count: Int, at offset: UInt64) throws(Errno) -> [UInt8] {
    var failure: Errno?
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      do throws(Errno) {
        filled = try read(into: UnsafeMutableRawBufferPointer(buffer), at: offset)
      } catch {
        failure = error
      }
    }
    if let failure { throw failure }
    return bytes
  }

  /// Writes all of `buffer`.
  package func write(_ buffer: UnsafeRawBufferPointer, at offset: UInt64) throws(Errno) {
    var done = 0
    while done < buffer.count {
      let start = buffer.baseAddress! + done
      let room = buffer.count - done
      let position = off_t(offset) + off_t(done)
      try FaultPoint.check("file.write")
      done += try retrying { pwrite(descriptor, start, room, position) }
    }
  }

  package func write(_ bytes: [UInt8], at offset: UInt64) throws(Errno) {
    var failure: Errno?
    bytes.withUnsafeBytes { buffer in
      do throws(Errno) { try write(buffer, at: offset) } catch { failure = error }
    }
    if let failure { throw failure }
  }

  package func truncate(to size: UInt64) throws(Errno) {
    try FaultPoint.check("file.truncate")
    _ = try retrying { ftruncate(descriptor, off_t(size)) }
  }

  /// `fallocate(2)` with its own mode bits.
  package func allocate(mode: Int32, offset: UInt64, length: UInt64) throws(Errno) {
    try FaultPoint.check("file.allocate")
    _ = try retrying { linux_fallocate(descriptor, mode, Int64(offset), Int64(length)) }
  }

  /// Allocates blocks up to there, whatever the length of the file is, and leaves that as it is.
  package func allocateBeyondEnd(upTo offset: UInt64) throws(Errno) {
    try allocate(mode: linux_falloc_keep_size, offset: 0, length: offset)
  }

  /// `fsync(2)`.
  package func synchronize() throws(Errno) {
    try FaultPoint.check("file.sync")
    _ = try retrying { fsync(descriptor) }
  }

  /// Has the kernel begin to write a part of the file to the disk, so that less is left for
  /// `synchronize`, which reports errors of the disk.
  package func startWriteback(_ range: Range<UInt64>) {
    _ = linux_start_writeback(
      descriptor, Int64(clamping: range.lowerBound),
      Int64(clamping: range.upperBound - range.lowerBound))
  }

  /// `fdatasync(2)`.
  package func synchronizeData() throws(Errno) {
    try FaultPoint.check("file.datasync")
    _ = try retrying { fdatasync(descriptor) }
  }

  package func status() throws(Errno) -> stat {
    var result = stat()
    _ = try retrying { fstat(descriptor, &result) }
    return result
  }
}

extension OpenFile: CustomStringConvertible {
  package var description: String { "descriptor \(descriptor)" }
}

/// Calls `body` again while it is interrupted; a negative result throws the call's errno.
package func retrying<Result: SignedInteger>(_ body: () -> Result) throws(Errno) -> Result {
  while true {
    let result = body()
    if result >= 0 { return result }
    let code = errno
    if code != EINTR { throw Errno(rawValue: code) }
  }
}
