internal import GRDB
internal import Model
internal import SystemPackage

/// Renames, and what they do to where things sync.
extension Engine {
  /// Source: rename(2), renameat2(2).
  ///
  /// `admit` may refuse to move a directory to where another one may be. It is asked when nothing
  /// else is in the way.
  func rename(
    _ name: ItemName, in parent: InodeNumber, to newName: ItemName, in newParent: InodeNumber,
    mode: RenameMode, heir: ContentKey? = nil, admit: () throws(Errno) -> Void = {}
  ) throws -> RenameOutcome {
    let from = try directory(parent)
    let to = try directory(newParent)
    guard let number = try child(name, in: parent) else { throw Errno.noSuchFileOrDirectory }
    let source = try inode(number)
    if source.kind == .directory, try isBelow(newParent, number) { throw Errno.invalidArgument }
    let target = try child(newName, in: newParent).map { try inode($0) }
    switch mode {
    case .noReplace:
      guard target == nil else { throw Errno.fileExists }
    case .exchange:
      guard let target else { throw Errno.noSuchFileOrDirectory }
      if target.kind == .directory, try isBelow(parent, target.number) {
        throw Errno.invalidArgument
      }
    case .replace:
      if let target, target.number != source.number { try checkReplace(source, target) }
    }
    // Two names of one file, or one name: nothing is done, and that is success.
    if target?.number == source.number { return RenameOutcome(moved: source, replaced: nil) }
    try checkMove(source, excluded: to.isExcluded || newName.isExcludedFromSync)
    if mode == .replace, source.kind == .directory { try admit() }
    if mode == .exchange, let target {
      try checkMove(target, excluded: from.isExcluded || name.isExcludedFromSync)
      return try exchange(
        (source, name, from), (target, newName, to))
    }
    return try move((source, name, from), to: (newName, to), replacing: target, heir: heir)
  }

  private func checkReplace(_ source: Inode, _ target: Inode) throws {
    if target.kind == .directory {
      guard source.kind == .directory else { throw Errno.isDirectory }
      guard try isEmpty(target.number) else { throw Errno.directoryNotEmpty }
    } else if source.kind == .directory {
      throw Errno.notDirectory
    }
  }

  private typealias NewPlace = (name: ItemName, directory: Inode)
  private typealias Place = (inode: Inode, name: ItemName, directory: Inode)

  private func move(
    _ source: Place, to place: NewPlace, replacing target: Inode?, heir: ContentKey?
  ) throws -> RenameOutcome {
    let time = now
    var replaced: Inode?
    var gone = 0
    let inherits = try target.map { try canInherit(source.inode, from: $0, heir) } ?? false
    if let target {
      replaced =
        inherits
        ? try succeeded(target, in: place, at: time)
        : try unlink(target, from: place.directory.number, place.name, at: time)
      if target.kind == .directory { gone = 1 }
    }
    // Within its directory it keeps its place in listings: a program that renames what it lists
    // would else find its own work for ever.
    let stays = source.directory.number == place.directory.number
    let id = stays ? try entry(source.name, in: source.directory.number).id : nil
    try setEntry(source.directory.number, source.name, child: InodeNumber(0))
    try setEntry(place.directory.number, place.name, child: source.inode.number, id: id)
    let isDirectory = source.inode.kind == .directory
    if isDirectory { parents.insert(source.inode.number, place.directory.number) }
    var moved = try settle(source.inode.number, at: place, time)
    if inherits, let target { moved = try inherit(moved, from: target) }
    let leaves = source.directory.number != place.directory.number && isDirectory ? 1 : 0
    try touch(source.directory, at: time, subdirectories: -leaves)
    try touch(place.directory, at: time, subdirectories: leaves - gone)
    return RenameOutcome(moved: moved, replaced: replaced, isHeir: inherits)
  }

  private func exchange(_ first: Place, _ second: Place) throws -> RenameOutcome {
    let time = now
    for (place, other) in [(first, second), (second, first)] {
      let id = try entry(place.name, in: place.directory.number).id
      try setEntry(place.directory.number, place.name, child: other.inode.number, id: id)
      if other.inode.kind == .directory {
        parents.insert(other.inode.number, place.directory.number)
      }
    }
    let moved = try settle(first.inode.number, at: (second.name, second.directory), time)
    let replaced = try settle(second.inode.number, at: (first.name, first.directory), time)
    let change =
      first.directory.number == second.directory.number
      ? 0
      : (second.inode.kind == .directory ? 1 : 0) - (first.inode.kind == .directory ? 1 : 0)
    try touch(first.directory, at: time, subdirectories: change)
    try touch(second.directory, at: time, subdirectories: -change)
    return RenameOutcome(moved: moved, replaced: replaced)
  }

