internal import Glibc
internal import SystemPackage

extension MountTable {
  /// A mount of the device at another place than `path` that stays when the mount at `path` is
  /// unmounted: a bind mount. Nil if there is none.
  package static func bindMount(
    of device: String, besides path: [UInt8], in table: [MountedFileSystem]
  ) -> MountedFileSystem? {
    let mounts = table.filter {
      $0.device == device && $0.type == MountedFileSystem.ubiquityType
    }
    let own = mounts.last { $0.mountpoint == path }
    return mounts.first { other in
      guard other.mountpoint != path else { return false }
      return own.map { !isPropagated(from: $0, to: other, in: table) } ?? true
    }
  }

  /// Whether the kernel unmounts `copy` when `mount` is unmounted: both are on the same directory,
  /// which is visible through two mounts, and unmounting propagates from the one to the other.
  private static func isPropagated(
    from mount: MountedFileSystem, to copy: MountedFileSystem, in table: [MountedFileSystem]
  ) -> Bool {
    guard copy.root == mount.root,
      let parent = table.first(where: { $0.id == mount.parent }),
      let other = table.first(where: { $0.id == copy.parent }),
      let group = parent.peerGroup, receives(other, from: group, in: table),
      let directory = covered(by: mount, on: parent)
    else { return false }
    return covered(by: copy, on: other) == directory
  }

  /// Whether the kernel repeats on a mount each mount and unmount of a peer group: it is in the
  /// group, or the group is its master, or that of a group between them.
  private static func receives(
    _ mount: MountedFileSystem, from group: UInt64, in table: [MountedFileSystem]
  ) -> Bool {
    if mount.peerGroup == group { return true }
    var master = mount.masterGroup
    // The groups make a tree. Its depth cannot be greater than the number of mounts.
    for _ in table {
      guard let next = master else { return false }
      if next == group { return true }
      master = table.first { $0.peerGroup == next && $0.masterGroup != nil }?.masterGroup
    }
    return false
  }

  /// The directory that a mount is on, as a path from the root of the file system below it.
  private static func covered(by mount: MountedFileSystem, on parent: MountedFileSystem)
    -> [UInt8]?
  {
    let slash: [UInt8] = [0x2F]
    guard contains(parent.mountpoint, mount.mountpoint) else { return nil }
    let start = parent.mountpoint == slash ? 0 : parent.mountpoint.count
    var path = parent.root == slash ? [] : parent.root
    path += mount.mountpoint.dropFirst(start)
    return path
  }

  /// A process in another mount namespace that has a copy of the mount with this device and source,
  /// such as a process in a container. Nil if there is none, or none that this process may look at.
  package static func processWithCopy(of device: String, named source: String) -> Int32? {
    let own = Files.linkTarget("/proc/self/ns/mnt")
    var seen: Set<String> = []
    for name in (try? Files.names(in: "/proc")) ?? [] {
      guard let number = Int32(name), let place = Files.linkTarget("/proc/\(name)/ns/mnt"),
        place != own, seen.insert(place).inserted,
        let table = try? read(from: "/proc/\(name)/mountinfo")
      else { continue }
      let hasCopy = table.contains {
        $0.device == device && $0.source == source && $0.type == MountedFileSystem.ubiquityType
      }
      if hasCopy { return number }
    }
    return nil
  }
}
