internal import CLinux
internal import Glibc
internal import SystemPackage

/// Is told which FUSE connections this process serves.
package protocol ConnectionGuarding: Sendable {
  /// `device` is the mount's `MountedFileSystem.device`.
  func began(device: String, mountpoint: String)
  func ended(device: String)
}

/// A process that aborts this daemon's FUSE connections when the daemon dies.
///
/// A dead daemon can have a thread that waits in the kernel for a lock, whose holder waits for the
/// daemon. That thread keeps all descriptors of the daemon open, the FUSE device among them, so
/// that the connection never ends by itself. `docs/decisions/killed-daemons.md` has the details.
package final class ConnectionWatchdog: Sendable {
  private struct State {
    /// Nil while no watchdog runs.
    var channel: OpenFile?
    var minors: Set<UInt32> = []
  }

  /// Held while the watchdog answers. It answers at once, and nothing else waits for this lock.
  private let state = Lock(State())
  private let isKnown = Gate()
  private let log: @Sendable (String) -> Void

  /// Call before there are other threads, with the signals blocked that threads are not to get.
  package init(log: @escaping @Sendable (String) -> Void) {
    self.log = log
    _ = startThread { self.keepOneRunning() }
    isKnown.wait()
  }

  /// Gives false where nothing could abort the connection: the control file system is not mounted,
  /// and this process may not mount it.
  package func add(_ device: String) -> Bool {
    guard let minor = Self.minor(of: device) else { return false }
    return state.withLock { state in
      state.minors.insert(minor)
      return state.channel.map { Self.add(minor, on: $0) } ?? false
    }
  }

  package func remove(_ device: String) {
    guard let minor = Self.minor(of: device) else { return }
    state.withLock { state in
      state.minors.remove(minor)
      if let channel = state.channel { Self.send(linux_watchdog_remove, minor, on: channel) }
    }
  }

  private static func minor(of device: String) -> UInt32? {
    device.split(separator: ":").last.flatMap { UInt32($0) }
  }

  /// The watchdog acts when this thread ends, and this thread ends only with the process: it waits
  /// for nothing that a killed process has to wait for.
  private func keepOneRunning() {
    while true {
      var ends: [Int32] = [-1, -1]
      let kind = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue)
      guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { return fail(errno) }
      let process = linux_fork_watchdog(ends[1])
      let failure = -process
      close(ends[1])
      let channel = OpenFile(owning: ends[0])
      guard process > 0 else { return fail(failure) }
      linux_tell_watchdog_of_crashes(channel.descriptor)
      state.withLock { state in
        state.channel = channel
        for minor in state.minors { _ = Self.add(minor, on: channel) }
      }
      isKnown.open()
      var status: Int32 = 0
      while waitpid(process, &status, 0) < 0, errno == EINTR {}
      state.withLock { $0.channel = nil }
      log("the watchdog of the mounts (process \(process)) ended; another one is started")
      sleep(1)
    }
  }

  private func fail(_ code: Int32) {
    log("there is no watchdog of the mounts: \(Errno(rawValue: code))")
    isKnown.open()
  }

  private static func add(_ minor: UInt32, on channel: OpenFile) -> Bool {
    guard send(linux_watchdog_add, minor, on: channel) else { return false }
    var entry = pollfd(fd: channel.descriptor, events: Int16(POLLIN), revents: 0)
    guard poll(&entry, 1, 2000) > 0 else { return false }
    var answer: UInt8 = 0
    return recv(channel.descriptor, &answer, 1, Int32(MSG_DONTWAIT)) == 1 && answer == 1
  }

  @discardableResult
  private static func send(_ kind: Int, _ minor: UInt32, on channel: OpenFile) -> Bool {
    var message = linux_watchdog_message(kind: UInt32(kind), minor: minor)
    let size = MemoryLayout.size(ofValue: message)
    return Glibc.send(channel.descriptor, &message, size, Int32(MSG_NOSIGNAL)) == size
  }
}
