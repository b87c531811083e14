internal import CLinux
internal import Glibc
internal import Platform
internal import SystemPackage

/// System calls on paths that need not be UTF-8, with typed errors and retried `EINTR`. No link at
/// the end of a path is followed.
extension FilePath {
  @discardableResult
  private func call<Result: SignedInteger>(_ body: (UnsafePointer<CChar>) -> Result) throws(Errno)
    -> Result
  {
    try retrying { withPlatformString { body($0) } }
  }

  func status() throws(Errno) -> Glibc.stat {
    var result = Glibc.stat()
    try call { lstat($0, &result) }
    return result
  }

  var isThere: Bool { (try? status()) != nil }

  func open(_ flags: Int32, mode: UInt32 = 0o600) throws(Errno) -> OpenFile {
    OpenFile(owning: try call { Glibc.open($0, flags | O_CLOEXEC | O_NOFOLLOW, mode) })
  }

  func makeDirectory(mode: UInt32 = 0o700) throws(Errno) { try call { mkdir($0, mode) } }

  func makeFIFO() throws(Errno) { try call { mkfifo($0, 0o600) } }

  func makeLink(to target: FilePath) throws(Errno) {
    try target.call { target in withPlatformString { link(target, $0) } }
  }

  func makeSymbolicLink(to target: FilePath) throws(Errno) {
    try target.call { target in withPlatformString { symlink(target, $0) } }
  }

  func linkTarget() throws(Errno) -> FilePath {
    let size = Int(PATH_MAX) + 1
    var buffer = [CChar](repeating: 0, count: size)
    let count = try call { readlink($0, &buffer, size - 1) }
    buffer[Int(count)] = 0
    return buffer.withUnsafeBufferPointer { FilePath(platformString: $0.baseAddress!) }
  }

  func setMode(_ mode: UInt32) throws(Errno) { try call { chmod($0, mode) } }

  func setOwner(_ user: UInt32, _ group: UInt32) throws(Errno) {
    try call { lchown($0, user, group) }
  }

  func setTimes(_ times: [timespec]) throws(Errno) {
    try call { utimensat(AT_FDCWD, $0, times, Int32(AT_SYMLINK_NOFOLLOW)) }
  }

  /// Whether what is in the directory may be changed by this process.
  var isWritable: Bool { withPlatformString { access($0, W_OK | X_OK) } == 0 }

  /// The names in a directory, in any order.
  func names() throws(Errno) -> [FilePath.Component] {
    guard let directory = withPlatformString({ opendir($0) }) else { throw Errno(rawValue: errno) }
    defer { closedir(directory) }
    var result: [FilePath.Component] = []
    while true {
      errno = 0
      guard let entry = readdir(directory) else {
        guard errno == 0 else { throw Errno(rawValue: errno) }
        return result
      }
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) {
          FilePath.Component(platformString: $0)
        }
      }
      if let name, name.kind == .regular { result.append(name) }
    }
  }

  func synchronizeDirectory() throws(Errno) { try open(O_RDONLY | O_DIRECTORY).synchronize() }

  /// Fails with EEXIST where there is something.
  func renameExclusively(to target: FilePath) throws(Errno) {
    do throws(Errno) {
      try call { from in
        target.withPlatformString {
          linux_renameat2(AT_FDCWD, from, AT_FDCWD, $0, linux_rename_noreplace)
        }
      }
    } catch {
      // File systems that do not know this: the moment between is theirs.
      guard error == .invalidArgument || error == Errno(rawValue: ENOSYS) else { throw error }
      guard !target.isThere else { throw .fileExists }
      try rename(to: target)
    }
  }

  func rename(to target: FilePath) throws(Errno) {
    try call { from in target.withPlatformString { Glibc.rename(from, $0) } }
  }

  /// Two names of one file system change places.
  func exchange(with other: FilePath) throws(Errno) {
    try call { from in
      other.withPlatformString {
        linux_renameat2(AT_FDCWD, from, AT_FDCWD, $0, linux_rename_exchange)
      }
    }
  }

  /// Removes what is there and all below it; nothing if it is gone.
  func removeTree() throws(Errno) {
    do throws(Errno) {
      try FaultPoint.check("kit.remove")
      guard try status().st_mode & S_IFMT == S_IFDIR else {
        try call { unlink($0) }
        return
      }
      for name in try names() { try appending(name).removeTree() }
      try call { rmdir($0) }
    } catch .noSuchFileOrDirectory {}
  }

  // MARK: Extended attributes

  /// EOPNOTSUPP where the file system has none: no attributes then.
  func attributeNames() throws(Errno) -> [String] {
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    do throws(Errno) {
      let count = try call { linux_llistxattr($0, &buffer, 1 << 16) }
      return buffer[..<Int(count)].split(separator: 0).map { String(decoding: $0, as: UTF8.self) }
    } catch .notSupported {
      return []
    }
  }

  /// Nil where there is none of the name.
  func attribute(_ name: String) throws(Errno) -> [UInt8]? {
    var size = 1 << 12
    while true {
      var buffer = [UInt8](repeating: 0, count: size)
      do throws(Errno) {
        let count = try call { linux_lgetxattr($0, name, &buffer, size) }
        return Array(buffer[..<Int(count)])
      } catch {
        switch error {
        case .noData, .notSupported: return nil
        // ERANGE: attributes have 64 KiB at most.
        case Errno(rawValue: ERANGE) where size < 1 << 16: size = 1 << 16
        default: throw error
        }
      }
    }
  }

  func setAttribute(_ name: String, _ value: [UInt8]) throws(Errno) {
    try call { linux_lsetxattr($0, name, value, value.count, 0) }
  }
}
