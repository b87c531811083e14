package import Catalog
internal import ContentStore
internal import Coordination
internal import Model
internal import Platform
package import SystemPackage

/// Names: finding, making, moving and removing them. What gives a `FileStatus` for a name counts as
/// a lookup of it: the caller forgets it some time.
extension ContainerFileSystem {
  /// `.` of any inode, or `..` of a directory: for a file handle of an inode that the kernel has
  /// forgotten. Nil for any other name. ESTALE when the inode is gone.
  package func lookup(
    dots name: [UInt8], of number: InodeNumber
  ) throws(Errno) -> FileStatus? {
    let moment = moment
    switch name {
    case [0x2E]:
      return remembered(try inode(number), readAt: moment)
    case [0x2E, 0x2E]:
      guard try inode(number).kind == .directory else { throw .notDirectory }
      return remembered(try inode(try catalog.parent(of: number) ?? number), readAt: moment)
    default:
      return nil
    }
  }

  /// Nil when there is no such name.
  package func lookup(_ name: [UInt8], in parent: InodeNumber) throws(Errno) -> FileStatus? {
    let meant = try meaning(of: name, in: parent)
    let moment = moment
    guard let found = try catalog.lookup(meant, in: parent) else { return nil }
    var status = remembered(found, readAt: moment)
    status.isNamedExactly = meant.bytes == name
    return status
  }

  /// The name that a program means: the one it says, or where case does not matter and nothing has
  /// that one, a name in the directory that is like it; of several always the same.
  func meaning(of name: [UInt8], in parent: InodeNumber) throws(Errno) -> ItemName {
    let name = try ItemName(checking: name)
    guard foldsCase, try catalog.lookup(name, in: parent) == nil else { return name }
    return try catalog.names(like: name, in: parent).min() ?? name
  }

  /// Makes a directory, FIFO, socket, device node, symbolic link or empty file.
  package func make(
    _ name: [UInt8], in parent: InodeNumber, _ new: NewItem, umask: UInt16 = 0,
    request: RequestIdentity = .none
  ) throws(Errno) -> FileStatus {
    if new.kind == .symbolicLink {
      guard !new.target.isEmpty else { throw Errno.noSuchFileOrDirectory }
      guard new.target.count < 4096 else { throw Errno.fileNameTooLong }
    }
    let moment = moment
    let name = try meaning(of: name, in: parent)
    let access = try initialAccess(of: new.kind, mode: new.mode, umask: umask, in: parent)
    var new = new
    new.mode = access.mode
    var made: Catalog.Inode
    if let done = doneBefore(request) {
      made = try inode(done)
    } else {
      made = try catalog.create(name, in: parent, new, request: mark(of: request))
    }
    FaultPoint.reach("make.made")
    if access.hasLists {
      do throws(Errno) {
        try storeInitialAccess(access, of: made.number)
        made = try catalog.inode(made.number)
      } catch {
        _ = try? catalog.remove(name, in: parent, directory: new.kind == .directory)
        becameOrphan(made.number)
        throw error
      }
    }
    let status = remembered(made, readAt: moment)
    coordinator.tell(.created, name, in: parent)
    return status
  }

  package func link(
    _ number: InodeNumber, as name: [UInt8], in parent: InodeNumber,
    request: RequestIdentity = .none
  ) throws(Errno) -> FileStatus {
    // Where it was taken for an orphan, reclaiming it is refused from now on.
    let moment = moment
    if let done = doneBefore(request) { return remembered(try inode(done), readAt: moment) }
    let name = try meaning(of: name, in: parent)
    let linked = remembered(
      try catalog.link(number, as: name, in: parent, request: mark(of: request)), readAt: moment)
    FaultPoint.reach("link.made")
    coordinator.tell(.created, name, in: parent)
    return linked
  }

  /// `thread` is the one that asks; 0 where that is not known.
  package func remove(
    _ name: [UInt8], in parent: InodeNumber, directory: Bool, by thread: Int32 = 0,
    request: RequestIdentity = .none
  ) throws(Errno) {
    if doneBefore(request) != nil { return }
    let given = KernelName(parent, try ItemName(checking: name))
    let name = try meaning(of: name, in: parent)
    let removed = try catalog.remove(
      name, in: parent, directory: directory, request: mark(of: request)
    ) { () throws(Errno) in
      try checkKnown(given, by: thread)
    }
    FaultPoint.reach("remove.done")
    let exact = KernelName(parent, name)
    if exact != given { coordinator.correctKernel(names: [exact], inodes: []) }
    if removed.isOrphan {
      becameOrphan(removed.number)
    } else if coordinator.isStale(given) {
      coordinator.correctKernel(names: [], inodes: [removed.number])
    }
    coordinator.tell(.removed, name, in: parent)
  }

