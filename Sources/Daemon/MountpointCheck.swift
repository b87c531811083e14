internal import ControlProtocol
internal import Glibc
internal import Platform
internal import SystemPackage

/// Whether a directory can be mounted on; a dead mount there is taken away first.
enum MountpointCheck {
  /// With `makesDirectory` a missing directory is made.
  static func run(_ path: String, makesDirectory: Bool) throws(ControlError) {
    // The mount point may lie in a mount whose daemon does not answer.
    let result = BoundedCall.run(milliseconds: BoundedCall.patience) {
      () -> Result<Void, ControlError> in
      do throws(ControlError) {
        return .success(try check(path, makesDirectory: makesDirectory))
      } catch {
        return .failure(error)
      }
    }
    guard let result else {
      throw ControlError(
        .timedOut,
        "the mount point \"\(path)\" does not answer; unmount the file system there or above it "
          + "first")
    }
    try result.get()
  }

  private static func check(_ path: String, makesDirectory: Bool) throws(ControlError) {
    do throws(Errno) {
      try detachDead(path)
      if makesDirectory, !Files.exists(path) { try Files.makeDirectories(path, mode: 0o755) }
      guard try Files.status(path).st_mode & S_IFMT == S_IFDIR else {
        throw Errno.notDirectory
      }
    } catch {
      switch error {
      case .noSuchFileOrDirectory:
        throw ControlError(
          .notFound, "the mount point \"\(path)\" does not exist; create the directory first")
      case .notDirectory:
        throw ControlError(.failed, "the mount point \"\(path)\" is not a directory")
      default:
        throw ControlError(
          ControlError.status(of: error), "cannot use the mount point \"\(path)\": \(error)")
      }
    }
    do throws(Errno) {
      if try isMounted(path) {
        throw Errno.resourceBusy
      }
      guard try Files.names(in: path).isEmpty else { throw .directoryNotEmpty }
    } catch {
      switch error {
      case .resourceBusy:
        throw ControlError(
          .busy, "a file system is already mounted at \"\(path)\"; unmount it first")
      case .directoryNotEmpty:
        throw ControlError(
          .busy, "the mount point \"\(path)\" is not empty; mount at an empty directory")
      default:
        throw ControlError(
          ControlError.status(of: error), "cannot use the mount point \"\(path)\": \(error)")
      }
    }
  }

  private static func isMounted(_ path: String) throws(Errno) -> Bool {
    try MountTable.read().contains { $0.mountpoint == Array(path.utf8) }
  }

  /// Mounts of ours whose daemon was killed; there may be several on one another.
  private static func detachDead(_ path: String) throws(Errno) {
    for _ in 0..<16 {
      let top = try MountTable.read().last { $0.mountpoint == Array(path.utf8) }
      guard top?.type == MountedFileSystem.ubiquityType, MountTable.isDead(path) else { return }
      try MountTable.detach(path)
    }
  }
}
