package import Model
package import SystemPackage

/// Names and inodes as POSIX has them. Each call is atomic.
///
/// `request` is what the kernel calls the request that a call does, 0 for none: it is noted with
/// the change, in one record.
///
/// Every change marks the item dirty and, where an entry changes, the directory too, unless they
/// are of a kind or under a name that does not sync. Permissions are the kernel's to check.
extension ContainerCatalog {
  /// ENOENT when there is none.
  package func inode(_ number: InodeNumber) throws(Errno) -> Inode {
    try run { try $0.inode(number) }
  }

  /// What has the name in the directory; nil when nothing has. ENOTDIR when it is no directory.
  package func lookup(_ name: ItemName, in parent: InodeNumber) throws(Errno) -> Inode? {
    try optional { engine in
      guard try engine.inode(parent).kind == .directory else { throw Errno.notDirectory }
      return try engine.child(name, in: parent).map { try engine.inode($0) }
    }
  }

  /// Makes an item. EEXIST when the name is taken, ENOENT when the directory was removed.
  ///
  /// `noting` is called with its number under the catalog's lock, before anyone else can see the
  /// item: a file that is made to be written is never seen as one that is empty and closed. It may
  /// take leaf locks. The call may still throw after.
  package func create(
    _ name: ItemName, in parent: InodeNumber, _ new: NewItem, request: UInt64 = 0,
    noting: (InodeNumber) -> Void = { _ in }
  ) throws(Errno) -> Inode {
    try run { engine in
      let made = try engine.operation {
        try engine.requireRoom()
        let made = try engine.create(name, in: parent, new)
        engine.note(request, made.number)
        return made
      }
      noting(made.number)
      if engine.hasDirectChanges { try engine.commitDatabase() }
      if request != 0 { engine.doneObserver?(request, made.number) }
      return made
    }
  }

  /// Makes a file that has no name (O_TMPFILE): an orphan that `link` may still name.
  package func createUnnamed(
    in parent: InodeNumber, _ new: NewItem, request: UInt64 = 0
  ) throws(Errno) -> Inode {
    try change(for: request, telling: \.number) { engine in
      try engine.requireRoom()
      return try engine.createUnnamed(in: parent, new)
    }
  }

  /// Gives an inode a further name. EPERM for a directory, ENOENT for what was removed, EXDEV out
  /// of `.nosync` where the item's identity is taken, and into it where the content is not local.
  package func link(
    _ number: InodeNumber, as name: ItemName, in parent: InodeNumber, request: UInt64 = 0
  ) throws(Errno) -> Inode {
    try change(for: request, telling: \.number) { engine in
      try engine.requireRoom()
      return try engine.link(number, as: name, in: parent)
    }
  }

  /// Takes a name away, of a directory with `directory`; gives the inode after, an orphan when that
  /// was its last name. The caller reclaims an orphan once nothing has it open.
  ///
  /// `admit` is called under the catalog's lock when a directory can be removed, and may refuse. It
  /// may take leaf locks.
  package func remove(
    _ name: ItemName, in parent: InodeNumber, directory: Bool, request: UInt64 = 0,
    admit: () throws(Errno) -> Void = {}
  ) throws(Errno) -> Inode {
    try change(for: request, telling: \.number) {
      try $0.remove(name, in: parent, directory: directory, admit: admit)
    }
  }

  /// EXDEV for what cannot go into or out of `.nosync` by a rename: evicted content into it, and
  /// out of it an item whose identity a remote item took. `mv` copies then.
  ///
  /// With `heir` a file that replaces another takes over its item, if the content file of the moved
  /// one is there under this key too: see `Engine.inherit`. Otherwise it is as without.
  ///
  /// `admit` is as that of `remove`, for a directory that may take another one's place.
  package func rename(
    _ name: ItemName, in parent: InodeNumber, to newName: ItemName, in newParent: InodeNumber,
    mode: RenameMode, heir: ContentKey? = nil, request: UInt64 = 0,
    admit: () throws(Errno) -> Void = {}
  ) throws(Errno) -> RenameOutcome {
    try change(for: request, telling: \.moved.number) {
      try $0.rename(
        name, in: parent, to: newName, in: newParent, mode: mode, heir: heir, admit: admit)
    }
  }

  /// Up to `limit` entries in the order of their offsets, from the first after `after`; 0 for the
  /// start. An entry keeps its offset while it stays in its directory.
  package func readDirectory(_ number: InodeNumber, after: Int64, limit: Int) throws(Errno)
    -> [DirectoryEntry]
  {
    flushAhead { $0.mustSettle(toList: number) }
    return try run { engine in
      guard try engine.inode(number).kind == .directory else { throw Errno.notDirectory }
      return try engine.readDirectory(number, after: after, limit: limit)
    }
  }

  /// The same entries, without their inodes.
  package func readNames(_ number: InodeNumber, after: Int64, limit: Int) throws(Errno)
    -> [NameEntry]
  {
    flushAhead { $0.mustSettle(toList: number) }
    return try run { engine in
      guard try engine.inode(number).kind == .directory else { throw Errno.notDirectory }
      return try engine.readNames(number, after: after, limit: limit)
    }
  }

  /// The directory that an inode's first name is in; nil for the root and for orphans.
  package func parent(of number: InodeNumber) throws(Errno) -> InodeNumber? {
    try optional { engine in
      _ = try engine.inode(number)
      return try engine.parent(of: number)
    }
  }

  /// The first path of an inode from the root, which is empty; nil for an orphan and what is below.
  package func path(of number: InodeNumber) throws(Errno) -> [ItemName]? {
    try optional { engine in
      _ = try engine.inode(number)
      var result: [ItemName] = []
      var current = number
      while current != .root {
        guard let link = try engine.links(of: current).first, result.count < 1_000_000 else {
          return nil
        }
        result.append(link.name)
        current = link.parent
      }
      return result.reversed()
    }
  }

  /// The first name of an inode and its directory; nil for the root and for orphans.
  package func firstLink(of number: InodeNumber) throws(Errno) -> (
    parent: InodeNumber, name: ItemName
  )? {
    try optional { engine in
      _ = try engine.inode(number)
      return try engine.links(of: number).first
    }
  }

  /// What has no name, but was not reclaimed.
  package func orphans() throws(Errno) -> [Inode] {
    try run { try $0.orphans() }
  }

  /// Deletes an orphan; gives its content file, if it is a file. EBUSY when it is no orphan.
  ///
  /// Unlink the content file in `afterDurableCommit`: the removal of the name may not be committed
  /// yet, and after a crash the name would be back with nothing behind it.
  package func reclaim(_ number: InodeNumber) throws(Errno) -> ContentKey? {
    try optional { engine in try engine.operation { try engine.reclaim(number) } }
  }

  package func counts() throws(Errno) -> CatalogCounts { try run { try $0.currentCounts() } }
}
