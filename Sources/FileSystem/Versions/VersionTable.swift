internal import Catalog
internal import Model
internal import Platform

/// A version that the kernel knows by a number.
struct KnownVersion: Sendable {
  let inode: InodeNumber
  var version: ContentVersion
  /// Of the file.
  var mode: UInt16
  var owner: UInt32
  var group: UInt32
  fileprivate var lookups: UInt64 = 0

  init(_ version: ContentVersion, of inode: Inode) {
    self.inode = inode.number
    self.version = version
    // Of a package it is one file.
    mode = inode.kind == .directory ? inode.mode & 0o666 : inode.mode
    owner = inode.owner
    group = inode.group
  }
}

/// The numbers of versions, from the lookup to the last forget. One that was resolved meanwhile
/// stays readable to who has it open, as a file that was removed does.
///
/// The lock is a leaf.
final class VersionTable: Sendable {
  private let known = Lock<[UInt64: KnownVersion]>([:])

  /// Counts a lookup, and gives the number: the preferred one, or where another version has that
  /// the next that is free.
  func add(_ new: KnownVersion) -> UInt64 {
    known.withLock { known in
      var number = VersionNode.preferred(new.version.id, of: new.inode)
      while let there = known[number],
        there.inode != new.inode || there.version.id != new.version.id
      {
        number = VersionNode.next(number)
      }
      var entry = new
      entry.lookups = (known[number]?.lookups ?? 0) + 1
      known[number] = entry
      return number
    }
  }

  /// A number that the kernel has from an earlier daemon. It forgets all of its lookups at once.
  func restore(_ version: KnownVersion, as number: UInt64) {
    known.withLock { $0[number] = version }
  }

  subscript(number: UInt64) -> KnownVersion? { known.withLock { $0[number] } }

  func forget(_ number: UInt64, count: UInt64) {
    known.withLock { known in
      guard let left = known[number]?.lookups else { return }
      if left > count { known[number]?.lookups = left - count } else { known[number] = nil }
    }
  }

  func removeAll() { known.withLock { $0 = [:] } }
}
