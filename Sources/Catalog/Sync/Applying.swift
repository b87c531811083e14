package import Model
internal import SystemPackage

/// One batch of the sync engine being applied to the local tree.
///
/// The order of the steps lets names be swapped and chained within a batch: identities are adopted,
/// all names that go are taken away, items are made, names are given, contents and attributes set,
/// and only then must what is removed be empty.
final class Applying {
  private let engine: Engine
  private let isOpen: (InodeNumber) -> Bool
  private let isOpenForWriting: (InodeNumber) -> Bool
  private let time: Timestamp
  private var result = ApplyResult()
  /// Directories that got another parent; they must not be below themselves.
  private var movedDirectories: [(item: ItemID, number: InodeNumber)] = []
  private var relinked: Set<InodeNumber> = []
  private var collector = ChangeCollector()

  init(
    _ engine: Engine, isOpen: @escaping (InodeNumber) -> Bool,
    isOpenForWriting: @escaping (InodeNumber) -> Bool
  ) {
    self.engine = engine
    self.isOpen = isOpen
    self.isOpenForWriting = isOpenForWriting
    time = engine.now
  }

  func run(
    _ batch: [LocalOperation], given: [ItemID: UInt64?], keepingBaseOf kept: Set<ItemID>,
    keepingParentOf edits: Set<ItemID>, guarding trees: GuardedTrees?
  ) throws -> ApplyResult {
    try checkStamps(batch)
    if let trees { try check(trees) }
    for (item, stamp) in given where try engine.stamp(item) != stamp {
      throw ApplyFailure.changed(item)
    }
    for case .adopt(let local, let item) in batch { try adopt(local, as: item) }
    try checkWriters(batch)
    var removed: [(item: ItemID, number: InodeNumber)] = []
    for operation in batch {
      switch operation {
      case .upsert(let record, _, _):
        try check(record)
        if let inode = try engine.syncedInode(record.id) { try takeNames(inode, except: record) }
      case .remove(let item, _):
        if let inode = try engine.syncedInode(item) {
          guard item != .root else { throw ApplyFailure.system(.invalidArgument) }
          try takeNames(inode, except: nil)
          removed.append((item, inode.number))
        }
      case .adopt, .agree, .forgetBase: break
      }
    }
    for case .upsert(let record, _, _) in batch where try engine.syncedInode(record.id) == nil {
      try make(record)
    }
    for case .upsert(let record, _, _) in batch { try giveNames(record) }
    for case .upsert(let record, let content, _) in batch {
      try setContent(record, content)
      try setAttributes(record)
    }
    for (item, number) in removed { try finishRemoval(item, number) }
    try checkCycles()
    for number in relinked.sorted() { try engine.refreshExclusion(number) }
    for operation in batch { try agree(operation, kept, edits) }
    result.changes = try collector.changes { try engine.links(of: $0).first }
    return result
  }

  // MARK: Checks

  private func checkStamps(_ batch: [LocalOperation]) throws {
    var adopted: [ItemID: ItemID] = [:]
    for case .adopt(let local, let item) in batch { adopted[item] = local }
    for operation in batch {
      switch operation {
      case .upsert(let record, _, let stamp): try checkStamp(record.id, stamp, adopted)
      case .remove(let item, let stamp): try checkStamp(item, stamp, adopted)
      case .adopt, .agree, .forgetBase: break
      }
    }
  }

  private func checkStamp(_ item: ItemID, _ planned: UInt64?, _ adopted: [ItemID: ItemID]) throws {
    if try engine.stamp(item) == planned { return }
    // What takes over an identity brings its own mark along.
    if let source = adopted[item], try engine.stamp(source) == planned { return }
    throw ApplyFailure.changed(item)
  }

  private func checkWriters(_ batch: [LocalOperation]) throws {
    for operation in batch {
      let item: ItemID
      switch operation {
      case .remove(let id, _): item = id
      case .upsert(let record, let content, _):
        guard content != .keep, let inode = try engine.syncedInode(record.id),
          inode.version != record.content?.id || inode.version == nil
        else { continue }
        item = record.id
      case .adopt, .agree, .forgetBase: continue
      }
      if let inode = try engine.syncedInode(item), inode.kind == .file,
        isOpenForWriting(inode.number)
      {
        throw ApplyFailure.busy(item)
      }
    }
  }

