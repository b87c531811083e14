internal import Foundation
internal import Glibc

/// By which it is seen that a file is not what it was.
struct FileStamp: Hashable, Sendable {
  let inode: UInt
  let size: Int
  let seconds: Int
  let nanoseconds: Int
  let mode: UInt32

  init(_ status: stat) {
    inode = UInt(status.st_ino)
    size = Int(status.st_size)
    seconds = status.st_mtim.tv_sec
    nanoseconds = status.st_mtim.tv_nsec
    mode = status.st_mode
  }

  /// Nil where nothing is. Links are not followed; downloads nothing.
  init?(_ url: URL) {
    var status = stat()
    let isThere = url.withUnsafeFileSystemRepresentation { path in
      path.map { lstat($0, &status) == 0 } ?? false
    }
    guard isThere else { return nil }
    self.init(status)
  }

  var isDirectory: Bool { mode & S_IFMT == S_IFDIR }
  var isRegularFile: Bool { mode & S_IFMT == S_IFREG }
  var isSymbolicLink: Bool { mode & S_IFMT == S_IFLNK }
  var permissions: UInt32 { mode & 0o7777 }

  var modificationDate: Date {
    Date(timeIntervalSince1970: Double(seconds) + Double(nanoseconds) / 1e9)
  }
}
