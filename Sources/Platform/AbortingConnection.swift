internal import CLinux
internal import Glibc
internal import SystemPackage

extension Unmounting {
  /// Has the kernel give up the FUSE connection of a mount: whatever waits for an answer gets an
  /// error. The mount stays in the tree. `device` is its `MountedFileSystem.device`. Gives false
  /// where neither the control file system nor the rights for it or for `MNT_FORCE` are there.
  /// Source: the kernel's fuse/fuse.rst, "Aborting a filesystem connection".
  package static func abortConnection(of mountpoint: String, device: String) -> Bool {
    if let minor = device.split(separator: ":").last.flatMap({ UInt32($0) }) {
      let descriptor = linux_open_fuse_abort(minor)
      if descriptor >= 0 {
        defer { close(descriptor) }
        // The file cannot be written at an offset.
        if write(descriptor, "1", 1) == 1 { return true }
      }
    }
    let path = Array(mountpoint.utf8)
    guard (try? MountTable.read())?.last(where: { $0.mountpoint == path })?.device == device else {
      return false
    }
    let force: Int32 = 1
    // EBUSY when it is used: the connection is gone all the same.
    return linux_umount2(mountpoint, force) == 0 || errno == EBUSY
  }
}