  /// Whether a program changed something in one of the trees since, or is about to.
  private func check(_ trees: GuardedTrees) throws {
    var outside: Set<InodeNumber> = []
    for number in trees.writers where try isBelow(number, trees.roots, &outside) {
      throw ApplyFailure.busy(try engine.inode(number).item)
    }
    for item in try engine.marked(after: trees.mark) {
      if let inode = try engine.syncedInode(item),
        try isBelow(inode.number, trees.roots, &outside)
      {
        throw ApplyFailure.changed(item)
      }
    }
  }

  /// `outside` keeps what is in none of them.
  private func isBelow(
    _ number: InodeNumber, _ roots: Set<ItemID>, _ outside: inout Set<InodeNumber>
  ) throws -> Bool {
    var current = number
    var passed: [InodeNumber] = []
    while current != .root, !outside.contains(current) {
      if roots.contains(try engine.inode(current).item) { return true }
      passed.append(current)
      guard let above = try engine.parent(of: current) else { break }
      current = above
    }
    outside.formUnion(passed)
    return false
  }

  private func check(_ record: ItemRecord) throws {
    let isRoot = record.id == .root
    let hasRightLinks =
      isRoot
      ? record.links.isEmpty
      : record.kind == .directory ? record.links.count == 1 : !record.links.isEmpty
    let existing = try engine.syncedInode(record.id)
    guard record.kind.isSynced, hasRightLinks, existing == nil || existing?.kind == record.kind
    else { throw ApplyFailure.system(.invalidArgument) }
  }

  private func checkCycles() throws {
    // From these the way up is known to end in the root.
    var sound: Set<InodeNumber> = []
    for (item, number) in movedDirectories {
      var current = number
      var passed: Set<InodeNumber> = []
      while current != .root, !sound.contains(current) {
        guard passed.insert(current).inserted else {
          throw ApplyFailure.system(.tooManySymbolicLinkLevels)
        }
        guard let above = try engine.parent(of: current) else {
          throw ApplyFailure.changed(item)
        }
        current = above
      }
      sound.formUnion(passed)
    }
  }

  // MARK: Identity

  private func adopt(_ local: ItemID, as item: ItemID) throws {
    guard let inode = try engine.syncedInode(local), inode.kind == .directory, local != .root else {
      throw ApplyFailure.changed(local)
    }
    try detachExcluded(item)
    guard try engine.inodeNumber(of: item) == nil else { throw ApplyFailure.changed(item) }
    var after = inode
    after.item = item
    after.changed = time
    try engine.write { db in
      try engine.queries.setItem.run(db, item, inode.number.column)
    }
    try engine.store(after)
    if let stamp = try engine.stamp(local) {
      try engine.clearStamp(local)
      engine.setStamp(item, stamp)
    }
    result.invalidations.append(.attributes(inode.number))
  }

  /// An excluded inode that holds an item's identity gives it up: what was moved out of the synced
  /// tree stays where it is when another device brings the item back.
  private func detachExcluded(_ item: ItemID) throws {
    guard let number = try engine.inodeNumber(of: item), try engine.inode(number).isExcluded else {
      return
    }
    var inode = try engine.inode(number)
    inode.isDetached = true
    try engine.store(inode)
  }

  // MARK: Names

  /// Takes away the names that sync and that the record does not have.
  private func takeNames(_ before: Inode, except record: ItemRecord?) throws {
    let kept = Set(record?.links ?? [])
    for link in try engine.links(of: before.number) where !link.name.isExcludedFromSync {
      let parent = try engine.inode(link.parent)
      guard !parent.isExcluded, !kept.contains(Link(parent: parent.item, name: link.name)) else {
        continue
      }
      var inode = try engine.inode(before.number)
      try engine.removeEntry(parent.number, link.name, inode)
      inode.linkCount -= inode.kind == .directory ? 0 : 1
      inode.changed = time
      try engine.store(inode)
      if inode.kind == .directory { try addSubdirectories(-1, to: parent.number) }
      relinked.insert(inode.number)
      collector.lost(inode, parent.number, link.name)
      result.invalidations.append(.entry(parent: parent.number, name: link.name))
      result.invalidations.append(.attributes(parent.number))
    }
  }