  private func checkKnown(_ name: KernelName, by thread: Int32) throws(Errno) {
    if coordinator.mustAskAgain(name, by: thread) { throw Errno.staleNFSFileHandle }
  }

  /// `thread` as of `remove`.
  package func rename(
    _ name: [UInt8], in parent: InodeNumber, to newName: [UInt8], in newParent: InodeNumber,
    mode: RenameMode, by thread: Int32 = 0, request: RequestIdentity = .none
  ) throws(Errno) {
    if doneBefore(request) != nil { return }
    let old = try ItemName(checking: name)
    let name = try meaning(of: name, in: parent)
    let given = try ItemName(checking: newName)
    // The kernel's names are those that the program gave; `casefold` may have found others.
    let (from, to) = (KernelName(parent, old), KernelName(newParent, given))
    let meant = try meaning(of: newName, in: newParent)
    // What is like the new name may be the old one: then case or form are to change.
    let newName = newParent == parent && meant == name ? given : meant
    let heir =
      mode == .replace
      ? try prepareReplacement(name, in: parent, of: newName, in: newParent) : nil
    // The kernel may have both the name that was given and the one that was found.
    let found =
      !foldsCase
      ? []
      : [KernelName(parent, name), KernelName(newParent, newName)].filter {
        $0 != from && $0 != to
      }
    let isExchange = mode == .exchange
    FaultPoint.reach("rename.before")
    coordinator.beginMoving()
    defer { coordinator.endMoving() }
    let outcome: RenameOutcome
    do throws(Errno) {
      outcome = try catalog.rename(
        name, in: parent, to: newName, in: newParent, mode: mode, heir: heir?.new,
        request: mark(of: request)
      ) { () throws(Errno) in try checkKnown(to, by: thread) }
    } catch {
      if let heir { try? store.remove(heir.new) }
      throw error
    }
    FaultPoint.reach("rename.done")
    if let heir { settle(heir, outcome) }
    coordinator.noteMove(
      of: outcome.moved, from: (parent, name), to: (newParent, newName),
      replaced: outcome.replaced, isExchange: isExchange)
    if !found.isEmpty || coordinator.isStale(from) || isExchange && coordinator.isStale(to) {
      coordinator.correctKernel(
        names: found + (isExchange ? [to, from] : [to]),
        inodes: [outcome.moved, outcome.replaced].compactMap { $0?.number })
    }
    if let replaced = outcome.replaced, replaced.isOrphan { becameOrphan(replaced.number) }
    if parent != newParent {
      coordinator.noteArrival(of: outcome.moved)
      if isExchange, let other = outcome.replaced { coordinator.noteArrival(of: other) }
    }
    coordinator.tellMove(from: name, in: parent, to: newName, in: newParent)
    if isExchange {
      coordinator.tellMove(from: newName, in: newParent, to: name, in: parent)
    }
  }

  /// Before a file takes another's name its bytes are made durable: after a power cut the name
  /// shows the old content or the new one, never an empty file, whether or not the program
  /// synchronised it. ext4 does as much (`auto_da_alloc`), and programs that save by renaming count
  /// on it.
  ///
  /// One that was made just now is to take over the item of the other: its content file gets the
  /// key that it has then, beside the one that it has, so that there is a file whichever row a
  /// crash leaves.
  private func prepareReplacement(
    _ name: ItemName, in parent: InodeNumber, of newName: ItemName, in newParent: InodeNumber
  ) throws(Errno) -> Heir? {
    guard let found = try catalog.lookup(name, in: parent), found.kind == .file else { return nil }
    // The row of a file that the kernel writes to may not know yet that there are bytes.
    try nodes.state(found.number)?.content?.look()
    coordinator.lookAtDetachedWriter(found.number)
    let source = try catalog.inode(found.number)
    guard source.content == .local, source.size > 0,
      let replaced = try catalog.lookup(newName, in: newParent), replaced.kind == .file,
      replaced.number != source.number
    else { return nil }
    let key = ContentKey(item: source.item, generation: source.generation)
    let file = try store.open(key, writable: false)
    guard isSaving(source, over: replaced) else {
      try store.synchronize(key, file)
      return nil
    }
    let heir = Heir(
      old: key, new: ContentKey(item: replaced.item, generation: source.generation))
    do throws(Errno) {
      try store.link(heir.old, as: heir.new)
    } catch {
      // Then it is one item in the place of another.
      try store.synchronize(key, file)
      return nil
    }
    FaultPoint.reach("rename.linked")
    try store.synchronize(heir.new, file)
    return heir
  }

