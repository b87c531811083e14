internal import CLinux
internal import Glibc
internal import SystemPackage

/// Is told which FUSE connections this process serves.
package protocol ConnectionGuarding: Sendable {
  func began(_ connection: AbortableConnection)
  func ended(_ connection: AbortableConnection)
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
    var connections: [UInt64: AbortableConnection] = [:]
    var lastKey: UInt64 = 0
  }

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
  package func add(_ connection: AbortableConnection) -> Bool {
    state.withLock { state in
      state.lastKey += 1
      state.connections[state.lastKey] = connection
      let isHeard = state.channel.map { Self.add(connection, state.lastKey, on: $0) } ?? false
      return isHeard && connection.control != nil
    }
  }

  package func remove(_ connection: AbortableConnection) {
    state.withLock { state in
      for (key, other) in state.connections where other === connection {
        state.connections[key] = nil
        guard let channel = state.channel else { continue }
        let message = linux_watchdog_message(
          kind: UInt32(linux_watchdog_remove), minor: 0, key: key, place: 0)
        _ = linux_tell_watchdog(channel.descriptor, message, -1)
      }
    }
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
        for (key, connection) in state.connections { _ = Self.add(connection, key, on: channel) }
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

  private static func add(
    _ connection: AbortableConnection, _ key: UInt64, on channel: OpenFile
  ) -> Bool {
    guard let minor = connection.mount.minor else { return false }
    let message = linux_watchdog_message(
      kind: UInt32(linux_watchdog_add), minor: minor, key: key, place: connection.mount.place)
    let file = connection.control?.descriptor ?? -1
    return linux_tell_watchdog(channel.descriptor, message, file) == 0
  }
}
