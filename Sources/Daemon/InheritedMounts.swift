package import ControlProtocol
package import FileSystem
internal import Glibc
package import Logging
package import Model
package import MountDriver
package import Platform
internal import SystemPackage

/// The mounts that an earlier daemon left to this one, until their containers are open.
package final class InheritedMounts: Sendable {
  package final class Mount: Sendable {
    package let description: MountDescription
    package let device: OpenFile
    package let record: MountRecord
    /// Nil where the mount table does not have the mount any more.
    let connection: AbortableConnection?
    private let watchdog = Lock<ConnectionWatchdog?>(nil)

    init?(_ kept: KeptMount) {
      guard let record = try? MountRecord(kept.record),
        let description = MountDescription(record.text)
      else { return nil }
      self.description = description
      self.record = record
      device = kept.device
      let path = Array(description.mountpoint.utf8)
      let isThere = ((try? MountTable.read()) ?? []).contains {
        $0.mountpoint == path && $0.device == description.device
          && $0.type == MountedFileSystem.ubiquityType
      }
      connection =
        isThere
        ? AbortableConnection(device: description.device, mountpoint: description.mountpoint) : nil
    }

    fileprivate func beKept(by watchdog: ConnectionWatchdog) {
      guard let connection else { return }
      _ = watchdog.add(connection, kept: KeptMount(device: device, record: record.file))
      self.watchdog.withLock { $0 = watchdog }
    }

    /// Another entry of the watchdog's keeps it from here on.
    package func wasAdopted() {
      guard let connection else { return }
      watchdog.withLock { $0.take() }?.remove(connection)
    }

    /// Whoever uses it gets an error, and it leaves the tree.
    package func abandon() {
      guard let connection else { return }
      connection.abort()
      watchdog.withLock { $0.take() }?.remove(connection)
      try? MountTable.detach(description.mountpoint)
    }
  }

  private let mounts: Lock<[ContainerID: Mount]>
  private let logger: Logger

  package init(_ succession: Succession, _ logger: Logger) {
    self.logger = logger
    var found: [ContainerID: Mount] = [:]
    for kept in succession.mounts {
      // The watchdog's list may have one twice, where a daemon died while it took it over.
      if let mount = Mount(kept) { found[mount.description.container] = mount }
    }
    if found.count < succession.mounts.count {
      logger.warning("cannot take over all mounts of the earlier daemon")
    }
    mounts = Lock(found)
  }

  private var all: [Mount] { mounts.withLock { Array($0.values) } }

  func beKept(by watchdog: ConnectionWatchdog) {
    for mount in all { mount.beKept(by: watchdog) }
  }

  package func has(_ id: ContainerID) -> Bool { mounts.withLock { $0[id] != nil } }

  package func take(_ id: ContainerID) -> Mount? {
    mounts.withLock { $0.removeValue(forKey: id) }
  }

  /// Of containers that could not be opened.
  func abandonRest() {
    for mount in mounts.withLock({ mounts in
      defer { mounts = [:] }
      return Array(mounts.values)
    }) {
      logger.error("the mount at \"\(mount.description.mountpoint)\" cannot continue")
      mount.abandon()
    }
  }

  /// Waits until nothing of the earlier daemon can touch the state directory any more: it is gone,
  /// or only threads are left that wait for an answer of this one, and end with it. Otherwise its
  /// mounts are given up, so that it ends. Throws when it does not.
  func waitForEnd(of predecessor: Int32) throws(ControlError) {
    if wait(for: predecessor, milliseconds: 2000) { return }
    logger.error("the earlier daemon (process \(predecessor)) does not end; giving up its mounts")
    abandonRest()
    if wait(for: predecessor, milliseconds: 10_000) { return }
    throw ControlError(
      .failed,
      "the daemon (process \(predecessor)) was killed, and the kernel cannot end it yet: one of "
        + "its threads waits in the kernel, for example for a network file system; try again when "
        + "that answers")
  }

  private func wait(for process: Int32, milliseconds: Int) -> Bool {
    let deadline = monotonicNanoseconds() + UInt64(milliseconds) * 1_000_000
    while true {
      let harmless = Set(all.flatMap { [$0.record.notifier, $0.record.echo] })
      if Processes.runningThreads(of: process).allSatisfy(harmless.contains) { return true }
      if monotonicNanoseconds() >= deadline { return false }
      usleep(2000)
    }
  }
}
