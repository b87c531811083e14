internal import CLinux
internal import Glibc
internal import OperationSequences

extension Side {
  func performOnAttributes(_ operation: Operation) throws -> Outcome {
    switch operation {
    case .changeMode(let path, let mode):
      try check(chmod(path.text, mode_t(mode)))
    case .changeOwner(let path, let user, let group):
      try check(lchown(path.text, user ?? .max, group ?? .max))
    case .changeTimes(let path, let accessed, let modified):
      let times = [Self.time(accessed), Self.time(modified)]
      try check(utimensat(AT_FDCWD, path.text, times, AT_SYMLINK_NOFOLLOW))
    case .setAttribute(let path, let name, let value, let flag):
      try check(linux_lsetxattr(path.text, name, value.bytes, value.count, flag.rawValue))
    case .getAttribute(let path, let name):
      return .bytes(try attribute(path, name))
    case .listAttributes(let path):
      return .names(try attributeNames(path))
    case .removeAttribute(let path, let name):
      try check(linux_lremovexattr(path.text, name))
    case .status(let path):
      return .status(normal(try status(path)))
    case .statusOpen(let number):
      return .status(normal(try status(of: try slot(number))))
    case .fileSystemStatus(let path):
      var result = statvfs()
      try check(statvfs(path.text, &result))
      return .number(Int64(result.f_namemax))
    case .readLink(let path):
      return .bytes(try target(path))
    case .list(let path):
      return .names(try list(path))
    case .listSome(let number, let count):
      return .names(try listSome(number, count))
    case .seekListing(let number, let quarters):
      try seekListing(number, quarters)
    default:
      throw Refusal(ENOSYS)
    }
    return .done
  }

  private static func time(_ change: TimeChange) -> timespec {
    switch change {
    case .omit: timespec(tv_sec: 0, tv_nsec: (1 << 30) - 2)
    case .now: timespec(tv_sec: 0, tv_nsec: (1 << 30) - 1)
    case .at(let time):
      timespec(tv_sec: Int(time / 1_000_000_000), tv_nsec: Int(time % 1_000_000_000))
    }
  }

  func attribute(_ path: Path, _ name: String) throws -> [UInt8] {
    var value = [UInt8](repeating: 0, count: 1024)
    let count = try check(linux_lgetxattr(path.text, name, &value, value.count))
    return Array(value[..<Int(count)])
  }

  func attributeNames(_ path: Path) throws -> [Name] {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = try check(linux_llistxattr(path.text, &bytes, bytes.count))
    return bytes[..<Int(count)].split(separator: 0).map { Name(Array($0)) }.sorted()
  }

  func target(_ path: Path) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = try bytes.withUnsafeMutableBytes { buffer in
      try check(
        readlink(path.text, buffer.bindMemory(to: CChar.self).baseAddress!, buffer.count))
    }
    return Array(bytes[..<count])
  }

  // MARK: Status

  func status(_ path: Path) throws -> ItemStatus {
    var result = stat()
    try check(lstat(path.text, &result))
    return Self.describe(result)
  }

  func status(of descriptor: Int32) throws -> ItemStatus {
    var result = stat()
    try check(fstat(descriptor, &result))
    return Self.describe(result)
  }

  private static func describe(_ status: stat) -> ItemStatus {
    func time(_ time: timespec) -> Int64 {
      Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
    let kind: NodeKind =
      switch status.st_mode & S_IFMT {
      case S_IFREG: .file
      case S_IFDIR: .directory
      case S_IFLNK: .symbolicLink
      case S_IFIFO: .fifo
      case S_IFSOCK: .socket
      case S_IFCHR: .characterDevice
      default: .blockDevice
      }
    return ItemStatus(
      number: UInt64(status.st_ino), kind: kind, mode: UInt16(status.st_mode & 0o7777),
      links: UInt64(status.st_nlink), user: status.st_uid, group: status.st_gid,
      size: UInt64(status.st_size), device: UInt64(status.st_rdev),
      accessed: time(status.st_atim), modified: time(status.st_mtim),
      changed: time(status.st_ctim))
  }

  /// Without what is each file system's own: the inode number, the size of a directory, and times
  /// that were not set to a value but by the clock.
  func normal(_ status: ItemStatus) -> ItemStatus {
    var status = status
    status.number = 0
    if status.kind == .directory { status.size = 0 }
    if status.accessed >= Side.latestGiven { status.accessed = 0 }
    if status.modified >= Side.latestGiven { status.modified = 0 }
    if status.changed >= Side.latestGiven { status.changed = 0 }
    return status
  }
}
