internal import CLinux
package import SystemPackage

/// An io_uring of one thread, for commands of a device: made, used and closed by that thread alone.
///
/// The kernel reads and writes the memory of a command only while its thread is in `submit`.
package struct CommandRing: ~Copyable {
  package struct Completion: Sendable {
    package let tag: UInt64
    /// 0 or a positive number, or a negative errno.
    package let result: Int32
  }

  private var ring: linux_ring

  /// `submissions` is how many can be prepared at once, `completions` how many can be under way.
  package init(submissions: Int, completions: Int) throws(Errno) {
    ring = linux_ring()
    let code = linux_ring_open(&ring, UInt32(submissions), UInt32(completions))
    guard code == 0 else { throw Errno(rawValue: -code) }
  }

  deinit {
    var ring = ring
    linux_ring_close(&ring)
  }

  /// Prepares a command. `argument` is copied, of at most 80 bytes; `buffers` is handed to the
  /// device.
  package mutating func command<Argument: BitwiseCopyable>(
    _ operation: UInt32, of descriptor: Int32, argument: Argument,
    buffers: UnsafeRawBufferPointer? = nil, count: Int = 0, tag: UInt64
  ) throws(Errno) {
    try makeRoom()
    withUnsafeBytes(of: argument) { argument in
      linux_ring_command(
        &ring, descriptor, operation, buffers?.baseAddress, UInt32(count), argument.baseAddress,
        argument.count, tag)
    }
  }

  /// Prepares a read of a descriptor without a position.
  package mutating func read(
    _ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer, tag: UInt64
  ) throws(Errno) {
    try makeRoom()
    linux_ring_read(&ring, descriptor, buffer.baseAddress, UInt32(buffer.count), tag)
  }

  private mutating func makeRoom() throws(Errno) {
    while linux_ring_is_full(&ring) != 0 { try submit(waitingFor: 0) }
  }

  /// Submits what is prepared, in one system call with the wait.
  package mutating func submit(waitingFor count: Int) throws(Errno) {
    let code = linux_ring_enter(&ring, UInt32(count))
    // A signal, or more completions than there is room for: those taken out, it goes on.
    if code >= 0 || code == -Errno.interrupted.rawValue || code == -Errno.resourceBusy.rawValue {
      return
    }
    throw Errno(rawValue: -code)
  }

  package mutating func next() -> Completion? {
    var tag: UInt64 = 0
    var result: Int32 = 0
    guard linux_ring_next(&ring, &tag, &result) != 0 else { return nil }
    return Completion(tag: tag, result: result)
  }
}
