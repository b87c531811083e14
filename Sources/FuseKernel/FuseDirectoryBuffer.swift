internal import CFuse3
internal import Glibc

/// The entries of one READDIR or READDIRPLUS answer, as many as fit.
package struct FuseDirectoryBuffer: ~Copyable {
  let start: UnsafeMutablePointer<CChar>
  package let capacity: Int
  private(set) var used = 0

  package init(capacity: Int) {
    start = .allocate(capacity: max(1, capacity))
    self.capacity = capacity
  }

  deinit { start.deallocate() }

  package var isEmpty: Bool { used == 0 }

  /// Adds an entry with its inode number and file type; false when it does not fit. `offset` is
  /// where reading goes on after it.
  package mutating func add(_ name: [UInt8], attributes: FuseAttributes, offset: UInt64) -> Bool {
    var attributes = stat(attributes)
    return append(name) { buffer, room, name in
      fuse_add_direntry(nil, buffer, room, name, &attributes, off_t(offset))
    }
  }

  /// Adds an entry that counts as a lookup unless its node is 0; false when it does not fit.
  package mutating func add(_ name: [UInt8], entry: FuseEntry, offset: UInt64) -> Bool {
    var parameters = fuse_entry_param(entry)
    return append(name) { buffer, room, name in
      fuse_add_direntry_plus(nil, buffer, room, name, &parameters, off_t(offset))
    }
  }

  private mutating func append(
    _ name: [UInt8],
    _ body: (UnsafeMutablePointer<CChar>, Int, UnsafePointer<CChar>?) -> Int
  ) -> Bool {
    let room = capacity - used
    let place = start + used
    let needed = withUnsafeTemporaryAllocation(of: CChar.self, capacity: name.count + 1) { text in
      for (index, byte) in name.enumerated() { text[index] = CChar(bitPattern: byte) }
      text[name.count] = 0
      return body(place, room, text.baseAddress)
    }
    guard needed <= room else { return false }
    used += needed
    return true
  }
}
