internal import CLinux
package import Glibc
package import SystemPackage

/// System calls on paths, with typed errors and retried `EINTR`.
package enum Files {
  package static func makeDirectory(_ path: String, mode: UInt32 = 0o700) throws(Errno) {
    try FaultPoint.check("path.mkdir")
    _ = try retrying { mkdir(path, mode) }
  }

  /// Asks that what is made in the directory's subdirectories be spread over the disk. Only ext4
  /// and its forebears know this; elsewhere nothing happens.
  package static func spreadSubdirectories(of path: String) { _ = linux_spread_directories(path) }

  /// Makes the directory and what is missing above it; an existing one is left as it is.
  package static func makeDirectories(_ path: String, mode: UInt32 = 0o700) throws(Errno) {
    do {
      try makeDirectory(path, mode: mode)
    } catch .fileExists {
      guard try status(path).st_mode & S_IFMT == S_IFDIR else { throw .notDirectory }
    } catch .noSuchFileOrDirectory {
      let parent = path.split(separator: "/").dropLast().joined(separator: "/")
      guard !parent.isEmpty else { throw .noSuchFileOrDirectory }
      try makeDirectories((path.hasPrefix("/") ? "/" : "") + parent, mode: mode)
      do { try makeDirectory(path, mode: mode) } catch .fileExists {}
    }
  }

  package static func status(_ path: String) throws(Errno) -> stat {
    var result = stat()
    _ = try retrying { stat(path, &result) }
    return result
  }

  /// Whether anything is there, a dangling link included.
  package static func exists(_ path: String) -> Bool {
    var result = stat()
    return lstat(path, &result) == 0
  }

  package static func remove(_ path: String) throws(Errno) {
    try FaultPoint.check("path.unlink")
    _ = try retrying { unlink(path) }
  }

  package static func removeDirectory(_ path: String) throws(Errno) {
    try FaultPoint.check("path.rmdir")
    _ = try retrying { rmdir(path) }
  }

  /// Removes a directory and all below it. Links are removed, not followed.
  package static func removeTree(_ path: String) throws(Errno) {
    var result = stat()
    guard lstat(path, &result) == 0 else {
      if errno == ENOENT { return }
      throw Errno(rawValue: errno)
    }
    guard result.st_mode & S_IFMT == S_IFDIR else { return try remove(path) }
    for name in try names(in: path) { try removeTree(path + "/" + name) }
    try removeDirectory(path)
  }

  /// Gives a file another name.
  package static func link(_ path: String, as other: String) throws(Errno) {
    try FaultPoint.check("path.link")
    _ = try retrying { Glibc.link(path, other) }
  }

  package static func rename(_ from: String, _ to: String) throws(Errno) {
    try FaultPoint.check("path.rename")
    _ = try retrying { Glibc.rename(from, to) }
  }

  /// What one of the kernel's small files says, without the last line's end; nil if it is not
  /// there.
  package static func smallText(_ path: String, limit: Int = 256) -> String? {
    let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, filled in
      filled = max(0, Glibc.read(descriptor, buffer.baseAddress, buffer.count))
    }
    return String(decoding: bytes.last == 0x0a ? bytes.dropLast() : bytes[...], as: UTF8.self)
  }

  /// What a symbolic link names; nil where that cannot be read.
  package static func linkTarget(_ path: String) -> String? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
      guard let start = buffer.baseAddress else { return nil }
      let count = readlink(path, start, buffer.count)
      guard count > 0 else { return nil }
      return String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
  }

  /// The names in a directory, sorted, without `.` and `..`.
  package static func names(in path: String) throws(Errno) -> [String] {
    guard let directory = opendir(path) else { throw Errno(rawValue: errno) }
    defer { closedir(directory) }
    var result: [String] = []
    while true {
      errno = 0
      guard let entry = readdir(directory) else {
        // A list that an error cut short is none.
        guard errno == 0 else { throw Errno(rawValue: errno) }
        break
      }
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name != "." && name != ".." { result.append(name) }
    }
    return result.sorted()
  }

  /// Makes the directory's own entries durable.
  package static func synchronizeDirectory(_ path: String) throws(Errno) {
    try OpenFile.open(path, flags: O_RDONLY | O_DIRECTORY).synchronize()
  }

  /// The whole of a small file.
  package static func read(_ path: String) throws(Errno) -> [UInt8] {
    let file = try OpenFile.open(path, flags: O_RDONLY)
    return try file.read(count: Int(try file.status().st_size), at: 0)
  }

  /// Replaces a file whole and durably: after a crash it is the old one or the new one.
  package static func replace(_ path: String, with bytes: [UInt8], mode: UInt32 = 0o600)
    throws(Errno)
  {
    let temporary = try writeTemporary(beside: path, bytes, mode: mode)
    do throws(Errno) {
      try rename(temporary, path)
    } catch {
      unlink(temporary)
      throw error
    }
    try synchronizeDirectory(directory(of: path))
  }

  /// Makes a file, whole and durably. EEXIST where there is something.
  package static func create(_ path: String, with bytes: [UInt8], mode: UInt32 = 0o600)
    throws(Errno)
  {
    let temporary = try writeTemporary(beside: path, bytes, mode: mode)
    defer { unlink(temporary) }
    try link(temporary, as: path)
    try synchronizeDirectory(directory(of: path))
  }

  /// Its name is random, and nothing that is there already is opened: the directory may be one in
  /// which other users make files.
  private static func writeTemporary(beside path: String, _ bytes: [UInt8], mode: UInt32)
    throws(Errno) -> String
  {
    let temporary = "\(path).\(String(UInt64.random(in: 0...UInt64.max), radix: 16)).tmp"
    let file = try OpenFile.open(
      temporary, flags: O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: mode)
    do throws(Errno) {
      try file.write(bytes, at: 0)
      try file.synchronize()
    } catch {
      unlink(temporary)
      throw error
    }
    return temporary
  }

  private static func directory(of path: String) -> String {
    let parent = path.split(separator: "/").dropLast().joined(separator: "/")
    return (path.hasPrefix("/") ? "/" : "") + (parent.isEmpty ? "." : parent)
  }

  /// `path` from the root, without `.`, `..` and doubled slashes (as text: links are not looked
  /// at).
  package static func absolutePath(_ path: String) -> String {
    var parts: [Substring] = []
    if !path.hasPrefix("/"), let buffer = getcwd(nil, 0) {
      parts = String(cString: buffer).split(separator: "/")
      free(buffer)
    }
    for part in path.split(separator: "/") where part != "." {
      if part == ".." { _ = parts.popLast() } else { parts.append(part) }
    }
    return "/" + parts.joined(separator: "/")
  }
}
