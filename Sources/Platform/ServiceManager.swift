internal import CLinux
internal import Glibc

/// Tells the service manager that started this process how it is; nothing where none did.
/// Source: sd_notify(3).
package final class ServiceManager: Sendable {
  private let address: String?
  private let ended = Gate()

  package init() {
    address = getenv("NOTIFY_SOCKET").map { String(cString: $0) }
  }

  /// It serves. From here on the manager hears that it is alive, as often as it wants to.
  package func ready() {
    // One that came in the place of another is the service's main process.
    tell("READY=1\nMAINPID=\(getpid())")
    guard address != nil, let text = getenv("WATCHDOG_USEC").map({ String(cString: $0) }),
      let microseconds = UInt64(text), microseconds >= 2000
    else { return }
    let pause = Int(min(microseconds / 2000, 3_600_000))
    _ = startThread {
      while !self.ended.wait(milliseconds: pause) { self.tell("WATCHDOG=1") }
    }
  }

  package func stopping() {
    ended.open()
    tell("STOPPING=1")
  }

  private func tell(_ text: String) {
    guard let address else { return }
    _ = linux_send_datagram(address, text)
  }
}
