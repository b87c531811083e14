internal import GRDB
package import Model
internal import SystemPackage

/// Names: what is where, made, linked and removed. Checks come before the first write.
extension Engine {
  // MARK: Entries

  /// What the name means; `none` when nothing has it.
  func entry(_ name: ItemName, in parent: InodeNumber) throws -> EntryValue {
    let key = EntryKey(parent: parent, name: name)
    if let known = names.value(key) { return known }
    let found: EntryValue
    if let change = pending.entry(parent, name) ?? flushing?.overlay.entry(parent, name) {
      found = EntryValue(child: change.child, id: change.id)
    } else {
      found =
        try read { db in
          try queries.entry.first(db, parent.column, name) { row in
            EntryValue(child: row.number(0), id: row.integer(1))
          }
        } ?? .none
      names.insert(key, found)
      if found.child.rawValue != 0 { bringAhead(parent, missed: found.id) }
      return found
    }
    names.insert(key, found)
    return found
  }

  func child(_ name: ItemName, in parent: InodeNumber) throws -> InodeNumber? {
    let found = try entry(name, in: parent)
    return found.child.rawValue == 0 ? nil : found.child
  }

  /// Gives a name its meaning, `none` to take it away. A new name gets a new number unless it comes
  /// with one: by numbers a directory is listed.
  func setEntry(
    _ parent: InodeNumber, _ name: ItemName, child: InodeNumber, id: Int64? = nil
  ) throws {
    let before = try entry(name, in: parent)
    let slot = pending.entry(parent, name)
    note(.entry(parent, name, slot: slot, was: before))
    let isThere = child.rawValue != 0
    folded.changed(parent, name, isThere: isThere)
    let isNew = slot?.isNew ?? (before.child.rawValue == 0)
    if !isThere, isNew {
      pending.setEntry(parent, name, nil)
      names.insert(EntryKey(parent: parent, name: name), .none)
      return
    }
    let number = isThere ? id ?? newEntryNumber() : 0
    pending.setEntry(
      parent, name, Overlay.EntryChange(child: child, id: number, isNew: isNew))
    names.insert(EntryKey(parent: parent, name: name), EntryValue(child: child, id: number))
  }

  /// Gives a free name to an inode, past memory. The same operation has to `put` the row. Only
  /// within `write`: memory has nothing then that the database has not.
  func newEntry(_ parent: InodeNumber, _ name: ItemName, _ inode: Inode) -> NewEntry {
    note(.entry(parent, name, slot: nil, was: .none))
    names.remove(EntryKey(parent: parent, name: name))
    folded.changed(parent, name, isThere: true)
    if inode.kind == .directory { parents.insert(inode.number, parent) }
    return NewEntry(id: newEntryNumber(), parent: parent, name: name, child: inode.number)
  }

  func put(_ entries: [NewEntry], _ db: SQLConnection) throws {
    try queries.insertEntries.run(db, entries[...]) {
      ($0.id, $0.parent.column, $0.name, $0.child.column)
    }
  }

  private func newEntryNumber() -> Int64 {
    nextEntry += 1
    return nextEntry
  }

  func addEntry(_ parent: InodeNumber, _ name: ItemName, _ inode: Inode) throws {
    try setEntry(parent, name, child: inode.number)
    if inode.kind == .directory { parents.insert(inode.number, parent) }
  }

  func removeEntry(_ parent: InodeNumber, _ name: ItemName, _ inode: Inode) throws {
    try setEntry(parent, name, child: InodeNumber(0))
    if inode.kind == .directory { parents.remove(inode.number) }
  }

  /// What memory says of the names in a directory, the newest last.
  private func layers(_ directory: InodeNumber) -> [[ItemName: Overlay.EntryChange]] {
    [flushing?.overlay.entries[directory], pending.entries[directory]].compactMap { $0 }
  }

  func isEmpty(_ directory: InodeNumber) throws -> Bool {
    var known: [ItemName: Bool] = [:]
    for layer in layers(directory) {
      for (name, change) in layer { known[name] = change.isThere }
    }
    if known.values.contains(true) { return false }
    if case .stored(_, isNew: true) = pending.inodes[directory] { return true }
    let other = try read { db in
      try queries.entryNames.find(db, directory.column) { row in
        known[try row.name(0)] == nil
      }
    }
    return !other
  }

  /// Up to `limit` entries in the order of their numbers, from the first after `after`.
  func readDirectory(_ number: InodeNumber, after: Int64, limit: Int) throws -> [DirectoryEntry] {
    let known = layers(number)
    guard !mustSettle(toList: number) else {
      return try database { db in try rows(db, number, after: after, limit: limit) }
    }
    guard !known.isEmpty else {
      return try read { db in try rows(db, number, after: after, limit: limit) }
    }
    var changes: [ItemName: Overlay.EntryChange] = [:]
    for layer in known { changes.merge(layer) { _, new in new } }
    // What is removed below must not make the page look like the last one.
    var found: [DirectoryEntry] = []
    var position = after
    while found.count < limit {
      let page = try read { db in try rows(db, number, after: position, limit: limit) }
      found += page.filter { changes[$0.name] == nil }
      guard page.count == limit, let last = page.last else { break }
      position = last.offset
    }
    let isWhole = found.count < limit
    let end = found.last?.offset ?? .max
    for (name, change) in changes
    where change.isThere && change.id > after && (isWhole || change.id <= end) {
      found.append(
        DirectoryEntry(offset: change.id, name: name, inode: try inode(change.child)))
    }
    found.sort { $0.offset < $1.offset }
    return Array(found.prefix(limit))
  }