  private func giveNames(_ record: ItemRecord) throws {
    guard record.id != .root, var inode = try engine.syncedInode(record.id) else { return }
    for link in record.links {
      guard let parent = try engine.syncedInode(link.parent), parent.kind == .directory else {
        throw ApplyFailure.changed(link.parent)
      }
      if let present = try engine.child(link.name, in: parent.number) {
        guard present == inode.number else { throw ApplyFailure.occupied(link) }
        continue
      }
      try engine.addEntry(parent.number, link.name, inode)
      if inode.kind == .directory {
        movedDirectories.append((record.id, inode.number))
        try addSubdirectories(1, to: parent.number)
      } else {
        inode.linkCount += 1
      }
      inode.changed = time
      try engine.store(inode)
      relinked.insert(inode.number)
      collector.gained(inode, parent.number, link.name)
      result.invalidations.append(.entry(parent: parent.number, name: link.name))
      result.invalidations.append(.attributes(parent.number))
    }
  }

  /// The directory's times are the record's own concern; only its count of links follows.
  private func addSubdirectories(_ count: Int, to number: InodeNumber) throws {
    var parent = try engine.inode(number)
    parent.linkCount = UInt32(clamping: Int(parent.linkCount) + count)
    try engine.store(parent)
  }

  // MARK: Items

  private func make(_ record: ItemRecord) throws {
    try detachExcluded(record.id)
    let root = try engine.inode(.root)
    let inode = Inode(
      number: InodeNumber(0), item: record.id, kind: record.kind, mode: record.mode & 0o7777,
      owner: root.owner, group: root.group, linkCount: record.kind == .directory ? 2 : 0,
      size: UInt64(record.target.count), accessed: record.modified, modified: record.modified,
      changed: time, created: record.created, target: record.target,
      isPackage: record.isPackage, generation: engine.nextNumber())
    let made = try engine.insert(inode)
    collector.made(made)
    if record.kind == .file { try show(record.content, in: made, as: .placeholder) }
  }

  private func setContent(_ record: ItemRecord, _ directive: ContentDirective) throws {
    guard record.kind == .file, directive != .keep, let content = record.content,
      let inode = try engine.syncedInode(record.id)
    else { return }
    if case .staged(let generation) = directive, inode.generation == generation { return }
    guard inode.version != content.id else {
      // It is here already; what was brought beside it is not needed.
      if case .staged(let generation) = directive {
        let staged = ContentKey(item: inode.item, generation: generation)
        if inode.content == .local {
          result.obsolete.append(staged)
        } else {
          try replace(inode, record, directive)
        }
      }
      return
    }
    collector.changed(inode)
    try replace(inode, record, directive)
  }

  private func replace(_ inode: Inode, _ record: ItemRecord, _ directive: ContentDirective) throws {
    // Of a content that was never sent nobody has read anything: who waits for it gets the new one.
    if isOpen(inode.number), try !isOnlyAnnounced(inode) {
      let successor = try succeed(inode)
      try show(record.content, in: successor, as: directive)
    } else {
      if let key = inode.contentKey { result.obsolete.append(key) }
      try show(record.content, in: inode, as: directive)
      result.invalidations.append(.content(inode.number))
    }
    try keepName(of: record)
  }

  /// A file that comes back after its removal may show a content before the log has the file again.
  /// Until then the inode itself names it: a version that nothing names would count as edited here.
  private func keepName(of record: ItemRecord) throws {
    guard let inode = try engine.syncedInode(record.id), try engine.shownContent(inode) == nil
    else { return }
    try engine.write { db in
      try engine.queries.setShown.run(db, inode.number.column, record.encoded())
    }
  }

