package import Model
internal import RecordFormat
package import SystemPackage

/// Conflict versions that the log had before a recovery and that the recovered log lacks: this
/// device puts them into the log again, like contents that are local here.
///
/// **Invariant: a row goes only with the fold of a record that has all of its versions**, by their
/// identity or as the same bytes. While it exists and the log lacks one of them, the item is dirty.
extension Engine {
  /// To be called before the rows of the remote tree are replaced. `packs`: those that the store
  /// has.
  ///
  /// A version that a later log lacks was resolved. Only a damaged version of a `disputed` package
  /// was left out of that log. A version of a file that it has by name only is kept: perhaps no
  /// other device knows where its chunks are.
  ///
  /// Returns the packages of which a version is lost, or a part of one. The recovered log may have
  /// the items that it was made of.
  func keepConflicts(
    _ packs: Set<PackID>, beside log: RecoveredLog, disputed: Set<ItemID>
  ) throws -> Set<ItemID> {
    var lost: Set<ItemID> = []
    let conflicted = try database { db in
      try queries.conflicted.all(db) { try $0.identifier(0) as ItemID }
    }
    // An earlier recovery may have left some that are not supplied yet.
    let earlier = try keptConflicts()
    for item in Set(conflicted).union(earlier.keys).sorted() {
      guard let old = try remote(item), let inode = try syncedInode(item) else { continue }
      let staged = try database { db in try queries.stagedItem.first(db, item) { $0.blob(0) } }
      let new = try decode(staged)
      let isFile = old.kind == .file
      if log == .later, new == nil || (!isFile && !disputed.contains(item)) { continue }
      let before = Set((earlier[item] ?? []).map(\.id))
      var kept = old
      kept.content = nil
      let known = Set(old.conflicts.map(\.id))
      kept.conflicts += (earlier[item] ?? []).filter { !known.contains($0.id) }
      let all = kept.conflicts
      if let new {
        kept.conflicts = try kept.conflicts.compactMap { version in
          if log == .later, isFile, !before.contains(version.id) {
            let isNamed = new.conflicts.contains { $0.id == version.id && $0.manifest == nil }
            return try isNamed && isStored(version, packs) ? version : nil
          }
          if log == .later, try !before.contains(version.id) && isStored(version, packs) {
            return nil
          }
          if try isKept(version, of: old.kind, packs) {
            // A local content may take the place of one that is current in the recovered log.
            return new.content?.id == version.id ? version : new.lacks([version]).first
          }
          // A device that has it locally may supply it as the content: it stays, by name.
          return old.kind == .file && new.content?.id == version.id
            ? version.withoutManifest : nil
        }
      } else {
        kept.conflicts = try kept.conflicts.filter { try isKept($0, of: old.kind, packs) }
      }
      let isWhole = try all.allSatisfy { try isStored($0, packs) }
      if log != .later, old.kind == .directory, !isWhole {
        lost.insert(item)
      }
      guard !kept.conflicts.isEmpty else {
        try write { db in try queries.dropKeptConflicts.run(db, item) }
        continue
      }
      try write { db in try queries.setKeptConflicts.run(db, item, kept.encoded()) }
      // Nothing else would tell that it differs.
      mark(inode)
    }
    return lost
  }

  /// A package's version is one archive, which no local file supplies: what is left of it is kept.
  private func isKept(
    _ version: ContentVersion, of kind: ItemKind, _ packs: Set<PackID>
  ) throws -> Bool {
    guard kind == .directory else { return try isStored(version, packs) }
    return try version.manifest?.chunks.contains { try isStored($0, packs) } ?? false
  }

  private func isStored(_ version: ContentVersion, _ packs: Set<PackID>) throws -> Bool {
    try version.manifest?.chunks.allSatisfy { try isStored($0, packs) } ?? false
  }

