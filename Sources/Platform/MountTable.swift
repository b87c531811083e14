internal import CLinux
internal import Glibc
package import SystemPackage

/// One line of `/proc/self/mountinfo`.
package struct MountedFileSystem: Hashable, Sendable {
  /// Tells the mounts of one table from each other.
  package let id: UInt64
  /// The mount that it is on.
  package let parent: UInt64
  /// `st_dev` of what is mounted, as `MAJOR:MINOR`.
  package let device: String
  /// The directory of the mounted file system that is visible here; `/` unless bind-mounted.
  package let root: [UInt8]
  package let mountpoint: [UInt8]
  /// For FUSE `fuse.SUBTYPE`.
  package let type: String
  package let source: String
  /// The kernel repeats a mount or unmount below this mount below all others of its peer group, and
  /// below the mounts that have this group as their master. Source: mount_namespaces(7).
  package let peerGroup: UInt64?
  package let masterGroup: UInt64?

  /// Of the mounts that ubiquityfs makes.
  package static let ubiquityType = "fuse.ubiquityfs"
}

package enum MountTable {
  /// Everything mounted, in the order in which it was; a later one hides an earlier one.
  package static func read() throws(Errno) -> [MountedFileSystem] {
    try read(from: "/proc/self/mountinfo")
  }

  static func read(from path: String) throws(Errno) -> [MountedFileSystem] {
    let file = try OpenFile.open(path, flags: O_RDONLY)
    var bytes: [UInt8] = []
    while true {
      let piece = try file.read(count: 1 << 16, at: UInt64(bytes.count))
      if piece.isEmpty { break }
      bytes += piece
    }
    return parse(bytes)
  }

  /// Lines that are not understood are left out. Source: proc_pid_mountinfo(5).
  package static func parse(_ bytes: [UInt8]) -> [MountedFileSystem] {
    bytes.split(separator: 0x0A).compactMap { line in
      let fields = line.split(separator: 0x20, omittingEmptySubsequences: false)
      guard fields.count >= 10,
        let id = UInt64(String(decoding: fields[0], as: UTF8.self)),
        let parent = UInt64(String(decoding: fields[1], as: UTF8.self)),
        let dash = fields[6...].firstIndex(where: { $0.elementsEqual([0x2D]) }),
        fields.count > dash + 2
      else { return nil }
      let options = fields[6..<dash].map { String(decoding: $0, as: UTF8.self) }
      return MountedFileSystem(
        id: id, parent: parent,
        device: String(decoding: fields[2], as: UTF8.self), root: unescape(fields[3]),
        mountpoint: unescape(fields[4]), type: String(decoding: fields[dash + 1], as: UTF8.self),
        source: String(decoding: unescape(fields[dash + 2]), as: UTF8.self),
        peerGroup: number("shared:", in: options), masterGroup: number("master:", in: options))
    }
  }

  /// Of the option that begins with a tag.
  private static func number(_ tag: String, in options: [String]) -> UInt64? {
    options.first { $0.hasPrefix(tag) }.flatMap { UInt64($0.dropFirst(tag.count)) }
  }

  /// The mount that holds an absolute path without links in it: the longest mount point above it,
  /// and of several the last.
  package static func mount(of path: [UInt8], in table: [MountedFileSystem]) -> MountedFileSystem? {
    var best: MountedFileSystem?
    for mount in table where contains(mount.mountpoint, path) {
      if mount.mountpoint.count >= best?.mountpoint.count ?? 0 { best = mount }
    }
    return best
  }

  static func contains(_ directory: [UInt8], _ path: [UInt8]) -> Bool {
    if directory == [0x2F] { return path.first == 0x2F }
    return path.starts(with: directory)
      && (path.count == directory.count || path[directory.count] == 0x2F)
  }

  /// The kernel writes space, tab, newline and backslash as three octal digits.
  static func unescape(_ field: some Collection<UInt8>) -> [UInt8] {
    let bytes = Array(field)
    var result: [UInt8] = []
    var index = 0
    while index < bytes.count {
      if bytes[index] == 0x5C, index + 3 < bytes.count,
        let code = UInt8(
          String(decoding: bytes[(index + 1)...(index + 3)], as: UTF8.self), radix: 8)
      {
        result.append(code)
        index += 4
      } else {
        result.append(bytes[index])
        index += 1
      }
    }
    return result
  }
}

extension MountTable {
  static func escape(_ path: [UInt8]) -> String {
    var result: [UInt8] = []
    for byte in path {
      if [0x20, 0x09, 0x0A, 0x5C].contains(byte) {
        let digits = String(byte, radix: 8)
        result += Array(("\\" + String(repeating: "0", count: 3 - digits.count) + digits).utf8)
      } else {
        result.append(byte)
      }
    }
    return String(decoding: result, as: UTF8.self)
  }

  package enum Condition: Sendable {
    /// Something answers there: the mount, or what is below when nothing is mounted.
    case answering
    /// The kernel has given up the connection to the daemon, and says so.
    case dead
    /// No answer came within the time: the daemon is stopped, very slow, or killed and not yet
    /// gone.
    case silent
  }

  package static func condition(of mountpoint: String, milliseconds: Int) -> Condition {
    BoundedCall.run(milliseconds: milliseconds) {
      var result = statvfs()
      guard statvfs(mountpoint, &result) != 0 else { return .answering }
      return errno == ENOTCONN || errno == ECONNABORTED ? .dead : .answering
    } ?? .silent
  }

  /// Whether the daemon of a mount is gone. False, after a while, for one that does not answer.
  package static func isDead(_ mountpoint: String) -> Bool {
    condition(of: mountpoint, milliseconds: BoundedCall.patience) == .dead
  }

  /// Takes a mount out of the tree even while programs are in it; for mounts whose daemon is gone.
  /// Without the right to unmount, `fusermount3` does it for the mount's owner.
  package static func detach(_ mountpoint: String) throws(Errno) {
    if linux_umount2(mountpoint, linux_mnt_detach) == 0 { return }
    guard errno == EPERM else { throw Errno(rawValue: errno) }
    let words = ["fusermount3", "-u", "-z", "--", mountpoint]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) }
    arguments.append(nil)
    defer { for argument in arguments { free(argument) } }
    var process: pid_t = 0
    let code = posix_spawnp(&process, "fusermount3", nil, nil, &arguments, environ)
    guard code == 0 else { throw Errno(rawValue: code) }
    var status: Int32 = 0
    _ = try retrying { waitpid(process, &status, 0) }
    guard status == 0 else { throw .notPermitted }
  }
}