  private func isOnlyAnnounced(_ inode: Inode) throws -> Bool {
    guard inode.content == .remote, let shown = try engine.shownContent(inode) else { return false }
    return shown.manifest == nil
  }

  private func show(
    _ content: ContentVersion?, in before: Inode, as directive: ContentDirective
  ) throws {
    var inode = before
    guard let content else { return }
    inode.version = content.id
    inode.size = content.size
    // Who looks first asks the file.
    inode.blocks = nil
    switch directive {
    case .staged(let generation):
      inode.generation = generation
      inode.content = .local
    case .placeholder, .keep:
      inode.generation = engine.nextNumber()
      // An empty one too: it is here when something opens it, like every other.
      inode.content = .remote
    }
    inode.changed = time
    try engine.store(inode)
    // The version that it showed is superseded, or in the log as a conflict version.
    try engine.dropKeptVersion(of: inode.item)
  }

  /// Moves an open item to a new inode: who has the old one open keeps what it reads there.
  private func succeed(_ before: Inode) throws -> Inode {
    var old = before
    let attributes = try engine.attributes(old.number)
    let names = try engine.links(of: old.number)
    var successor = old
    try engine.orphan(&old)
    old.changed = time
    try engine.store(old)
    successor.number = InodeNumber(0)
    successor = try engine.insert(successor)
    collector.succeeded(before, by: successor.number)
    try engine.write { db in
      try engine.queries.retargetEntries.run(db, successor.number.column, old.number.column)
      for attribute in attributes {
        try engine.put(successor.number, attribute.name, attribute.value, db)
      }
    }
    for link in names {
      engine.names.remove(EntryKey(parent: link.parent, name: link.name))
      result.invalidations.append(.entry(parent: link.parent, name: link.name))
    }
    result.invalidations.append(.attributes(old.number))
    if relinked.remove(old.number) != nil { relinked.insert(successor.number) }
    return successor
  }

  private func setAttributes(_ record: ItemRecord) throws {
    guard var inode = try engine.syncedInode(record.id) else { return }
    let before = inode
    inode.mode = record.mode & 0o7777
    inode.modified = record.modified
    inode.created = record.created
    inode.isPackage = record.isPackage
    if record.kind == .symbolicLink {
      inode.target = record.target
      inode.size = UInt64(record.target.count)
    }
    let old = try engine.attributes(inode.number)
    let number = inode.number
    try engine.write { db in
      for attribute in old
      where Engine.isSynced(attribute: attribute.name) && record.attributes[attribute.name] == nil {
        try engine.queries.removeAttribute.run(db, number.column, attribute.name)
      }
      for (name, value) in record.attributes.sorted(by: { $0.key < $1.key })
      where !old.contains(where: { $0.name == name && $0.value == value }) {
        try engine.put(number, name, value, db)
      }
    }
    noteAttributes(before, inode, old, record)
    if inode != before { inode.changed = time }
    try engine.store(inode)
    result.invalidations.append(.attributes(inode.number))
    if inode.kind == .symbolicLink, inode.target != before.target {
      result.invalidations.append(.content(inode.number))
    }
  }

  /// A directory's time goes with what is in it, and a file's with its content: neither is told
  /// alone.
  private func noteAttributes(
    _ before: Inode, _ after: Inode, _ old: [(name: String, value: [UInt8])], _ record: ItemRecord
  ) {
    if after.target != before.target { collector.changed(after) }
    let had = old.filter { Engine.isSynced(attribute: $0.name) }
    let isSame =
      had.count == record.attributes.count
      && had.allSatisfy { record.attributes[$0.name] == $0.value }
    let isTimeSet =
      after.modified != before.modified && after.kind != .directory
      && !collector.isChanged(after.item)
    if before.mode != after.mode || before.isPackage != after.isPackage || !isSame || isTimeSet {
      collector.changedAttributes(after)
    }
  }

