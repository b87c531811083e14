internal import CLinux
internal import Glibc
internal import SystemPackage

/// Is told which FUSE connections this process serves.
package protocol ConnectionGuarding: Sendable {
  func began(_ connection: AbortableConnection)
  /// The connection goes on with another daemon when this one dies.
  func keeps(_ connection: AbortableConnection, _ mount: KeptMount)
  /// Before the device is closed: what is kept of it keeps the connection.
  func ended(_ connection: AbortableConnection)
}

/// A process that stays when this daemon dies. It becomes the next daemon, which goes on with the
/// connections that can be kept, and aborts the others.
///
/// A dead daemon can have a thread that waits in the kernel for a lock, whose holder waits for the
/// daemon. That thread keeps all descriptors of the daemon open, the FUSE device among them, so
/// that the connection never ends by itself. `docs/decisions/killed-daemons.md` has the details.
package final class ConnectionWatchdog: Sendable {
  private struct State {
    /// Nil while no watchdog runs.
    var channel: OpenFile?
    var process: Int32?
    var connections: [UInt64: Guarded] = [:]
    var lastKey: UInt64 = 0
    var lock: OpenFile?
    var isEnding = false
  }

  private struct Guarded {
    let connection: AbortableConnection
    var kept: KeptMount?
  }

  private let state = Lock(State())
  private let isKnown = Gate()
  private let hasEnded = Gate()
  private let successor: SuccessorProgram?
  private let log: @Sendable (String) -> Void

  /// Call before there are other threads, with the signals blocked that threads are not to get.
  /// Without a `successor` all connections are aborted when this daemon dies. `lock` is that of the
  /// state directory, which is held until the next daemon has it.
  package init(
    successor: SuccessorProgram? = nil, lock: OpenFile? = nil,
    log: @escaping @Sendable (String) -> Void
  ) {
    self.successor = successor
    self.log = log
    if successor != nil, let lock { state.withLock { $0.lock = lock } }
    _ = startThread { self.keepOneRunning() }
    isKnown.wait()
  }

  /// Gives false where nothing could abort the connection: the control file system is not mounted,
  /// and this process may not mount it.
  package func add(_ connection: AbortableConnection, kept: KeptMount? = nil) -> Bool {
    state.withLock { state in
      state.lastKey += 1
      let guarded = Guarded(connection: connection, kept: successor == nil ? nil : kept)
      state.connections[state.lastKey] = guarded
      let isHeard = state.channel.map { Self.add(guarded, state.lastKey, on: $0) } ?? false
      return isHeard && connection.control != nil
    }
  }

  /// What `add` told of is kept for another daemon from here on. Gives false where none would come.
  package func keep(_ connection: AbortableConnection, _ kept: KeptMount) -> Bool {
    state.withLock { state in
      guard successor != nil else { return false }
      for (key, guarded) in state.connections where guarded.connection === connection {
        state.connections[key]?.kept = kept
        if let channel = state.channel { Self.keep(kept, key, on: channel) }
      }
      return true
    }
  }

  /// What is kept for another daemon, and the mount points of what is not.
  package var kept: (mounts: [KeptMount], others: [String]) {
    state.withLock { state in
      let all = state.connections.values
      return (
        all.compactMap(\.kept),
        all.filter { $0.kept == nil }.map(\.connection.mount.mountpoint).sorted()
      )
    }
  }

  /// The process that becomes the next daemon when this one dies; nil where none would.
  package var keeper: Int32? { successor == nil ? nil : state.withLock { $0.process } }

  /// The watchdog ends without acting, and is gone when this returns: what it kept is closed. For a
  /// daemon that ends in good order, or whose successor has everything.
  package func end() {
    let isRunning = state.withLock { state in
      state.isEnding = true
      guard let channel = state.channel else { return false }
      let message = linux_watchdog_message(
        kind: UInt32(linux_watchdog_end), minor: 0, key: 0, place: 0)
      return linux_tell_watchdog(channel.descriptor, message, -1) == 0
    }
    if isRunning { _ = hasEnded.wait(milliseconds: 2000) }
  }

  package func remove(_ connection: AbortableConnection) {
    state.withLock { state in
      for (key, other) in state.connections where other.connection === connection {
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
      let process = linux_fork_watchdog(ends[1], successor?.pointer)
      let failure = -process
      close(ends[1])
      let channel = OpenFile(owning: ends[0])
      guard process > 0 else { return fail(failure) }
      linux_tell_watchdog_of_crashes(channel.descriptor)
      state.withLock { state in
        state.channel = channel
        state.process = process
        if let lock = state.lock { Self.keep(lock, linux_kept_lock, 0, on: channel) }
        for (key, guarded) in state.connections { _ = Self.add(guarded, key, on: channel) }
      }
      isKnown.open()
      var status: Int32 = 0
      while waitpid(process, &status, 0) < 0, errno == EINTR {}
      let isEnding = state.withLock { state in
        state.channel = nil
        state.process = nil
        return state.isEnding
      }
      if isEnding {
        hasEnded.open()
        // Nobody acts when this thread ends, and it ends with the process.
        while true { pause() }
      }
      log("the watchdog of the mounts (process \(process)) ended; starting another one")
      sleep(1)
    }
  }

  private func fail(_ code: Int32) {
    log("cannot start the watchdog of the mounts: \(Errno(rawValue: code))")
    isKnown.open()
  }

  private static func add(_ guarded: Guarded, _ key: UInt64, on channel: OpenFile) -> Bool {
    let connection = guarded.connection
    guard let minor = connection.mount.minor else { return false }
    let message = linux_watchdog_message(
      kind: UInt32(linux_watchdog_add), minor: minor, key: key, place: connection.mount.place)
    let file = connection.control?.descriptor ?? -1
    guard linux_tell_watchdog(channel.descriptor, message, file) == 0 else { return false }
    if let kept = guarded.kept { keep(kept, key, on: channel) }
    return true
  }

  private static func keep(_ kept: KeptMount, _ key: UInt64, on channel: OpenFile) {
    keep(kept.record, linux_kept_record, key, on: channel)
    keep(kept.device, linux_kept_device, key, on: channel)
  }

  private static func keep<Role: BinaryInteger>(
    _ file: OpenFile, _ role: Role, _ key: UInt64, on channel: OpenFile
  ) {
    let message = linux_watchdog_message(
      kind: UInt32(linux_watchdog_keep), minor: UInt32(role), key: key, place: 0)
    _ = linux_tell_watchdog(channel.descriptor, message, file.descriptor)
  }
}
