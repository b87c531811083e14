internal import CFuse3
internal import Glibc
internal import Platform
package import SystemPackage

/// The files of a session that the kernel reads and writes by itself, by the numbers that answers
/// to opens name them with.
///
/// The kernel keeps a file as long as an open uses it, so a number can be given back as soon as no
/// open that is still to be answered will name it. The lock is a leaf, held over the ioctl, so that
/// the device is not closed meanwhile.
package final class FuseBackingFiles: Sendable {
  private let device: Lock<Int32?>

  init(device: Int32) { self.device = Lock(device) }

  /// EPERM without CAP_SYS_ADMIN, and where passthrough was not agreed on; ELOOP when the file is
  /// on a file system that is stacked deeper than agreed. The file is opened anew for each open, so
  /// `descriptor` may be read-only, and may be closed after.
  package func register(_ descriptor: Int32) throws(Errno) -> Int32 {
    let id = device.withLock { device in
      device.map { ubiquity_fuse_backing_open($0, descriptor) } ?? -ENODEV
    }
    guard id > 0 else { throw Errno(rawValue: -id) }
    return id
  }

  package func unregister(_ id: Int32) {
    device.withLock { device in
      if let device { ubiquity_fuse_backing_close(device, id) }
    }
  }

  /// The device is about to be closed, and all numbers go with it.
  func end() { device.withLock { $0 = nil } }
}