  private func finishRemoval(_ item: ItemID, _ number: InodeNumber) throws {
    var inode = try engine.inode(number)
    if inode.kind == .directory {
      guard try engine.isEmpty(number) else { throw ApplyFailure.notEmpty(item) }
    } else if inode.linkCount > 0 {
      // A name that stays on this device keeps it.
      return
    }
    relinked.remove(number)
    if isOpen(number) {
      inode.changed = time
      try engine.orphan(&inode)
      result.invalidations.append(.attributes(number))
    } else {
      try engine.delete(inode)
      if let key = inode.contentKey { result.obsolete.append(key) }
    }
  }

  // MARK: Base and marks

  private func agree(
    _ operation: LocalOperation, _ kept: Set<ItemID>, _ edits: Set<ItemID>
  ) throws {
    switch operation {
    case .adopt: break
    case .forgetBase(let item): try engine.forgetBase(item)
    case .agree(let item, let stamp):
      try engine.agree(item)
      if try engine.stamp(item) == stamp, stamp != nil, try engine.isSupplied(item) {
        try engine.clearStamp(item)
      }
    case .remove(let item, _):
      try engine.agree(item)
      let stamp = try engine.stamp(item)
      if try engine.remote(item) == nil {
        if stamp != nil { try engine.clearStamp(item) }
      } else if stamp == nil {
        // The log still has it. Without a mark it would stay there if this device stops now.
        engine.setStamp(item)
      }
    case .upsert(let record, _, _):
      if edits.contains(record.id) {
        try engine.agreeButContent(record.id)
      } else if !kept.contains(record.id) {
        try engine.agree(record.id)
      }
      try setMark(record.id)
    }
  }

  /// The item is dirty exactly if the log lacks something local, or a version that this device
  /// keeps for it.
  private func setMark(_ item: ItemID) throws {
    let stamp = try engine.stamp(item)
    guard let local = try engine.local(item) else { return }
    var here = local.record
    let remote = try engine.remote(item)
    var there = remote
    here.content = nil
    here.conflicts = []
    there?.content = nil
    there?.conflicts = []
    if here == there, !local.isEdited, try !engine.keepsVersion(local.inode, beside: remote),
      try engine.hasKeptConflicts(remote, of: item)
    {
      if stamp != nil { try engine.clearStamp(item) }
    } else if stamp == nil {
      engine.setStamp(item)
    }
  }
}

extension ContainerCatalog {
  /// Applies a batch, all of it or nothing, in one transaction. Parents' times are not touched: a
  /// directory's are in its own record.
  ///
  /// `given`: dirty marks of further items that the batch stands on. Programs change the tree while
  /// a batch is planned; where one of these changed, nothing is applied.
  ///
  /// `guarding`: trees that change as a whole or not at all.
  ///
  /// `keepingBaseOf`: items of which an upsert does not move the base. `keepingParentOf`: those of
  /// which it does not move the content of the base.
  ///
  /// An open item whose content is replaced moves to a new inode number; the old inode becomes an
  /// orphan with what it had. The closures are called under the catalog's lock. The kernel's caches
  /// are to be invalidated after; obsolete content files to be unlinked in `afterDurableCommit`.
  package func apply(
    _ batch: [LocalOperation], given: [ItemID: UInt64?] = [:],
    keepingBaseOf kept: Set<ItemID> = [], keepingParentOf edits: Set<ItemID> = [],
    guarding trees: GuardedTrees? = nil,
    isOpen: (InodeNumber) -> Bool, isOpenForWriting: (InodeNumber) -> Bool
  ) throws(ApplyFailure) -> ApplyResult {
    var refusal: ApplyFailure?
    do throws(Errno) {
      return try changeLazily { engine in
        do {
          return try withoutActuallyEscaping(isOpen) { isOpen in
            try withoutActuallyEscaping(isOpenForWriting) { isOpenForWriting in
              try Applying(engine, isOpen: isOpen, isOpenForWriting: isOpenForWriting)
                .run(
                  batch, given: given, keepingBaseOf: kept, keepingParentOf: edits,
                  guarding: trees)
            }
          }
        } catch let failure as ApplyFailure {
          refusal = failure
          throw failure
        }
      }
    } catch {
      throw refusal ?? .system(error)
    }
  }
}
