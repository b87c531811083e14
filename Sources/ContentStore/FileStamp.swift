package import Glibc
package import Model

/// The fields of `fstat` that change with the bytes of a content file.
package struct FileStamp: Equatable {
  package let size: UInt64
  package let modified: Timestamp
  package let changed: Timestamp
  /// Of 512 bytes. No part of what is compared: the local file system changes it by itself.
  package let blocks: UInt64
  /// The file gets a second name and loses the first when it comes to stand for another item.
  package let links: UInt64

  package init(_ status: stat) {
    size = UInt64(max(0, status.st_size))
    modified = Timestamp(status.st_mtim)
    changed = Timestamp(status.st_ctim)
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
  package func modified(after known: Timestamp) -> Timestamp {
    modified < known && known.nanoseconds(since: modified) < Self.tick
      ? known.advanced(by: 1) : modified
  }
}
