package import Model
package import SystemPackage

/// fsck.
extension ContainerCatalog {
  /// Proves the invariants. `contentKeys` are the content files that there are, `size` gives one's
  /// length, nil where there is none; both describe one moment only while nothing is open.
  package func check(contentKeys: [ContentKey], size: (ContentKey) -> UInt64?) throws(Errno)
    -> [Problem]
  {
    try change { engine in
      try withoutActuallyEscaping(size) { size in
        let checking = Checking(engine, files: contentKeys, size: size)
        try checking.check()
        return checking.problems
      }
    }
  }

  /// Puts right what can be without losing anything that is still there, durably; gives what was
  /// repaired and the content files that are to be unlinked now. One repair may uncover another
  /// problem: check again after.
  package func repair(contentKeys: [ContentKey], size: (ContentKey) -> UInt64?) throws(Errno)
    -> (repaired: [Problem], obsolete: [ContentKey])
  {
    let result = try change { engine in
      try withoutActuallyEscaping(size) { size in
        let checking = Checking(engine, files: contentKeys, size: size)
        try checking.check()
        return try checking.repair()
      }
    }
    try commit(durable: true)
    return result
  }

  /// Visits every inode, orphans included, in the order of their numbers, a page at a time.
  package func forEachInode(_ body: (Inode) -> Void) throws(Errno) {
    var last = InodeNumber(0)
    while true {
      let page = try change { engine in
        return try engine.database { db in
          try engine.queries.allInodes.all(db, last.column, Int64(512)) { try Inode($0) }
        }
      }
      guard let end = page.last else { return }
      for inode in page { body(inode) }
      last = end.number
    }
  }
}
