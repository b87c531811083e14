internal import Foundation
internal import Glibc
internal import Platform
internal import SystemPackage

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
  static func create(_ url: URL, with data: Data, permissions: UInt32 = 0o666) throws(CocoaError) {
    try ItemCalls.onDisk(url) { path throws(Errno) in
      try fill(try path.open(O_WRONLY | O_CREAT | O_EXCL, mode: permissions), with: data)
    }
  }

  private static func fill(_ file: OpenFile, with data: Data) throws(Errno) {
    var offset: UInt64 = 0
    for part in data.regions {
      try file.write(Array(part), at: offset)
      offset += UInt64(part.count)
    }
    try file.synchronize()
  }

  static func rename(_ from: URL, to: URL) throws(CocoaError) {
    let source = try ItemCalls.path(from)
    try ItemCalls.onDisk(to) { target throws(Errno) in try source.rename(to: target) }
  }

  /// Makes the directory's names durable.
  static func synchronize(_ directory: URL) throws(CocoaError) {
    try ItemCalls.onDisk(directory) { path throws(Errno) in
      // A link to a directory is one here.
      try path.appending(".").synchronizeDirectory()
    }
  }

  /// Puts `data` in the place of the file, with the mode and the user's attributes that it had.
  static func replace(
    _ url: URL, with data: Data, attributes: [String: [UInt8]] = [:]
  ) throws(CocoaError) {
    if data.isEmpty, FileStamp(url)?.isRegularFile == true {
      // An empty file that takes another's place would be another item; and half of nothing is
      // nothing.
      return try ItemCalls.onDisk(url) { path throws(Errno) in
        for (name, value) in attributes { try path.setAttribute(name, value) }
        try path.open(O_WRONLY | O_TRUNC).synchronize()
      }
    }
    let temporary = temporary(beside: url)
    do throws(CocoaError) {
      try stage(temporary, data, like: url)
      try ItemCalls.onDisk(temporary) { path throws(Errno) in
        for (name, value) in attributes { try path.setAttribute(name, value) }
      }
      try rename(temporary, to: url)
    } catch {
      try? FileManager.default.removeItem(at: temporary)
      throw error
    }
    try synchronize(url.deletingLastPathComponent())
  }

  /// A new file at `temporary` that can take the place of `url`.
  static func stage(_ temporary: URL, _ data: Data, like url: URL) throws(CocoaError) {
    let old = FileStamp(url)
    guard let old, old.isRegularFile else { return try create(temporary, with: data) }
    try create(temporary, with: data, permissions: old.permissions)
    let source = try ItemCalls.path(url)
    try ItemCalls.onDisk(temporary) { path throws(Errno) in
      // What the process's mask took away; that of who owns it not is as good as it can be.
      try? path.setMode(old.permissions)
      for name in try source.attributeNames() where isKept(name) {
        guard let value = try source.attribute(name) else { continue }
        try path.setAttribute(name, value)
      }
    }
  }

  /// The user's own attributes go on; what an item is here says the file system.
  private static func isKept(_ name: String) -> Bool {
    name.hasPrefix("user.") && !name.hasPrefix("user.ubiquity.")
  }
}
