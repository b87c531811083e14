internal import CLinux
internal import Glibc
package import SystemPackage

/// Wakes a thread that waits in the kernel for reading it: an eventfd.
package final class Wakeup: Sendable {
  package let descriptor: Int32

  package init() throws(Errno) {
    descriptor = linux_eventfd()
    guard descriptor >= 0 else { throw Errno(rawValue: errno) }
  }

  deinit { close(descriptor) }

  /// After it was found readable: forgets all calls of `wake` up to now.
  package func reset() {
    var count: UInt64 = 0
    _ = read(descriptor, &count, MemoryLayout<UInt64>.size)
  }

  /// Waits until `wake` was called, and forgets that it was, or until the time is over.
  package func wait(milliseconds: Int32) {
    var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
    if poll(&entry, 1, milliseconds) > 0 { reset() }
  }

  package func wake() {
    var one: UInt64 = 1
    _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
  }
}
