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

  package func wake() {
    var one: UInt64 = 1
    _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
  }
}
