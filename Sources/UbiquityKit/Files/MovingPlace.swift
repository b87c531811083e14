internal import Foundation
internal import Glibc
internal import Platform
internal import SystemPackage

/// A directory in which something is made ready or done away with, and which in a container no
/// other device sees: its name ends in `.nosync`. What is in it appears, or goes, with one rename.
///
/// Whoever made it holds it locked; what a program that was killed has left is removed by the next
/// one.
struct MovingPlace {
  private static let prefix = ".moving-"

  let path: FilePath
  private let lock: OpenFile

  /// In a container's root, or in any directory that is in none.
  init(in directory: FilePath) throws(Errno) {
    Self.removeLeftovers(directory)
    while true {
      let path = directory.appending(Self.prefix + UUID().uuidString + ".nosync")
      try path.makeDirectory()
      let lock = try path.open(O_RDONLY | O_DIRECTORY)
      // File systems without locks leave it without one, and then nobody removes it.
      _ = flock(lock.descriptor, LOCK_EX)
      // Whoever came between may have taken it for a leftover.
      guard let there = try? path.status(), try lock.status().st_ino == there.st_ino else {
        continue
      }
      self.path = path
      self.lock = lock
      return
    }
  }

  var item: FilePath { path.appending("item") }

  /// Removes it with what is in it. What cannot be removed the next one tries again.
  func end() { try? path.removeTree() }

  private static func removeLeftovers(_ directory: FilePath) {
    for name in (try? directory.names()) ?? [] where name.string.hasPrefix(prefix) {
      let path = directory.appending(name)
      guard name.string.hasSuffix(".nosync"), let there = try? path.open(O_RDONLY | O_DIRECTORY),
        flock(there.descriptor, LOCK_EX | LOCK_NB) == 0
      else { continue }
      try? path.removeTree()
    }
  }
}
