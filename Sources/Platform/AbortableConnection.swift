internal import CLinux
internal import Glibc
internal import SystemPackage

/// The FUSE connection of a mount, and the means to abort it and no other.
///
/// The kernel gives a mount's device number to the next mount once it is free. The control file
/// system's file that aborts a connection stays that of the connection for which it was opened. So
/// it is opened while the mount is known to be there, and kept.
/// Source: the kernel's fuse/fuse.rst, "Aborting a filesystem connection".
package final class AbortableConnection: Sendable {
  package let mount: ServedMounts.Mount
  /// Nil where neither the control file system nor the right to mount it is there.
  let control: OpenFile?

  /// `device` is the mount's `MountedFileSystem.device`. The mount has to be there.
  package init(device: String, mountpoint: String) {
    let plain = ServedMounts.Mount(device: device, mountpoint: mountpoint, control: nil)
    control = Self.openControl(plain)
    mount = ServedMounts.Mount(
      device: device, mountpoint: mountpoint, control: control.flatMap(Self.identity(of:)))
  }

  /// Whatever waits for an answer gets an error. The mount stays in the tree. Gives false where
  /// neither the control file system nor the rights for it or for `MNT_FORCE` are there.
  @discardableResult
  package func abort() -> Bool {
    if let control { return Self.write(control) }
    return Self.forceUnmount(mount)
  }

  /// Aborts a connection that another process made. Gives true also where it is gone, although its
  /// number may be another mount's by now; false where that cannot be told, or nothing be done.
  static func abort(_ mount: ServedMounts.Mount) -> Bool {
    let mounted = (try? MountTable.read()) ?? []
    let isThere = mounted.contains { mount.isSame(as: $0) }
    if let file = openControl(mount) {
      if let known = mount.control { return identity(of: file) == known ? write(file) : true }
      return isThere && write(file)
    }
    if isThere { return forceUnmount(mount) }
    return mounted.contains {
      $0.device == mount.device && $0.type != MountedFileSystem.ubiquityType
    }
  }

  private static func openControl(_ mount: ServedMounts.Mount) -> OpenFile? {
    guard let minor = mount.minor else { return nil }
    let descriptor = linux_open_fuse_abort(minor)
    return descriptor >= 0 ? OpenFile(owning: descriptor) : nil
  }

  /// The file's inode number: the kernel's counter, so that no later connection's file has it while
  /// the control file system stays. It stays as long as any process has such a file open.
  private static func identity(of file: OpenFile) -> UInt64? {
    var status = stat()
    return fstat(file.descriptor, &status) == 0 ? UInt64(status.st_ino) : nil
  }

  private static func write(_ file: OpenFile) -> Bool {
    // It cannot be written at an offset. A connection that has ended takes the byte as well.
    Glibc.write(file.descriptor, "1", 1) == 1
  }

  private static func forceUnmount(_ mount: ServedMounts.Mount) -> Bool {
    let path = Array(mount.mountpoint.utf8)
    guard let top = (try? MountTable.read())?.last(where: { $0.mountpoint == path }),
      mount.isSame(as: top)
    else { return false }
    let force: Int32 = 1
    // EBUSY when it is used: the connection is gone all the same.
    return linux_umount2(mount.mountpoint, force) == 0 || errno == EBUSY
  }
}