  /// The recovered log may say of a chunk that it is elsewhere than this device knows, or not know
  /// it. `sent` has the chunks of packs that are in the store.
  private func isStored(_ chunk: ChunkReference, _ packs: Set<PackID>) throws -> Bool {
    if let place = try self.chunk(chunk.id), packs.contains(place.pack) { return true }
    return try database { db in
      try queries.isStagedChunk.first(db, chunk.id.bytes) { _ in true }
        ?? queries.isSent.first(db, chunk.id.bytes) { _ in true } ?? false
    }
  }

  /// Versions that turned out to be nowhere any more.
  func dropKeptConflicts(_ versions: Set<VersionID>, of item: ItemID) throws {
    let row = try database { db in try queries.keptConflicts.first(db, item) { $0.blob(0) } }
    guard var kept = try decode(row) else { return }
    kept.conflicts.removeAll { versions.contains($0.id) }
    try write { db in
      if kept.conflicts.isEmpty {
        try queries.dropKeptConflicts.run(db, item)
      } else {
        try queries.setKeptConflicts.run(db, item, kept.encoded())
      }
    }
  }

  /// Whether nothing of the item is kept for the log: its mark may go.
  func isSupplied(_ item: ItemID) throws -> Bool {
    guard let inode = try syncedInode(item) else { return true }
    let remote = try remote(item)
    return try !keepsVersion(inode, beside: remote) && hasKeptConflicts(remote, of: item)
  }

  func keptConflicts() throws -> [ItemID: [ContentVersion]] {
    let rows = try database { db in
      try queries.allKeptConflicts.all(db) { (try $0.identifier(0) as ItemID, $0.blob(1)) }
    }
    var result: [ItemID: [ContentVersion]] = [:]
    for (item, record) in rows { result[item] = try ItemRecord(decoding: record).conflicts }
    return result
  }

  /// Whether a record of the log has all versions that this device keeps for it.
  func hasKeptConflicts(_ record: ItemRecord?, of item: ItemID) throws -> Bool {
    let kept = try database { db in
      try queries.keptConflicts.first(db, item) { try ItemRecord(decoding: $0.blob(0)).conflicts }
    }
    guard let kept else { return true }
    return record?.lacks(kept).isEmpty ?? false
  }

  /// After these records were folded.
  func dropSuppliedConflicts(_ records: [ItemRecord]) throws {
    let isKept = try database { db in
      try queries.allKeptConflicts.first(db) { _ in true } ?? false
    }
    guard isKept else { return }
    let kept = try keptConflicts()
    for record in records {
      guard let versions = kept[record.id], record.lacks(versions).isEmpty else { continue }
      // The content that this device is about to supply takes the place of this one.
      if let content = record.content?.id, versions.contains(where: { $0.id == content }),
        try keptVersion(of: record.id) != nil
      {
        continue
      }
      try write { db in try queries.dropKeptConflicts.run(db, record.id) }
    }
  }
}

extension ItemRecord {
  /// Those of some versions that this record has neither under their identity nor as the same
  /// bytes. A conflict version by name only is lacking: nobody can read it.
  package func lacks(_ versions: [ContentVersion]) -> [ContentVersion] {
    versions.filter { version in
      let isThere = conflicts.contains {
        $0.id == version.id && ($0.manifest != nil || version.manifest == nil)
      }
      return !isThere && content?.id != version.id
        && !([content].compactMap(\.self) + conflicts).contains {
          $0.manifest != nil && $0.manifest == version.manifest
        }
    }
  }

  /// With versions that it lacks.
  package mutating func supply(_ versions: [ContentVersion]) {
    let ids = Set(versions.map(\.id))
    conflicts.removeAll { ids.contains($0.id) }
    conflicts += versions
  }
}

extension ContainerCatalog {
  /// The conflict versions that a recovery of the store left out and that this device is to put
  /// into the log again, by item.
  package func keptConflicts() throws(Errno) -> [ItemID: [ContentVersion]] {
    try run { try $0.keptConflicts() }
  }

  /// Forgets versions of those that turned out to be nowhere any more.
  package func dropKeptConflicts(_ versions: Set<VersionID>, of item: ItemID) throws(Errno) {
    try changeLazily { try $0.dropKeptConflicts(versions, of: item) }
  }
}
