internal import CLinux
internal import Glibc
internal import OperationSequences

extension Side {
  /// The number of every device node that actions make.
  static let device: UInt64 = 0x0103

  func perform(_ operation: Operation) throws -> Outcome {
    switch operation {
    case .open(let number, let path, let flags, let mode):
      slots[number] = try check(Glibc.open(path.text, Self.native(flags), mode_t(mode)))
    case .close(let number):
      guard let old = slots.removeValue(forKey: number) else { throw Refusal(EBADF) }
      offsets[number] = nil
      try check(Glibc.close(old))
    case .makeNode(let path, let kind, let mode):
      try check(
        mknod(
          path.text, Self.type(kind) | mode_t(mode),
          kind == .characterDevice || kind == .blockDevice ? dev_t(Self.device) : 0))
    case .makeDirectory(let path, let mode):
      try check(mkdir(path.text, mode_t(mode)))
    case .makeSymbolicLink(let target, let path):
      try check(symlink(target, path.text))
    case .link(let from, let to):
      try check(linkat(try directory(of: from), from.text, try directory(of: to), to.text, 0))
    case .unlink(let path):
      try check(unlink(path.text))
    case .removeDirectory(let path):
      try check(rmdir(path.text))
    case .rename(let from, let to, let mode):
      let flags: UInt32 =
        mode == .replace
        ? 0 : mode == .noReplace ? linux_rename_noreplace : linux_rename_exchange
      try check(
        linux_renameat2(
          try directory(of: from), from.text, try directory(of: to), to.text, flags))
    default:
      return try performOnContent(operation)
    }
    return .done
  }

  private static func native(_ flags: OpenFlags) -> Int32 {
    // Nothing may wait for the other end of a FIFO.
    var result = O_CLOEXEC | O_NONBLOCK
    if flags.contains([.read, .write]) {
      result |= O_RDWR
    } else if flags.contains(.write) {
      result |= O_WRONLY
    }
    if flags.contains(.create) { result |= O_CREAT }
    if flags.contains(.exclusive) { result |= O_EXCL }
    if flags.contains(.truncate) { result |= O_TRUNC }
    if flags.contains(.append) { result |= O_APPEND }
    if flags.contains(.directory) { result |= O_DIRECTORY }
    return result
  }

  private static func type(_ kind: NodeKind) -> mode_t {
    switch kind {
    case .file: S_IFREG
    case .directory: S_IFDIR
    case .symbolicLink: S_IFLNK
    case .fifo: S_IFIFO
    case .socket: S_IFSOCK
    case .characterDevice: S_IFCHR
    case .blockDevice: S_IFBLK
    }
  }

  private func performOnContent(_ operation: Operation) throws -> Outcome {
    switch operation {
    case .write(let number, let offset, let count, let fill):
      let bytes = [UInt8](repeating: fill, count: count)
      return .number(Int64(try check(pwrite(try slot(number), bytes, count, off_t(offset)))))
    case .read(let number, let offset, let count):
      var bytes = [UInt8](repeating: 0, count: count)
      let got = try check(pread(try slot(number), &bytes, count, off_t(offset)))
      return .bytes(Array(bytes[..<got]))
    case .truncateOpen(let number, let size):
      try check(ftruncate(try slot(number), off_t(size)))
    case .truncate(let path, let size):
      try check(Glibc.truncate(path.text, off_t(size)))
    case .allocate(let number, let mode, let offset, let length):
      try check(linux_fallocate(try slot(number), mode.rawValue, Int64(offset), Int64(length)))
    case .seekData(let number, let offset):
      return .number(try seek(number, offset, linux_seek_data))
    case .seekHole(let number, let offset):
      return .number(try seek(number, offset, linux_seek_hole))
    case .copyRange(let from, let offset, let to, let newOffset, let count):
      var (input, output) = (Int64(offset), Int64(newOffset))
      return .number(
        try check(
          linux_copy_file_range(try slot(from), &input, try slot(to), &output, count)))
    case .synchronize(let number):
      try check(number % 2 == 1 ? fdatasync(try slot(number)) : fsync(try slot(number)))
    default:
      return try performOnAttributes(operation)
    }
    return .done
  }

  /// Of a file; offsets of a directory are its file system's own.
  private func seek(_ number: Int, _ offset: UInt64, _ whence: Int32) throws -> Int64 {
    let descriptor = try slot(number)
    guard try status(of: descriptor).kind != .directory else { throw Refusal(EINVAL) }
    return Int64(try check(lseek(descriptor, off_t(offset), whence)))
  }
}
