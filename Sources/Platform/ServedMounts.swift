internal import CLinux
internal import Glibc
package import SystemPackage

/// What a daemon has mounted, in a file that outlives it, so that others can free what it held if
/// it is killed: see `release`.
///
/// A line with the daemon's process and the time of its start, and the same of the process that
/// becomes the next daemon when this one dies, if there is one; then one for each mount: the
/// device, the inode number of its control file or `-`, and the mount point, in which `mountinfo`'s
/// characters are escaped as they are there.
package struct ServedMounts: Hashable, Sendable {
  package struct Mount: Hashable, Sendable {
    package let device: String
    package let mountpoint: String
    /// Tells the connection from a later one with the same device; see `AbortableConnection`.
    package let control: UInt64?

    package init(device: String, mountpoint: String, control: UInt64?) {
      self.device = device
      self.mountpoint = mountpoint
      self.control = control
    }

    package var minor: UInt32? { device.split(separator: ":").last.flatMap { UInt32($0) } }

    /// As far as the mount table tells.
    func isSame(as mounted: MountedFileSystem) -> Bool {
      mounted.device == device && mounted.type == MountedFileSystem.ubiquityType
        && mounted.mountpoint == Array(mountpoint.utf8)
    }

    /// The mount point in messages to the watchdog.
    var place: UInt64 { linux_mountpoint_hash(MountTable.escape(Array(mountpoint.utf8))) }

    /// The watchdog's way to ask `table`, a file like `/proc/self/mountinfo`, for the mount.
    package func isInTable(_ table: String) -> Bool {
      guard let minor else { return false }
      return linux_mount_table_has(table, minor, place) != 0
    }
  }

  package static let fileName = "mounts.served"

  package let daemon: Processes.Start
  package let keeper: Processes.Start?
  package var mounts: [Mount]

  package init(daemon: Processes.Start, keeper: Processes.Start? = nil, mounts: [Mount]) {
    self.daemon = daemon
    self.keeper = keeper
    self.mounts = mounts
  }

  /// Nil where there is none, or where it is not understood.
  package static func read(_ path: String) -> ServedMounts? {
    guard let text = Files.smallText(path, limit: 1 << 20) else { return nil }
    let lines = text.split(separator: "\n")
    let numbers = lines.first?.split(separator: " ") ?? []
    func process(_ index: Int) -> Processes.Start? {
      guard numbers.count >= index + 2, let number = Int32(numbers[index]),
        let ticks = UInt64(numbers[index + 1])
      else { return nil }
      return Processes.Start(number: number, ticks: ticks)
    }
    guard let daemon = process(0) else { return nil }
    return ServedMounts(
      daemon: daemon, keeper: process(2),
      mounts: lines.dropFirst().compactMap { line in
        let words = line.split(separator: " ")
        guard words.count == 3 else { return nil }
        let path = MountTable.unescape(words[2].utf8)
        return Mount(
          device: String(words[0]), mountpoint: String(decoding: path, as: UTF8.self),
          control: UInt64(words[1]))
      })
  }

  /// Not durable: after the machine has started anew there is nothing to free.
  package func write(_ path: String) throws(Errno) {
    var text = "\(daemon.number) \(daemon.ticks)"
    if let keeper { text += " \(keeper.number) \(keeper.ticks)" }
    text += "\n"
    for mount in mounts {
      let control = mount.control.map { "\($0)" } ?? "-"
      text += "\(mount.device) \(control) \(MountTable.escape(Array(mount.mountpoint.utf8)))\n"
    }
    let temporary = path + ".new"
    let file = try OpenFile.open(temporary, flags: O_WRONLY | O_CREAT | O_TRUNC)
    try file.write(Array(text.utf8), at: 0)
    _ = try retrying { Glibc.rename(temporary, path) }
  }
}

extension ServedMounts {
  package enum Release: Hashable, Sendable {
    /// The kernel keeps nothing of a daemon that was killed.
    case free
    /// The daemon was killed, and did not end in time. Where no mount is left to abort, it waits
    /// for something else.
    case stuck(Processes.Start, left: [Mount])
  }

  /// Frees what the kernel keeps of a daemon of the state directory that was killed, by aborting
  /// its connections. Does nothing when the daemon lives, and touches no mount.
  package static func release(state: String, milliseconds: Int = 10_000) -> Release {
    guard let served = read(state + "/" + fileName), Processes.isEnding(served.daemon) else {
      return .free
    }
    // This process is the next daemon. The killed one waits for its answers.
    guard served.keeper?.number != getpid() else { return .free }
    // A process that ends in good order is in that state for a moment, too.
    let deadline = monotonicNanoseconds() + UInt64(milliseconds) * 1_000_000
    var next = monotonicNanoseconds() + 50_000_000
    // The next daemon answers what the killed one waits for.
    let keeperDeadline = monotonicNanoseconds() + 5_000_000_000
    var left = served.mounts
    while Processes.isEnding(served.daemon) {
      let now = monotonicNanoseconds()
      if let keeper = served.keeper, now < keeperDeadline,
        Processes.start(of: keeper.number) == keeper
      {
        guard read(state + "/" + fileName)?.daemon == served.daemon else { return .free }
        next = now
        usleep(5000)
        continue
      }
      if now >= deadline { return .stuck(served.daemon, left: left) }
      if now >= next {
        left.removeAll { AbortableConnection.abort($0) }
        next = now + 1_000_000_000
      }
      usleep(5000)
    }
    return .free
  }
}

extension ServedMounts.Release {
  /// For the user; nil where nothing is stuck.
  package var complaint: String? {
    guard case .stuck(let daemon, let left) = self else { return nil }
    let process =
      "the daemon (process \(daemon.number)) was killed, and the kernel cannot end it yet"
    guard !left.isEmpty else {
      return process
        + ": one of its threads waits in the kernel, for example for a network file system; try "
        + "again when that answers"
    }
    let commands = left.compactMap(\.minor)
      .map { "echo 1 > /sys/fs/fuse/connections/\($0)/abort" }
    return process + "; as root, run: "
      + (["mount -t fusectl none /sys/fs/fuse/connections"] + commands).joined(separator: "; ")
  }
}
