package import Model
internal import RecordFormat
package import SystemPackage

/// What the sync engine asks and does: the remote tree, the base, and how they differ from here.
extension ContainerCatalog {
  /// Up to where the log was folded.
  package func position() throws(Errno) -> LogPosition { try run { try $0.position() } }

  /// How often what was done here and not committed yet was lost, on a full disk for one. What is
  /// told to other devices stands on all that was done before: if this has changed since, it does
  /// not.
  package func losses() throws(Errno) -> UInt64 { try run { $0.losses } }

  /// Folds a segment that was read: remote tree, chunk table and position, all or nothing. EINVAL
  /// unless `position` is the next after the present one; EBADMSG for a segment after which the
  /// remote tree would be none.
  ///
  /// `origin` is kept with what it removes. Without one that is not kept. `isOwn`: this device put
  /// the segment, and has not heard that it is in the log.
  package func fold(
    _ changes: LogChanges, to position: LogPosition, from origin: LogOrigin? = nil,
    isOwn: Bool = false
  ) throws(Errno) {
    try changeLazily { try $0.fold(changes, to: position, from: origin, isOwn: isOwn) }
  }

  /// Whether `fold` would take a segment, and whether all that it names will stay in the backend. A
  /// device asks before it puts one into the log, where it would stop every device for ever.
  ///
  /// `incomplete`: versions whose content the store may have lost, in packs that the log still has.
  package func accepts(
    _ changes: LogChanges, after position: LogPosition, incomplete: Set<VersionID> = []
  ) throws(Errno) -> Bool {
    let next = LogPosition(sequence: position.sequence + 1, hash: position.hash)
    var isAccepted = false
    do throws(Errno) {
      try changeLazily { engine in
        isAccepted = try engine.unusable(in: changes, incomplete: incomplete).isEmpty
        try engine.fold(changes, to: next, from: nil)
        // The end of an operation that throws is that nothing was done.
        throw Errno.canceled
      }
    } catch .canceled {
    } catch .badMessage {
      isAccepted = false
    }
    return isAccepted
  }

  /// These records, of items that were here when that was planned, are about to be put into the
  /// log; to be called in the transaction that is made durable before that. Until the next fold one
  /// of them that goes stays marked, even if it is new, and the record, when it is folded, is what
  /// went.
  package func noteSending(_ records: [ItemRecord]) throws(Errno) {
    try changeLazily { try $0.noteSending(records) }
  }

  /// What is dirty here, or differs between remote and base; sorted.
  package func differing() throws(Errno) -> [ItemID] { try changeLazily { try $0.differing() } }

  /// One page of `differing`: at most `limit` items after `item`, in the order of their identities.
  package func differing(after item: ItemID?, limit: Int) throws(Errno) -> [ItemID] {
    try changeLazily { engine in
      try engine.database { db in
        try engine.queries.differingAfter.all(db, item?.bytes ?? [], Int64(limit)) { row in
          try row.identifier(0)
        }
      }
    }
  }

  /// The mark of the newest change here that the log does not have; nil when there is none.
  package func dirtyStamp(_ item: ItemID) throws(Errno) -> UInt64? {
    try optional { try $0.stamp(item) }
  }

  package func dirtyCount() throws(Errno) -> Int {
    try changeLazily { engine in
      return try engine.database { db in
        try engine.queries.stampCount.first(db) { Int($0.integer(0)) } ?? 0
      }
    }
  }

  /// How many items have conflict versions that nobody has resolved.
  package func conflictCount() throws(Errno) -> Int {
    var count = 0
    for item in try conflictedItems() where try remote(item)?.unresolved.isEmpty == false {
      count += 1
    }
    return count
  }

  /// Those that have conflict versions; sorted.
  package func conflictedItems() throws(Errno) -> [ItemID] {
    try run { engine in
      if try engine.hidesRemoteTree { return [] }
      return try engine.database { db in
        try engine.queries.conflicted.all(db) { try $0.identifier(0) }
      }
    }
  }

  /// What the contents of all conflict versions take, each once, whichever items have it.
  package func conflictBytes() throws(Errno) -> UInt64 {
    var sizes: [VersionID: UInt64] = [:]
    for item in try conflictedItems() {
      for version in try remote(item)?.conflicts ?? [] { sizes[version.id] = version.size }
    }
    return sizes.values.reduce(0, &+)
  }

