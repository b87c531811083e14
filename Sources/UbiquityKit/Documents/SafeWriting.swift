internal import Foundation
internal import Glibc

/// Writing so that there is the old content or the new one at any time, after a crash too.
enum SafeWriting {
  /// A name beside the item that stays on this device: nobody sees what is half written.
  static func temporary(beside url: URL) -> URL {
    let name = url.lastPathComponent.utf8.count > 100 ? "document" : url.lastPathComponent
    let random = String(UInt64.random(in: 0...UInt64.max), radix: 36)
    return url.deletingLastPathComponent()
      .appendingPathComponent(".\(name).\(random).nosync")
  }

  /// Makes a file that is on the disk when this returns.
  static func create(_ url: URL, with data: Data, permissions: UInt32 = 0o666) throws {
    let descriptor = url.withUnsafeFileSystemRepresentation { path in
      path.map { open($0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions) } ?? -1
    }
    guard descriptor >= 0 else { throw DiskError.current(url) }
    defer { close(descriptor) }
    try data.withUnsafeBytes { buffer in
      var rest = buffer[...]
      while !rest.isEmpty {
        let count = write(
          descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if count < 0 {
          guard errno == EINTR else { throw DiskError.current(url) }
        } else {
          rest = rest.dropFirst(count)
        }
      }
    }
    guard fsync(descriptor) == 0 else { throw DiskError.current(url) }
  }

  static func rename(_ from: URL, to: URL) throws {
    let code = from.withUnsafeFileSystemRepresentation { old in
      to.withUnsafeFileSystemRepresentation { new in
        guard let old, let new else { return Int32(-1) }
        return Glibc.rename(old, new)
      }
    }
    guard code == 0 else { throw DiskError.current(to) }
  }

  /// Makes the directory's names durable.
  static func synchronize(_ directory: URL) throws {
    let descriptor = directory.withUnsafeFileSystemRepresentation { path in
      path.map { open($0, O_RDONLY | O_DIRECTORY | O_CLOEXEC) } ?? -1
    }
    guard descriptor >= 0 else { throw DiskError.current(directory) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw DiskError.current(directory) }
  }

  /// Puts `data` in the place of the file, with the mode and the user's attributes that it had.
  static func replace(
    _ url: URL, with data: Data, attributes: [String: [UInt8]] = [:]
  ) throws {
    if data.isEmpty, FileStamp(url)?.isRegularFile == true {
      // An empty file that takes another's place would be another item; and half of nothing is nothing.
      for (name, value) in attributes { try ExtendedAttribute.set(name, to: value, of: url) }
      return try empty(url)
    }
    let temporary = temporary(beside: url)
    do {
      try stage(temporary, data, like: url)
      for (name, value) in attributes { try ExtendedAttribute.set(name, to: value, of: temporary) }
      try rename(temporary, to: url)
    } catch {
      try? FileManager.default.removeItem(at: temporary)
      throw error
    }
    try synchronize(url.deletingLastPathComponent())
  }

  private static func empty(_ url: URL) throws {
    let descriptor = url.withUnsafeFileSystemRepresentation { path in
      path.map { open($0, O_WRONLY | O_TRUNC | O_CLOEXEC) } ?? -1
    }
    guard descriptor >= 0 else { throw DiskError.current(url) }
    defer { close(descriptor) }
    guard fsync(descriptor) == 0 else { throw DiskError.current(url) }
  }

  /// A new file at `temporary` that can take the place of `url`.
  static func stage(_ temporary: URL, _ data: Data, like url: URL) throws {
    let old = FileStamp(url)
    guard let old, old.isRegularFile else { return try create(temporary, with: data) }
    try create(temporary, with: data, permissions: old.permissions)
    // What the process's mask took away.
    _ = temporary.withUnsafeFileSystemRepresentation { path in
      path.map { chmod($0, old.permissions) }
    }
    for name in ExtendedAttribute.names(of: url) {
      guard let value = ExtendedAttribute.bytes(name, of: url) else { continue }
      try ExtendedAttribute.set(name, to: value, of: temporary)
    }
  }
}
