internal import GRDB
package import Model
internal import SystemPackage

/// Names: what is where, made, linked and removed. Checks come before the first write.
extension Engine {
  // MARK: Entries

  func child(_ name: ItemName, in parent: InodeNumber) throws -> InodeNumber? {
    let key = EntryKey(parent: parent, name: name)
    if let known = names.value(key) { return known.rawValue == 0 ? nil : known }
    let found = try database { db in
      try queries.child.first(db, parent.column, name.data) { $0.number(0) }
    }
    names.insert(key, found ?? InodeNumber(0))
    return found
  }

  func addEntry(_ parent: InodeNumber, _ name: ItemName, _ inode: Inode) throws {
    try write { db in
      try queries.insertEntry.run(db, parent.column, name.data, inode.number.column)
    }
    names.insert(EntryKey(parent: parent, name: name), inode.number)
    if inode.kind == .directory { parents.insert(inode.number, parent) }
  }

  func removeEntry(_ parent: InodeNumber, _ name: ItemName, _ inode: Inode) throws {
    try write { db in try queries.deleteEntry.run(db, parent.column, name.data) }
    names.insert(EntryKey(parent: parent, name: name), InodeNumber(0))
    if inode.kind == .directory { parents.remove(inode.number) }
  }

  func isEmpty(_ directory: InodeNumber) throws -> Bool {
    try database { db in
      try queries.anyEntry.first(db, directory.column) { _ in false } ?? true
    }
  }

  /// Every name of an inode, the oldest first.
  func links(of number: InodeNumber) throws -> [(parent: InodeNumber, name: ItemName)] {
    try database { db in
      try queries.links.all(db, number.column) { ($0.number(0), try $0.name(1)) }
    }
  }

  func children(of number: InodeNumber) throws -> [(name: ItemName, child: InodeNumber)] {
    try database { db in
      try queries.children.all(db, number.column) { (try $0.name(0), $0.number(1)) }
    }
  }

  /// The directory of the first name; nil for the root and for what has no name.
  func parent(of number: InodeNumber) throws -> InodeNumber? {
    if let known = parents.value(number) { return known }
    let found = try database { db in
      try queries.links.first(db, number.column) { $0.number(0) }
    }
    // Only a directory has one for good.
    if let found, try inode(number).kind == .directory { parents.insert(number, found) }
    return found
  }

  /// Whether `number` is `ancestor` or below it.
  func isBelow(_ number: InodeNumber, _ ancestor: InodeNumber) throws -> Bool {
    var current = number
    var steps = 0
    while current != ancestor {
      guard current != .root, let above = try parent(of: current) else { return false }
      current = above
      steps += 1
      guard steps < 1_000_000 else { throw CatalogDamage("a directory is below itself") }
    }
    return true
  }

  // MARK: Making

  func create(_ name: ItemName, in parent: InodeNumber, _ new: NewItem) throws -> Inode {
    let directory = try directory(parent)
    guard try child(name, in: parent) == nil else { throw Errno.fileExists }
    var made = fresh(new, in: directory)
    made.linkCount = new.kind == .directory ? 2 : 1
    made.isExcluded = directory.isExcluded || name.isExcludedFromSync
    made = try insert(made)
    try addEntry(parent, name, made)
    mark(made)
    try touch(directory, at: made.changed, subdirectories: new.kind == .directory ? 1 : 0)
    return made
  }

  func createUnnamed(in parent: InodeNumber, _ new: NewItem) throws -> Inode {
    guard new.kind == .file else { throw Errno.invalidArgument }
    let directory = try directory(parent)
    var made = fresh(new, in: directory)
    made.isOrphan = true
    made.isExcluded = directory.isExcluded
    // Its item is new, so no other row has this pair.
    made = try insert(made, detached: 1)
    unnamed.insert(made.number)
    return made
  }

  /// A set-group-ID directory gives its group, and to a directory the bit. Source: inode(7), mkdir(2).
  private func fresh(_ new: NewItem, in directory: Inode) -> Inode {
    let time = now
    let inherits = directory.mode & 0o2000 != 0
    var mode = new.mode & 0o7777
    if inherits, new.kind == .directory { mode |= 0o2000 }
    return Inode(
      number: InodeNumber(0), item: .random(), kind: new.kind, mode: mode, owner: new.owner,
      group: inherits ? directory.group : new.group, device: new.device, linkCount: 0,
      size: UInt64(new.target.count), accessed: time, modified: time, changed: time,
      created: time, target: new.target, generation: nextNumber())
  }