  /// The item as it is here; nil if it is absent, excluded, an orphan or of a kind that stays here.
  /// Links that stay here are left out.
  package func local(_ item: ItemID) throws(Errno) -> LocalItem? {
    try optional { try $0.local(item) }
  }

  /// Nil too while a new device reads its first snapshot: nothing of it counts before all is there.
  package func remote(_ item: ItemID) throws(Errno) -> ItemRecord? {
    try optional { try $0.hidesRemoteTree ? nil : $0.remote(item) }
  }

  package func base(_ item: ItemID) throws(Errno) -> ItemRecord? {
    try optional { try $0.base(item) }
  }

  package func remoteChild(_ parent: ItemID, _ name: ItemName) throws(Errno) -> ItemID? {
    try optional { engine in
      if try engine.hidesRemoteTree { return nil }
      return try engine.database { db in
        try engine.queries.remoteChild.first(db, parent, name) { try $0.identifier(0) }
      }
    }
  }

  /// What has the name here and syncs; nil too for what stays here.
  package func localChild(_ parent: ItemID, _ name: ItemName) throws(Errno) -> ItemID? {
    try optional { try $0.localChild(parent, name) }
  }

  /// The inode that stands for an item, excluded or not.
  package func inodeNumber(of item: ItemID) throws(Errno) -> InodeNumber? {
    try optional { try $0.inodeNumber(of: item) }
  }

  /// Sorted, each once.
  package func remoteChildren(of item: ItemID) throws(Errno) -> [ItemID] {
    try run { engine in
      if try engine.hidesRemoteTree { return [] }
      return try engine.database { db in
        try engine.queries.remoteChildren.all(db, item) { try $0.identifier(0) }
      }
    }
  }

  /// Whether the log has anything in the directory but the items that `isOther` names. Reads no
  /// further than the first such item.
  package func hasRemoteChildren(
    of item: ItemID, besides isOther: (ItemID) -> Bool = { _ in false }
  ) throws(Errno) -> Bool {
    try run { engine in
      if try engine.hidesRemoteTree { return false }
      return try engine.database { db in
        try engine.queries.remoteLinksIn.find(db, item) { row in !isOther(try row.identifier(0)) }
      }
    }
  }

  /// Whether the directory holds anything here, what stays on this device included, but the items
  /// that `isOther` names. Reads no further than the first such item.
  package func hasChildren(of item: ItemID, besides isOther: (ItemID) -> Bool) throws(Errno) -> Bool
  {
    try run { try $0.hasChildren(item, besides: isOther) }
  }

  /// Those that sync; sorted, each once.
  package func localChildren(of item: ItemID) throws(Errno) -> [ItemID] {
    try run { try $0.localChildren(item) }
  }

  /// Whether the directory holds something that stays on this device: of a `.nosync` name, or a
  /// FIFO, socket or device.
  package func hasExcludedChildren(of item: ItemID) throws(Errno) -> Bool {
    try run { try $0.hasExcludedChildren(item) }
  }

  /// The version that a file's inode shows, orphans included; nil when it is edited. Its manifest
  /// is nil while it is still only on the device that saved it.
  package func shownContent(of number: InodeNumber) throws(Errno) -> ContentVersion? {
    try optional { try $0.shownContent(try $0.inode(number)) }
  }

  /// Our own segment is in the log at `position`: folds it, sets base := remote for what it
  /// changed, clears each mark that is still the one given, and gives edited contents that are
  /// still the ones given their version. With no changes and the present position, only the last
  /// two. The base of `undecided` items stays: of them the segment keeps a conflict's contents,
  /// nothing more. Where they are among `keepingParentOf`, only the content of the base stays.
  package func committed(
    _ changes: LogChanges, to position: LogPosition, stamps: [ItemID: UInt64],
    versions: [ItemID: UploadedContent], undecided: Set<ItemID> = [],
    keepingParentOf edits: Set<ItemID> = [], origin: LogOrigin? = nil
  ) throws(Errno) {
    try changeLazily { engine in
      try engine.committed(
        changes, to: position, stamps: stamps, versions: versions, undecided: undecided,
        keepingParentOf: edits, origin: origin)
    }
  }

  /// Where chunks are; those that the log does not know are left out.
  package func chunkLocations(_ ids: [ChunkID]) throws(Errno) -> [ChunkID: ChunkLocation] {
    try run { engine in
      var result: [ChunkID: ChunkLocation] = [:]
      if try engine.hidesRemoteTree { return result }
      for id in ids { result[id] = try engine.chunk(id) }
      return result
    }
  }
}
