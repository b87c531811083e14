internal import Glibc
internal import Platform
internal import SystemPackage

/// The directory that a container is mounted on: its checks before, and unmounting.
struct Mountpoint: Sendable {
  let path: String

  /// Makes sure that mounting here would be right. What is left of a mount whose daemon died is
  /// taken away.
  func prepare() throws(MountError) {
    guard Files.exists("/dev/fuse") else { throw MountError.noDevice }
    switch MountTable.condition(of: path, milliseconds: BoundedCall.patience) {
    case .answering: break
    case .dead:
      do throws(Errno) { try MountTable.detach(path) } catch {
        throw MountError.failed(
          path, detail: "cannot unmount the earlier mount, whose daemon has ended: \(error)")
      }
    case .silent:
      throw MountError.failed(path, detail: "the file system that is mounted there does not answer")
    }
    var status = stat()
    guard stat(path, &status) == 0 else {
      switch errno {
      case ENOENT: throw MountError.missing(path)
      case ENOTDIR: throw MountError.notDirectory(path)
      case EACCES: throw MountError.notPermitted(path, detail: "it cannot be accessed")
      case let code:
        throw MountError.failed(path, detail: Errno(rawValue: code).description)
      }
    }
    guard status.st_mode & S_IFMT == S_IFDIR else { throw MountError.notDirectory(path) }
    if let mount = topMount(), mount.type == MountedFileSystem.ubiquityType {
      throw MountError.alreadyMounted(path, source: mount.source)
    }
    let names: [String]
    do throws(Errno) { names = try Files.names(in: path) } catch {
      throw MountError.notPermitted(path, detail: error.description)
    }
    guard names.isEmpty else { throw MountError.notEmpty(path) }
  }

  /// What was last mounted exactly here.
  func topMount() -> MountedFileSystem? {
    let bytes = Array(path.utf8)
    return (try? MountTable.read())?.last { $0.mountpoint == bytes }
  }

  /// Waits, for a bounded time, until the kernel has the root's permissions.
  ///
  /// The kernel begins with a root that permits nothing. It ignores its first answer about the root
  /// if an invalidation comes meanwhile, and a program that is not root's would get EACCES. Source:
  /// `fuse_permission` and `fuse_change_attributes_i` in Linux.
  func waitUntilPermitted() {
    _ = BoundedCall.run(milliseconds: BoundedCall.patience) { [path] in
      for _ in 0..<100 {
        if access(path, X_OK) == 0 || errno != EACCES { return }
        usleep(2000)
      }
    }
  }

  /// Unmounts; EBUSY while something uses the mount.
  func unmount() throws(Errno) {
    do {
      try Unmounting.unmount(path)
    } catch .notPermitted {
      // Of a user who is not root; the helper is set-uid.
      let code = Unmounting.runHelper(["-u", "--", path])
      if code == 0 { return }
      throw topMount() == nil ? Errno.invalidArgument : Errno.resourceBusy
    }
  }
}