  /// The keys of a content file that is to stand for another item.
  private struct Heir {
    let old: ContentKey
    let new: ContentKey
  }

  /// A file of which nobody can have seen much yet, as programs make them to save a document.
  private func isSaving(_ source: Catalog.Inode, over replaced: Catalog.Inode) -> Bool {
    let age = catalog.now.nanoseconds(since: source.created)
    return (0..<Self.savingTime).contains(age) && source.linkCount == 1
      && replaced.linkCount == 1 && !replaced.isExcluded
  }

  /// In nanoseconds. What was there for longer is a file of its own, which is moved.
  private static let savingTime: Int64 = 60_000_000_000

  private func settle(_ heir: Heir, _ outcome: RenameOutcome) {
    guard outcome.isHeir else {
      try? store.remove(heir.new)
      return
    }
    FaultPoint.reach("rename.inherited")
    nodes.state(outcome.moved.number)?.content?.rekey(from: heir.old, to: heir.new)
    catalog.afterDurableCommit { [store] in try? store.remove(heir.old) }
  }

  package func readLink(_ number: InodeNumber) throws(Errno) -> [UInt8] {
    let inode = try inode(number)
    guard inode.kind == .symbolicLink else { throw Errno.invalidArgument }
    return inode.target
  }

  /// Up to about `limit` names from `offset`, 0 being the start. Offsets stay right whatever is
  /// made or removed meanwhile. Listing counts as no lookup; who passes names on calls
  /// `remembered`, with the `moment` before this call.
  package func list(_ number: InodeNumber, from offset: UInt64, limit: Int) throws(Errno)
    -> [ListedName]
  {
    var result = try dots(of: number, from: offset).map { dot in
      ListedName(name: dot.name, inode: dot.inode, offset: dot.offset, isDot: true)
    }
    for entry in try catalog.readDirectory(
      number, after: Self.catalogOffset(offset), limit: max(1, limit))
    {
      result.append(
        ListedName(
          name: entry.name.bytes, inode: entry.inode, offset: UInt64(entry.offset), isDot: false))
    }
    return result
  }

  /// `list`, of which nothing is remembered.
  package func listNames(_ number: InodeNumber, from offset: UInt64, limit: Int) throws(Errno)
    -> [BareName]
  {
    var result = try dots(of: number, from: offset).map { dot in
      BareName(
        name: dot.name, number: dot.inode.number, kind: .directory, offset: dot.offset,
        isDot: true)
    }
    for entry in try catalog.readNames(
      number, after: Self.catalogOffset(offset), limit: max(1, limit))
    {
      result.append(
        BareName(
          name: entry.name.bytes, number: entry.number, kind: entry.kind,
          offset: UInt64(entry.offset), isDot: false))
    }
    return result
  }

  private func dots(of number: InodeNumber, from offset: UInt64) throws(Errno) -> [(
    name: [UInt8], inode: Inode, offset: UInt64
  )] {
    let directory = try inode(number)
    guard directory.kind == .directory else { throw Errno.notDirectory }
    var result: [(name: [UInt8], inode: Inode, offset: UInt64)] = []
    if offset < Self.dotOffset { result.append(([0x2E], directory, Self.dotOffset)) }
    if offset < Self.dotDotOffset {
      let above = try catalog.parent(of: number).flatMap { try? catalog.inode($0) } ?? directory
      result.append(([0x2E, 0x2E], above, Self.dotDotOffset))
    }
    return result
  }

  /// The catalog's offsets begin above those of the dots.
  private static func catalogOffset(_ offset: UInt64) -> Int64 {
    offset <= dotDotOffset ? 0 : Int64(clamping: offset)
  }

  private static var dotOffset: UInt64 { 1 }
  private static var dotDotOffset: UInt64 { 2 }

  /// Makes the names in a directory durable.
  package func synchronizeNames() throws(Errno) { try catalog.commit(durable: true) }
}

extension ItemName {
  /// Of what the kernel sends; the errno says why it is no name.
  init(checking bytes: [UInt8]) throws(Errno) {
    do {
      try self.init(bytes)
    } catch {
      switch error {
      case .empty: throw Errno.noSuchFileOrDirectory
      case .tooLong: throw Errno.fileNameTooLong
      case .reserved, .forbiddenByte: throw Errno.invalidArgument
      }
    }
  }
}
