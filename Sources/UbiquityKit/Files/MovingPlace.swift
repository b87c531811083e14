internal import Foundation
internal import Glibc
internal import Platform
internal import SystemPackage

/// A directory in a container in which something is made ready or done away with, seen by no other device:
/// its name ends in `.nosync`. What is in it appears in the container, or goes, with one rename.
///
/// Whoever made it holds it locked; what a program that was killed has left is removed by the next one.
struct MovingPlace {
  private static let prefix = ".moving-"

  let path: FilePath
  private let lock: OpenFile

  init(mountpoint: FilePath) throws(Errno) {
    Self.removeLeftovers(mountpoint)
    let name = Self.prefix + UUID().uuidString + ".nosync"
    path = mountpoint.appending(name)
    try path.makeDirectory()
    lock = try path.open(O_RDONLY | O_DIRECTORY)
    guard flock(lock.descriptor, LOCK_EX | LOCK_NB) == 0 else { throw Errno(rawValue: errno) }
  }

  var item: FilePath { path.appending("item") }

  /// Removes it with what is in it. What cannot be removed the next one tries again.
  func end() { try? path.removeTree() }

  private static func removeLeftovers(_ mountpoint: FilePath) {
    for name in (try? mountpoint.names()) ?? [] where name.string.hasPrefix(prefix) {
      let path = mountpoint.appending(name)
      guard name.string.hasSuffix(".nosync"), let there = try? path.open(O_RDONLY | O_DIRECTORY),
        isOld(there), flock(there.descriptor, LOCK_EX | LOCK_NB) == 0
      else { continue }
      try? path.removeTree()
    }
  }

  /// Not one that is being made just now, and is not locked yet.
  private static func isOld(_ directory: OpenFile) -> Bool {
    guard let made = try? directory.status().st_ctim.tv_sec else { return false }
    return time(nil) - made > 60
  }
}
