internal import Glibc
package import Logging
package import Platform
internal import SystemPackage

/// Sees to it that the mounts of this daemon can be freed if the daemon is killed: by the watchdog
/// at once, and else by the next command, which finds them in the state directory.
package final class MountGuard: ConnectionGuarding {
  private let watchdog: ConnectionWatchdog
  private let path: String
  private let logger: Logger
  private let mounts = Lock<[ServedMounts.Mount]>([])

  package init(_ state: StateDirectory, _ watchdog: ConnectionWatchdog, _ logger: Logger) {
    self.watchdog = watchdog
    self.logger = logger
    path = state.servedMounts
  }

  package func began(_ connection: AbortableConnection) {
    change { $0.append(connection.mount) }
    guard !watchdog.add(connection) else { return }
    logger.notice(
      """
      the mount at "\(connection.mount.mountpoint)" may hang if this daemon is killed, because no \
      process could abort its connection. As root, run \
      `mount -t fusectl none /sys/fs/fuse/connections`.
      """)
  }

  package func keeps(_ connection: AbortableConnection, _ mount: KeptMount) {
    if watchdog.keep(connection, mount) {
      logger.debug("the mount at \"\(connection.mount.mountpoint)\" can outlive this daemon")
    }
  }

  package func ended(_ connection: AbortableConnection) {
    watchdog.remove(connection)
    change { $0.removeAll { $0 == connection.mount } }
  }

  private func change(_ body: (inout [ServedMounts.Mount]) -> Void) {
    mounts.withLock { mounts in
      body(&mounts)
      guard let daemon = Processes.start(of: getpid()) else { return }
      do throws(Errno) {
        let keeper = watchdog.keeper.flatMap { Processes.start(of: $0) }
        try ServedMounts(daemon: daemon, keeper: keeper, mounts: mounts).write(path)
      } catch {
        logger.warning("cannot write \"\(path)\": \(error)")
      }
    }
  }
}