  /// An inode has a new name: its change time, its mark, and whether it syncs.
  private func settle(_ number: InodeNumber, at place: NewPlace, _ time: Timestamp) throws
    -> Inode
  {
    var inode = try inode(number)
    inode.changed = time
    try store(inode)
    mark(inode)
    let isExcludedHere = place.directory.isExcluded || place.name.isExcludedFromSync
    if isExcludedHere { hasExclusions = true }
    // One name that syncs is enough; of what has one name only, that one decides.
    if !inode.isExcluded, !isExcludedHere { return inode }
    let hasOneName = inode.kind == .directory || inode.linkCount == 1
    if hasOneName, inode.isExcluded == isExcludedHere { return inode }
    try refreshExclusion(number)
    return try self.inode(number)
  }

  // MARK: Saving by renaming

  private func canInherit(_ source: Inode, from target: Inode, _ heir: ContentKey?) throws -> Bool {
    guard let heir, source.kind == .file, target.kind == .file,
      heir == ContentKey(item: target.item, generation: source.generation),
      source.linkCount == 1, source.content == .local, target.linkCount == 1,
      !target.isExcluded, !target.isDetached
    else { return false }
    // Versions that wait to be resolved go where their item goes.
    guard let row = try remoteRow(source.item) else { return true }
    return try [row.record, row.applied].allSatisfy { try decode($0)?.conflicts.isEmpty ?? true }
  }

  /// What an heir takes the name and the item of: who has it open keeps it.
  private func succeeded(_ target: Inode, in place: NewPlace, at time: Timestamp) throws -> Inode {
    var after = target
    try removeEntry(place.directory.number, place.name, after)
    after.changed = time
    try orphan(&after)
    return after
  }

  /// A program saved a document by writing a new file and renaming it over the old one. To the
  /// other devices that is a new content of the item, not another item in its place: so an edit
  /// that was made elsewhere meets it as a version of one file, and the versions that wait to be
  /// resolved stay with it.
  private func inherit(_ moved: Inode, from target: Inode) throws -> Inode {
    var heir = moved
    // Whether anybody heard of it or not.
    retire(heir.item)
    heir.item = target.item
    // It is of the other item.
    heir.version = nil
    heir.isPinned = heir.isPinned || target.isPinned
    try store(heir)
    mark(heir)
    return heir
  }

  // MARK: Exclusion

  /// EXDEV where a move into or out of what does not sync cannot be done by renaming, so that `mv`
  /// copies instead: into it, content must be here, for the backend's copy goes; out of it, an item
  /// whose identity a remote item took meanwhile needs a new one.
  private func checkMove(_ inode: Inode, excluded: Bool) throws {
    guard excluded != inode.isExcluded else { return }
    try forEachBelow(inode.number) { item in
      if excluded {
        guard item.content == .local || item.kind != .file else { throw Errno.improperLink }
      } else {
        try checkLeaving(item.number)
      }
    }
  }

  func checkLeaving(_ number: InodeNumber) throws {
    guard try !inode(number).isDetached else { throw Errno.improperLink }
  }

  /// Visits an inode and everything below it, parents first.
  func forEachBelow(_ number: InodeNumber, _ body: (Inode) throws -> Void) throws {
    var waiting = [number]
    while let next = waiting.popLast() {
      let inode = try inode(next)
      try body(inode)
      if inode.kind == .directory { waiting += try children(of: next).map(\.child) }
    }
  }

  /// Computes anew whether an inode, and what is below it, syncs. It does if one of its names does.
  /// What enters is retired remotely, what leaves is new there.
  func refreshExclusion(_ number: InodeNumber) throws {
    var waiting = [number]
    while let next = waiting.popLast() {
      var inode = try inode(next)
      guard next != .root, !inode.isOrphan else { continue }
      let isExcluded = try links(of: next).allSatisfy { link in
        try link.name.isExcludedFromSync || self.inode(link.parent).isExcluded
      }
      guard isExcluded != inode.isExcluded else { continue }
      inode.isExcluded = isExcluded
      // The version goes with the item; a content that came back would be a new one.
      if isExcluded, inode.content == .local { inode.version = nil }
      try store(inode)
      if isExcluded, inode.kind.isSynced {
        retire(inode.item)
      } else {
        mark(inode)
      }
      if inode.kind == .directory { waiting += try children(of: next).map(\.child) }
    }
  }
}
