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
      return "the mount point \"\(path)\" does not exist; create the directory first"
    case .notDirectory(let path):
      return "the mount point \"\(path)\" is not a directory"
    case .notEmpty(let path):
      return "the mount point \"\(path)\" is not empty; mount at an empty directory"
    case .alreadyMounted(let path, let source):
      return "\"\(source)\" is already mounted at \"\(path)\"; unmount it first"
    case .noDevice:
      return """
        "/dev/fuse" does not exist; load the kernel module with `modprobe fuse`, or, in a Linux \
        container, allow access to the device
        """
    case .notPermitted(let path, let detail):
      return """
        mounting at "\(path)" is not permitted\(Self.suffix(detail)); mount at a directory that \
        you own, and for allow_other put user_allow_other into "/etc/fuse.conf"
        """
    case .busy(let path):
      return """
        "\(path)" is busy; close the programs that use it (`fuser -vm \(path)` lists them) and try \
        again
        """
    case .copied(let path, let process):
      return """
        "\(path)" is busy: programs in this mount namespace (`fuser -vm \(path)` lists them) or in \
        another mount namespace, that of \(process), which has a copy of the mount, have files \
        open; close them and try again
        """
    case .bound(let path, let other):
      return "\"\(path)\" is also mounted at \"\(other)\"; unmount that first"
    case .covered(let path):
      return "another file system is mounted over \"\(path)\"; unmount that first"
    case .notMounted(let path):
      return "nothing is mounted at \"\(path)\""
    case .failed(let path, let detail):
      return "mounting at \"\(path)\" failed\(Self.suffix(detail))"
    }
  }

  private static func suffix(_ detail: String) -> String { detail.isEmpty ? "" : " (\(detail))" }
}
