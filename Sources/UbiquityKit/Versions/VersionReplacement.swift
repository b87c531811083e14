internal import ControlProtocol
internal import Foundation
internal import Glibc
internal import Platform
internal import SystemPackage

/// Puts a version's content in a document's place.
enum VersionReplacement {
  static func run(_ version: VersionFacts, at url: URL) throws(CocoaError) {
    let source = try ItemCalls.path(version.url)
    let target = try ItemCalls.path(url)
    if version.isCurrent, version.document.standardizedFileURL == url.standardizedFileURL { return }
    let document = try ItemCalls.path(version.document)
    do throws(Errno) {
      let moving = try place(for: target, url)
      defer { moving.end() }
      let isPackage = (try? document.status()).map { $0.st_mode & S_IFMT == S_IFDIR } ?? false
      if isPackage, !version.isCurrent {
        try unpack(source, to: moving.item)
      } else {
        try copy(source, to: moving.item)
      }
      try replace(target, with: moving.item)
    } catch {
      throw UbiquityErrors.cocoa(error, error == .noSpace ? .writing : .reading, at: version.url)
    }
  }

  /// On the target's file system: in a container, where no other device sees it.
  private static func place(for target: FilePath, _ url: URL) throws(Errno) -> MovingPlace {
    let directory = target.removingLastComponent()
    if let item = try? ItemCalls.locate(url.deletingLastPathComponent(), .writing) {
      return try MovingPlace(
        mountpoint: FilePath(String(decoding: item.mountpoint.bytes, as: UTF8.self)))
    }
    return try MovingPlace(mountpoint: directory.isEmpty ? "." : directory)
  }

  private static func copy(_ source: FilePath, to target: FilePath) throws(Errno) {
    var copy = TreeCopy()
    do throws(TreeCopy.Failure) { try copy.run(source, to: target) } catch { throw error.error }
    // It was saved now, and there is a new version of the document.
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    if try target.status().st_mode & S_IFMT == S_IFREG { try target.setMode(0o644) }
    try target.setTimes([now, now])
  }

  private static func unpack(_ archive: FilePath, to target: FilePath) throws(Errno) {
    try target.makeDirectory(mode: 0o755)
    // Opened here, so that a content that cannot be had is an error of its own.
    let file = try archive.open(O_RDONLY)
    _ = try file.read(count: 1, at: 0)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = ["tar", "--xattrs", "--xattrs-include=user.*", "-x", "-p", "-f", "-", "-C", target.string]
    process.standardInput = FileHandle(fileDescriptor: file.descriptor, closeOnDealloc: false)
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    do { try process.run() } catch { throw .noSuchFileOrDirectory }
    process.waitUntilExit()
    withExtendedLifetime(file) {}
    guard process.terminationStatus == 0 else { throw .ioError }
  }

  /// Seen as a whole or not at all. What was there is in `new`'s place then, or gone.
  private static func replace(_ target: FilePath, with new: FilePath) throws(Errno) {
    let parent = target.removingLastComponent()
    if let there = try? target.status() {
      if there.st_mode & S_IFMT != S_IFLNK {
        for name in try target.attributeNames()
        where name.hasPrefix("user.") && !name.hasPrefix("user.ubiquity.") {
          if let value = try target.attribute(name) { try new.setAttribute(name, value) }
        }
        try new.setMode(there.st_mode & 0o7777)
      }
      if there.st_mode & S_IFMT == S_IFDIR {
        try new.exchange(with: target)
      } else {
        try new.rename(to: target)
      }
    } else {
      try new.rename(to: target)
    }
    try (parent.isEmpty ? FilePath(".") : parent).synchronizeDirectory()
  }
}