  /// `readDirectory`, without what costs most: whole rows.
  func readNames(_ number: InodeNumber, after: Int64, limit: Int) throws -> [NameEntry] {
    guard layers(number).isEmpty else {
      return try readDirectory(number, after: after, limit: limit).map {
        NameEntry(
          offset: $0.offset, name: $0.name, number: $0.inode.number, kind: $0.inode.kind)
      }
    }
    // That of a row does not change, whatever memory knows of it.
    return try read { db in
      try queries.readNames.all(db, number.column, after, Int64(limit)) { row in
        guard let kind = ItemKind(rawValue: row.small(3)) else {
          throw CatalogDamage("an inode's kind is unknown")
        }
        return NameEntry(
          offset: row.integer(0), name: try row.name(1), number: row.number(2), kind: kind)
      }
    }
  }

  func mustSettle(toList number: InodeNumber) -> Bool {
    layers(number).reduce(0) { $0 + $1.count } > Self.mergeLimit
  }

  /// More changed names than this in one directory are written before it is listed.
  private static var mergeLimit: Int { 256 }

  private func rows(_ db: SQLConnection, _ number: InodeNumber, after: Int64, limit: Int) throws
    -> [DirectoryEntry]
  {
    let rows = try queries.readDirectory.all(db, number.column, after, Int64(limit)) { row in
      DirectoryEntry(
        offset: row.integer(0), name: try row.name(1), inode: try Inode(row, from: 2))
    }
    return rows.map { entry in
      guard let change = change(entry.inode.number) else {
        // What is listed is mostly opened next.
        inodes.insert(entry.inode.number, entry.inode)
        return entry
      }
      guard let known = change.inode else { return entry }
      return DirectoryEntry(offset: entry.offset, name: entry.name, inode: known)
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
      guard steps < 1_000_000 else { throw CatalogDamage("directories form a cycle") }
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
    made.isDetached = true
    made.isExcluded = directory.isExcluded
    made = try insert(made)
    unnamed.insert(made.number)
    return made
  }

  /// A set-group-ID directory gives its group, and to a directory the bit. Source: inode(7),
  /// mkdir(2).
  private func fresh(_ new: NewItem, in directory: Inode) -> Inode {
    let time = now
    let inherits = directory.mode & 0o2000 != 0
    var mode = new.mode & 0o7777
    if inherits, new.kind == .directory { mode |= 0o2000 }
    var made = Inode(
      number: InodeNumber(0), item: identities.next(), kind: new.kind, mode: mode, owner: new.owner,
      group: inherits ? directory.group : new.group, device: new.device, linkCount: 0,
      size: UInt64(new.target.count), accessed: time, modified: time, changed: time,
      created: time, target: new.target, generation: nextNumber())
    made.blocks = 0
    return made
  }

  func link(_ number: InodeNumber, as name: ItemName, in parent: InodeNumber) throws -> Inode {
    var inode = try inode(number)
    guard inode.kind != .directory else { throw Errno.notPermitted }
    let directory = try directory(parent)
    guard !inode.isOrphan || unnamed.contains(number) else { throw Errno.noSuchFileOrDirectory }
    guard try child(name, in: parent) == nil else { throw Errno.fileExists }
    let isExcludedHere = directory.isExcluded || name.isExcludedFromSync
    // The new name stays when the log forgets the file, and the store its content.
    if isExcludedHere, !inode.isExcluded, inode.kind == .file, inode.content != .local {
      throw Errno.improperLink
    }
    if inode.isExcluded, !inode.isOrphan, !isExcludedHere { try checkLeaving(number) }
    let time = now
    if inode.isOrphan {
      unnamed.remove(number)
      inode.isOrphan = false
      inode.isDetached = false
      inode.isExcluded = isExcludedHere
    } else {
      inode.isExcluded = inode.isExcluded && isExcludedHere
    }
    if isExcludedHere { hasExclusions = true }
    inode.linkCount += 1
    inode.changed = time
    try addEntry(parent, name, inode)
    try store(inode)
    mark(inode)
    try touch(directory, at: time)
    return inode
  }

  // MARK: Removing

  /// `admit` may refuse to remove a directory. It is asked when nothing else is in the way.
  func remove(
    _ name: ItemName, in parent: InodeNumber, directory wantsDirectory: Bool,
    admit: () throws(Errno) -> Void = {}
  ) throws -> Inode {
    let above = try directory(parent)
    guard let number = try child(name, in: parent) else { throw Errno.noSuchFileOrDirectory }
    let inode = try inode(number)
    if wantsDirectory {
      guard inode.kind == .directory else { throw Errno.notDirectory }
      guard try isEmpty(number) else { throw Errno.directoryNotEmpty }
      try admit()
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
      // What is left of its names may not sync.
      try refreshExclusion(inode.number)
      return try self.inode(inode.number)
    }
    let wasExcluded = inode.isExcluded
    try orphan(&inode)
    if !wasExcluded, inode.kind.isSynced { retire(inode.item) }
    return inode
  }

  /// Makes an inode that lost its last name an orphan: its item is free for another inode.
  func orphan(_ inode: inout Inode) throws {
    inode.linkCount = 0
    inode.isOrphan = true
    inode.isDetached = true
    try store(inode)
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