  func link(_ number: InodeNumber, as name: ItemName, in parent: InodeNumber) throws -> Inode {
    var inode = try inode(number)
    guard inode.kind != .directory else { throw Errno.notPermitted }
    let directory = try directory(parent)
    guard !inode.isOrphan || unnamed.contains(number) else { throw Errno.noSuchFileOrDirectory }
    guard try child(name, in: parent) == nil else { throw Errno.fileExists }
    let isExcludedHere = directory.isExcluded || name.isExcludedFromSync
    if inode.isExcluded, !inode.isOrphan, !isExcludedHere { try checkLeaving(number) }
    let time = now
    if inode.isOrphan {
      try write { db in try queries.attach.run(db, number.column) }
      unnamed.remove(number)
      inode.isOrphan = false
      inode.isExcluded = isExcludedHere
    } else {
      inode.isExcluded = inode.isExcluded && isExcludedHere
    }
    inode.linkCount += 1
    inode.changed = time
    try addEntry(parent, name, inode)
    try store(inode)
    mark(inode)
    try touch(directory, at: time)
    return inode
  }

  // MARK: Removing

  func remove(_ name: ItemName, in parent: InodeNumber, directory wantsDirectory: Bool) throws
    -> Inode
  {
    let above = try directory(parent)
    guard let number = try child(name, in: parent) else { throw Errno.noSuchFileOrDirectory }
    let inode = try inode(number)
    if wantsDirectory {
      guard inode.kind == .directory else { throw Errno.notDirectory }
      guard try isEmpty(number) else { throw Errno.directoryNotEmpty }
    } else {
      guard inode.kind != .directory else { throw Errno.isDirectory }
    }
    let time = now
    let after = try unlink(inode, from: parent, name, at: time)
    try touch(above, at: time, subdirectories: wantsDirectory ? -1 : 0)
    return after
  }

  /// Takes one name away, and what follows for the inode; the directory is left to the caller.
  func unlink(
    _ before: Inode, from parent: InodeNumber, _ name: ItemName, at time: Timestamp
  ) throws -> Inode {
    var inode = before
    try removeEntry(parent, name, inode)
    inode.linkCount = inode.kind == .directory ? 0 : inode.linkCount - 1
    inode.changed = time
    guard inode.linkCount == 0 else {
      try store(inode)
      mark(inode)
      try refreshExclusion(inode.number)
      return try self.inode(inode.number)
    }
    let wasExcluded = inode.isExcluded
    try orphan(&inode)
    if !wasExcluded, inode.kind.isSynced { try retire(inode.item) }
    return inode
  }

  /// Makes an inode that lost its last name an orphan: its item is free for another inode.
  func orphan(_ inode: inout Inode) throws {
    inode.linkCount = 0
    inode.isOrphan = true
    let number = inode.number
    try store(inode)
    try write { db in try queries.detach.run(db, number.column) }
  }

  /// An entry of a directory changed: its times, its links of subdirectories, its mark.
  func touch(_ directory: Inode, at time: Timestamp, subdirectories: Int = 0) throws {
    var after = try inode(directory.number)
    after.modified = time
    after.changed = time
    after.linkCount = UInt32(clamping: Int(after.linkCount) + subdirectories)
    try store(after)
    mark(after)
  }

  func orphans() throws -> [Inode] {
    try flush()
    let numbers = try database { db in try queries.orphans.all(db) { $0.number(0) } }
    return try numbers.map { try inode($0) }
  }

  func reclaim(_ number: InodeNumber) throws -> ContentKey? {
    let inode = try inode(number)
    guard inode.isOrphan else { throw Errno.resourceBusy }
    try delete(inode)
    return inode.contentKey
  }
}

extension Inode {
  /// The content file of a file, whether it exists or not; nil for what is no file.
  package var contentKey: ContentKey? {
    kind == .file ? ContentKey(item: item, generation: generation) : nil
  }
}
