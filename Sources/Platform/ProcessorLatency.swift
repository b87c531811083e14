internal import Glibc
internal import Synchronization

/// Keeps idle processors from sleeping deeply for as long as it is held.
///
/// A program that makes a request of us and waits leaves its processor idle for microseconds. Where
/// that processor then sleeps, waking it costs more than the request: tens of microseconds in a
/// virtual machine, which has to ask its host. The kernel takes such wishes of programs that may
/// write to `/dev/cpu_dma_latency` (root, by default), and forgets them when the program ends.
/// Without that right holding does nothing. Source: Documentation/power/pm_qos_interface.rst.
///
/// Any thread; `hold` and `release` do not count.
package final class ProcessorLatency: Sendable {
  private static let path = "/dev/cpu_dma_latency"

  private let descriptor: Int32
  private let isHeld = Atomic<Bool>(false)

  package init() { descriptor = open(Self.path, O_RDWR | O_CLOEXEC) }

  deinit { if descriptor >= 0 { close(descriptor) } }

  /// Whether the kernel takes wishes of this process.
  package var isAvailable: Bool { descriptor >= 0 }

  package func hold() {
    if isAvailable, !isHeld.exchange(true, ordering: .relaxed) { wish(0) }
  }

  package func release() {
    // PM_QOS_DEFAULT_VALUE: no wish.
    if isAvailable, isHeld.exchange(false, ordering: .relaxed) { wish(-1) }
  }

  private func wish(_ microseconds: Int32) {
    var value = microseconds
    _ = write(descriptor, &value, MemoryLayout<Int32>.size)
  }
}
