/// Why a mount did not come to be, or stays. The text says what to do.
package enum MountError: Error, Hashable, Sendable, CustomStringConvertible {
  case missing(String)
  case notDirectory(String)
  case notEmpty(String)
  /// The container named `source` is mounted there.
  case alreadyMounted(String, source: String)
  case noDevice
  case notPermitted(String, detail: String)
  /// Something uses the mount.
  case busy(String)
  /// Files of it are open, and this process runs in another mount namespace with a copy of it.
  case copied(String, process: String)
  /// A bind mount of it is at `other`.
  case bound(String, other: String)
  /// Something else was mounted over it.
  case covered(String)
  case notMounted(String)
  case failed(String, detail: String)

  package var description: String {
    switch self {
    case .missing(let path):
      return "the mount point \(path) does not exist; make the directory first"
    case .notDirectory(let path):
      return "the mount point \(path) is not a directory"
    case .notEmpty(let path):
      return "the mount point \(path) is not empty; mount on an empty directory"
    case .alreadyMounted(let path, let source):
      return "\(source) is already mounted on \(path); unmount it first"
    case .noDevice:
      return """
        /dev/fuse is not there; load the kernel's module with 'modprobe fuse', or give the \
        container that this runs in access to the device
        """
    case .notPermitted(let path, let detail):
      return """
        mounting on \(path) is not permitted\(Self.suffix(detail)); mount on a directory that you \
        own, and for allow_other put user_allow_other into /etc/fuse.conf
        """
    case .busy(let path):
      return """
        \(path) is busy; close the programs that use it ('fuser -vm \(path)' lists them) and try \
        again
        """
    case .copied(let path, let process):
      return """
        \(path) is busy: files of it are open, here ('fuser -vm \(path)' lists the programs) or in \
        another mount namespace, which has a copy of it and in which \(process) runs; close them \
        and try again
        """
    case .bound(let path, let other):
      return "\(path) is also mounted at \(other); unmount that first"
    case .covered(let path):
      return "something else is mounted over \(path); unmount that first"
    case .notMounted(let path):
      return "nothing is mounted on \(path)"
    case .failed(let path, let detail):
      return "mounting on \(path) failed\(Self.suffix(detail))"
    }
  }

  private static func suffix(_ detail: String) -> String { detail.isEmpty ? "" : " (\(detail))" }
}
