internal import CLinux
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// An open directory, and the calls on the names in it.
///
/// No call takes a path of more than one name, so that a tree may be of any depth: the kernel takes
/// no path beyond 4,096 bytes.
struct OpenDirectory {
  /// Which directory it is, whatever its name.
  struct Identity: Equatable {
    let device: dev_t
    let inode: ino_t
  }

  private let file: OpenFile
  let identity: Identity

  private static let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC

  private init(owning descriptor: Int32) throws(Errno) {
    file = OpenFile(owning: descriptor)
    let status = try file.status()
    identity = Identity(device: status.st_dev, inode: status.st_ino)
  }

  init(path: String) throws(Errno) {
    try self.init(owning: try retrying { open(path, Self.flags) })
  }

  /// The directory of that name; a link is none.
  func directory(_ name: ItemName) throws(Errno) -> OpenDirectory {
    let descriptor = try calling(name) { openat(file.descriptor, $0, Self.flags | O_NOFOLLOW) }
    return try OpenDirectory(owning: descriptor)
  }

  /// The directory that this one is in; nil if it is in another one by now.
  func above(_ expected: Identity) throws(Errno) -> OpenDirectory? {
    let descriptor = try retrying { openat(file.descriptor, "..", Self.flags) }
    let found = try OpenDirectory(owning: descriptor)
    return found.identity == expected ? found : nil
  }

  /// The status of the item of this name, of a link itself; nil if there is none.
  func status(_ name: ItemName) throws(Errno) -> stat? {
    var result = stat()
    do throws(Errno) {
      _ = try calling(name) { fstatat(file.descriptor, $0, &result, AT_SYMLINK_NOFOLLOW) }
    } catch .noSuchFileOrDirectory {
      return nil
    }
    return result
  }

  // MARK: Making

  func makeDirectory(_ name: ItemName) throws(Errno) {
    _ = try calling(name) { mkdirat(file.descriptor, $0, 0o700) }
  }

  func makeLink(_ name: ItemName, to target: [UInt8]) throws(Errno) {
    let target = target.map { CChar(bitPattern: $0) } + [0]
    _ = try calling(name) { symlinkat(target, file.descriptor, $0) }
  }

  /// A new file.
  func makeFile(_ name: ItemName) throws(Errno) -> OpenFile {
    return OpenFile(
      owning: try calling(name) {
        openat(file.descriptor, $0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
      })
  }

  /// A further name here for a file that has one in `other`.
  func link(_ name: ItemName, to old: ItemName, in other: OpenDirectory) throws(Errno) {
    let from = Self.text(old)
    _ = try calling(name) { linkat(other.file.descriptor, from, file.descriptor, $0, 0) }
  }

  /// EEXIST where there is something.
  func rename(_ old: ItemName, to name: ItemName) throws(Errno) {
    let from = Self.text(old)
    do throws(Errno) {
      _ = try calling(name) {
        linux_renameat2(file.descriptor, from, file.descriptor, $0, linux_rename_noreplace)
      }
    } catch .invalidArgument {
      // Some file systems do not know the flag.
      guard try status(name) == nil else { throw .fileExists }
      _ = try calling(name) { renameat(file.descriptor, from, file.descriptor, $0) }
    }
  }

  func remove(_ name: ItemName) throws(Errno) {
    _ = try calling(name) { unlinkat(file.descriptor, $0, 0) }
  }

  // MARK: Attributes

  func setMode(_ mode: UInt16, of name: ItemName) throws(Errno) {
    _ = try calling(name) { fchmodat(file.descriptor, $0, mode_t(mode), 0) }
  }

  func setTimes(_ times: [timespec], of name: ItemName) throws(Errno) {
    _ = try calling(name) { utimensat(file.descriptor, $0, times, Int32(AT_SYMLINK_NOFOLLOW)) }
  }

  /// There is no such call that is relative to a directory.
  func setAttribute(_ attribute: String, _ value: [UInt8], of name: ItemName) throws(Errno) {
    let path = Array("/proc/self/fd/\(file.descriptor)/".utf8) + name.bytes
    let text = path.map { CChar(bitPattern: $0) } + [0]
    _ = try retrying { linux_lsetxattr(text, attribute, value, value.count, 0) }
  }

  private func calling(_ name: ItemName, _ body: (UnsafePointer<CChar>) -> Int32) throws(Errno)
    -> Int32
  {
    let text = Self.text(name)
    return try retrying { body(text) }
  }

  private static func text(_ name: ItemName) -> [CChar] {
    name.bytes.map { CChar(bitPattern: $0) } + [0]
  }
}
