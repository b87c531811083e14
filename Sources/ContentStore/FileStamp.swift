package import Glibc

/// The fields of `fstat` that change with the bytes of a content file.
package struct FileStamp: Equatable {
  package let size: UInt64
  package let modified: Int64
  package let changed: Int64
  /// Of 512 bytes. No part of what is compared: the local file system changes it by itself.
  package let blocks: UInt64
  /// The file gets a second name and loses the first when it comes to stand for another item.
  package let links: UInt64

  package init(_ status: stat) {
    size = UInt64(max(0, status.st_size))
    modified = Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
    changed = Int64(status.st_ctim.tv_sec) * 1_000_000_000 + Int64(status.st_ctim.tv_nsec)
    blocks = UInt64(max(0, status.st_blocks))
    links = UInt64(status.st_nlink)
  }

  package static func == (left: Self, right: Self) -> Bool {
    // Another number of names is a change too, and not one of the content, which shows in its own
    // time.
    left.size == right.size && left.modified == right.modified
      && (left.changed == right.changed || left.links != right.links)
  }

  /// The kernel's clock for file times ticks this often at the least.
  package static var tick: Int64 { 20_000_000 }

  /// The modification time for a row that had `known`. The file's clock is the kernel's coarse one:
  /// it may be a little behind ours, and time is not to go back because of that, nor stand still. A
  /// time that was set on purpose is further away.
  package func modified(after known: Int64) -> Int64 {
    modified < known && known - modified < Self.tick ? known + 1 : modified
  }
}
