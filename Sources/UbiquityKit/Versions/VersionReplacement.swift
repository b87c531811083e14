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
    let isInContainer = (try? ItemCalls.locate(url, .writing)) != nil
    do throws(Errno) {
      let moving = try place(for: target, url)
      defer { moving.end() }
      let isPackage = (try? document.status()).map { $0.st_mode & S_IFMT == S_IFDIR } ?? false
      if isPackage, !version.isCurrent {
        try unpack(source, to: moving.item)
      } else {
        try copy(source, to: moving.item)
      }
      try replace(target, with: moving.item, isInContainer: isInContainer)
    } catch {
      throw UbiquityErrors.cocoa(error, error == .noSpace ? .writing : .reading, at: version.url)
    }
  }

  /// On the target's file system: in a container, where no other device sees it.
  private static func place(for target: FilePath, _ url: URL) throws(Errno) -> MovingPlace {
    let directory = target.removingLastComponent()
    if let item = try? ItemCalls.locate(url.deletingLastPathComponent(), .writing) {
      return try MovingPlace(
        in: FilePath(String(decoding: item.mountpoint.bytes, as: UTF8.self)))
    }
    return try MovingPlace(in: directory.isEmpty ? "." : directory)
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
    process.arguments = [
      "tar", "--xattrs", "--xattrs-include=user.*", "-x", "-p", "-f", "-", "-C", target.string,
    ]
    process.standardInput = FileHandle(fileDescriptor: file.descriptor, closeOnDealloc: false)
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    do { try process.run() } catch { throw .noSuchFileOrDirectory }
    process.waitUntilExit()
    withExtendedLifetime(file) {}
    guard process.terminationStatus == 0 else { throw .ioError }
  }

  /// A document of a container keeps its identity, and with it the other versions: another one in
  /// its place would have none. So its content is changed, from what is here already as a whole.
  private static func replace(_ target: FilePath, with new: FilePath, isInContainer: Bool)
    throws(Errno)
  {
    let parent = target.removingLastComponent()
    guard let there = try? target.status() else {
      try new.renameExclusively(to: target)
      return try (parent.isEmpty ? FilePath(".") : parent).synchronizeDirectory()
    }
    let isDirectory = there.st_mode & S_IFMT == S_IFDIR
    guard isDirectory == (try new.status().st_mode & S_IFMT == S_IFDIR) else {
      throw isDirectory ? .isDirectory : .notDirectory
    }
    if isDirectory {
      try fill(target, with: new)
    } else if isInContainer {
      try overwrite(target, with: new)
    } else {
      try new.setMode(there.st_mode & 0o7777)
      try new.rename(to: target)
      try (parent.isEmpty ? FilePath(".") : parent).synchronizeDirectory()
    }
  }

  private static func overwrite(_ target: FilePath, with new: FilePath) throws(Errno) {
    let from = try new.open(O_RDONLY)
    let size = UInt64(try from.status().st_size)
    let to = try target.open(O_WRONLY | O_TRUNC)
    var offset: UInt64 = 0
    while offset < size {
      let bytes = try from.read(count: Int(min(size - offset, 1 << 20)), at: offset)
      guard !bytes.isEmpty else { throw .ioError }
      try to.write(bytes, at: offset)
      offset += UInt64(bytes.count)
    }
    try to.synchronize()
  }

  /// What is in a package goes, and what is in the other one comes. No device sees the middle: the
  /// package is sent when it has been left alone for a moment, or the claim on it is over.
  private static func fill(_ target: FilePath, with new: FilePath) throws(Errno) {
    let old = FilePath(new.string + ".old")
    try old.makeDirectory()
    for name in try target.names() { try target.appending(name).rename(to: old.appending(name)) }
    for name in try new.names() { try new.appending(name).rename(to: target.appending(name)) }
    try target.synchronizeDirectory()
  }
}
