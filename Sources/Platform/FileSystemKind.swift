internal import Glibc

/// Which file system a directory is on, as far as it matters.
package struct FileSystemKind: Hashable, Sendable {
  /// As in `/proc/self/mountinfo`; empty where it is not found.
  package let type: String

  package init(type: String) { self.type = type }

  package static func of(_ path: String) -> FileSystemKind {
    guard let device = try? Files.status(path).st_dev, let table = try? MountTable.read() else {
      return FileSystemKind(type: "")
    }
    let number = number(of: device)
    return FileSystemKind(type: table.first { $0.device == number }?.type ?? "")
  }

  /// As mountinfo writes it. Source: makedev(3).
  static func number(of device: dev_t) -> String {
    let major = (device >> 8) & 0xFFF | (device >> 32) & 0xFFFF_F000
    let minor = device & 0xFF | (device >> 12) & 0xFFFF_FF00
    return "\(major):\(minor)"
  }

  /// Whether fsync(2) of a file makes its name durable, and the directories above that were made
  /// before.
  ///
  /// fsync(2) promises neither. Here changes of names become durable in the order in which they
  /// were made, and not after those of the inode: they are of the transaction that fsync commits,
  /// or of an earlier one; ext4 without a journal writes the directories above a new file by
  /// itself.
  package var synchronizesNames: Bool { type == "ext4" || type == "xfs" }
}
