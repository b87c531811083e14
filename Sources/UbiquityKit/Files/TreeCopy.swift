internal import Glibc
internal import Platform
internal import SystemPackage

/// Copies a file or a tree to another file system, whole and durably: contents with their holes,
/// modes, times, attributes, symbolic and hard links, and for root owners.
///
/// Knows what it has read, so that it can be said afterwards whether that has changed meanwhile.
struct TreeCopy {
  private struct Seen {
    let path: FilePath
    let status: stat
  }

  private struct Identity: Hashable {
    let device: UInt
    let inode: UInt
  }

  private var seen: [Seen] = []
  private var linked: [Identity: FilePath] = [:]

  /// What could not be copied, and where.
  struct Failure: Error {
    let error: Errno
    let path: FilePath
  }

  /// `target` is not there yet. When it fails, part of it may be.
  mutating func run(_ source: FilePath, to target: FilePath) throws(Failure) {
    do throws(Errno) {
      try copy(source, to: target)
    } catch {
      // The item that was copied last.
      throw Failure(error: error, path: seen.last?.path ?? source)
    }
  }

  /// Something that was copied that is not any more as it was then, or is gone.
  func firstChange() -> FilePath? {
    seen.first { seen in
      guard let now = try? seen.path.status() else { return true }
      let then = seen.status
      return now.st_ino != then.st_ino || now.st_size != then.st_size
        || now.st_mtim.tv_sec != then.st_mtim.tv_sec
        || now.st_mtim.tv_nsec != then.st_mtim.tv_nsec
    }?.path
  }

  private mutating func copy(_ source: FilePath, to target: FilePath) throws(Errno) {
    let status = try source.status()
    seen.append(Seen(path: source, status: status))
    try FaultPoint.check("kit.copy")
    let kind = status.st_mode & S_IFMT
    if kind != S_IFDIR, status.st_nlink > 1 {
      let identity = Identity(device: UInt(status.st_dev), inode: UInt(status.st_ino))
      if let there = linked[identity] { return try target.makeLink(to: there) }
      linked[identity] = target
    }
    switch kind {
    case S_IFREG: try copyContent(source, to: target)
    case S_IFDIR:
      try target.makeDirectory()
      for name in try source.names() {
        try copy(source.appending(name), to: target.appending(name))
      }
    case S_IFLNK: try target.makeSymbolicLink(to: try source.linkTarget())
    case S_IFIFO: try target.makeFIFO()
    // Sockets are of their program, devices of their machine.
    default: throw .notSupported
    }
    try copyAttributes(source, to: target, status)
    if kind == S_IFDIR { try target.synchronizeDirectory() }
  }

  private func copyContent(_ source: FilePath, to target: FilePath) throws(Errno) {
    let from = try source.open(O_RDONLY)
    let to = try target.open(O_WRONLY | O_CREAT | O_EXCL)
    let length = 1 << 20
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: length, alignment: 4096)
    defer { buffer.deallocate() }
    var offset: UInt64 = 0
    while let start = try Self.data(in: from, from: offset) {
      offset = start
      let hole = try? from.nextHole(from: start)
      let size = UInt64(try from.status().st_size)
      let end = hole ?? size
      while offset < end {
        let room = min(length, Int(end - offset))
        let count = try from.read(
          into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<room]), at: offset)
        guard count > 0 else { break }
        try to.write(UnsafeRawBufferPointer(rebasing: buffer[..<count]), at: offset)
        offset += UInt64(count)
      }
      guard offset >= end else { break }
    }
    try to.truncate(to: UInt64(try from.status().st_size))
    try to.synchronize()
  }

  /// Where the next bytes are; everything is data where the file system does not say.
  private static func data(in file: OpenFile, from offset: UInt64) throws(Errno) -> UInt64? {
    do throws(Errno) { return try file.nextData(from: offset) } catch .invalidArgument {
      return offset < UInt64(try file.status().st_size) ? offset : nil
    }
  }

  private func copyAttributes(_ source: FilePath, to target: FilePath, _ status: stat)
    throws(Errno)
  {
    for name in try source.attributeNames() where !name.hasPrefix("user.ubiquity.") {
      guard let value = try source.attribute(name) else { continue }
      do throws(Errno) { try target.setAttribute(name, value) } catch {
        // Labels and lists of the other file system's; the user's own must come along.
        guard !name.hasPrefix("user.") || error == .notSupported else { throw error }
      }
    }
    if geteuid() == 0 { try target.setOwner(status.st_uid, status.st_gid) }
    if status.st_mode & S_IFMT != S_IFLNK { try target.setMode(status.st_mode & 0o7777) }
    try target.setTimes([status.st_atim, status.st_mtim])
  }
}
