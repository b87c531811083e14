internal import CFuse3
package import SystemPackage

/// The bytes of one write request: in memory, or still in a pipe. They last for the handler's call
/// and can be taken once.
package struct FuseWriteData: ~Copyable {
  private let vector: UnsafeMutablePointer<fuse_bufvec>
  package let count: Int

  init(_ vector: UnsafeMutablePointer<fuse_bufvec>) {
    self.vector = vector
    count = fuse_buf_size(vector)
  }

  /// Writes them to a file, without passing through memory where they are in a pipe; gives how many
  /// were written.
  package borrowing func copy(to descriptor: Int32, at offset: UInt64) throws(Errno) -> Int {
    var target = fuse_bufvec()
    target.count = 1
    target.buf.size = count
    target.buf.flags = fuse_buf_flags(FUSE_BUF_IS_FD.rawValue | FUSE_BUF_FD_SEEK.rawValue)
    target.buf.fd = descriptor
    target.buf.pos = off_t(offset)
    let written = fuse_buf_copy(&target, vector, fuse_buf_copy_flags(0))
    guard written >= 0 else { throw Errno(rawValue: CInt(-written)) }
    return written
  }

  /// The bytes themselves, for a write that has to wait.
  package borrowing func bytes() throws(Errno) -> [UInt8] {
    var result: Int = 0
    let count = count
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      var target = fuse_bufvec()
      target.count = 1
      target.buf.size = count
      target.buf.mem = UnsafeMutableRawPointer(buffer.baseAddress)
      result = fuse_buf_copy(&target, vector, fuse_buf_copy_flags(0))
      filled = max(0, result)
    }
    guard result >= 0 else { throw Errno(rawValue: CInt(-result)) }
    return bytes
  }
}
