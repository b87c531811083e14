package import Model
internal import RecordFormat
package import SystemPackage

/// Where chunks are, and which packs are going.
extension Engine {
  struct PackRow {
    var record: PackRecord
    /// By this device's clock: since when it is known here to be in this state.
    var since: Timestamp

    init(_ row: SQLRow) throws {
      guard let state = PackRecord.State(rawValue: row.small(2)) else {
        throw CatalogDamage("a pack is in an unknown state")
      }
      record = PackRecord(
        pack: try row.identifier(0), bytes: row.unsigned(1), state: state,
        condemnedAt: row.unsigned(3))
      since = row.time(4)
    }

    init(_ record: PackRecord, since: Timestamp) {
      self.record = record
      self.since = since
    }
  }

  func packRow(_ pack: PackID) throws -> PackRow? {
    try database { db in try queries.pack.first(db, pack) { try PackRow($0) } }
  }

  private func setPack(_ row: PackRow, was old: PackRow?) throws {
    tracking?.willSet(row.record.pack, old?.record)
    try write { db in
      try queries.setPack.run(
        db, row.record.pack, row.record.bytes.column, Int64(row.record.state.rawValue),
        row.record.condemnedAt.column, row.since.nanoseconds)
    }
  }

  /// EBADMSG for a segment that deletes what no earlier one condemned: somebody may still use it.
  func foldPacks(_ changes: LogChanges, at position: LogPosition) throws {
    var sizes: [PackID: UInt64] = [:]
    for location in changes.chunks {
      sizes[location.pack, default: 0] += UInt64(location.storedLength)
      try setChunk(location)
    }
    for (pack, size) in sizes.sorted(by: { $0.key < $1.key }) {
      let old = try packRow(pack)
      var row = old ?? PackRow(PackRecord(pack: pack, bytes: 0), since: now)
      row.record.bytes &+= size
      try setPack(row, was: old)
    }
    for pack in changes.condemned {
      let old = try packRow(pack)
      guard old?.record.state ?? .inUse == .inUse else { continue }
      var row = old ?? PackRow(PackRecord(pack: pack, bytes: 0), since: now)
      row.record.state = .condemned
      row.record.condemnedAt = position.sequence
      row.since = now
      try setPack(row, was: old)
    }
    for pack in changes.deleted {
      guard let old = try packRow(pack), old.record.state != .inUse,
        old.record.condemnedAt < position.sequence
      else { throw Errno.badMessage }
      guard old.record.state == .condemned else { continue }
      var row = old
      row.record.state = .deleted
      row.since = now
      try setPack(row, was: old)
      if tracking != nil {
        for location in try chunks(of: pack) {
          tracking?.willSet(ChunkPlace(pack: pack, offset: location.offset), location)
        }
      }
      try write { db in try queries.deleteChunks.run(db, pack) }
    }
  }

  private func setChunk(_ location: ChunkLocation) throws {
    if tracking != nil {
      if let old = try chunk(location.chunk.id) {
        tracking?.willSet(ChunkPlace(pack: old.pack, offset: old.offset), old)
      }
      tracking?.willSet(ChunkPlace(pack: location.pack, offset: location.offset), nil)
    }
    try write { db in
      try queries.setChunk.run(
        db, location.chunk.id.bytes, location.pack, location.offset.column,
        Int64(location.storedLength), Int64(location.chunk.length))
    }
  }

  func chunk(_ id: ChunkID) throws -> ChunkLocation? {
    try database { db in
      try queries.chunk.first(db, id.bytes) { row in
        ChunkLocation(
          chunk: ChunkReference(id: id, length: row.small(3)), pack: try row.identifier(0),
          offset: row.unsigned(1), storedLength: row.small(2))
      }
    }
  }

  func chunks(of pack: PackID) throws -> [ChunkLocation] {
    try database { db in try queries.chunksOfPack.all(db, pack) { try ChunkLocation($0) } }
  }

  /// Contents of which chunks are in no pack that is to stay, and packs of new chunks that are not.
  /// `incomplete`: versions whose content the store may have lost.
  func unusable(
    in changes: LogChanges, incomplete: Set<VersionID> = []
  ) throws -> UnusableContent {
    var result = UnusableContent()
    var states: [PackID: Bool] = [:]
    func stays(_ pack: PackID) throws -> Bool {
      if let known = states[pack] { return known }
      let stays = try packRow(pack).map { $0.record.state == .inUse } ?? true
      states[pack] = stays
      return stays
    }
    var new: Set<ChunkID> = []
    for location in changes.chunks {
      if try stays(location.pack) {
        new.insert(location.chunk.id)
      } else {
        result.packs.insert(location.pack)
      }
    }
    for record in changes.upserts {
      let contents = [record.content].compactMap(\.self) + record.conflicts
      guard !contents.isEmpty else { continue }
      let old = try remote(record.id)
      // What the log has already at this place keeps its packs from being condemned.
      for version in contents where old?.version(version.id)?.manifest != version.manifest {
        for chunk in version.manifest?.chunks ?? [] where !new.contains(chunk.id) {
          if let place = try self.chunk(chunk.id), try stays(place.pack),
            try incomplete.contains(version.id) || lostChunk(place) == nil
          {
            continue
          }
          result.versions[record.id, default: []].insert(version.id)
          break
        }
      }
    }
    return result
  }
}

extension ChunkLocation {
  init(_ row: SQLRow) throws {
    guard let id = ChunkID(row.blob(0)) else {
      throw CatalogDamage("a chunk's identity does not have 32 bytes")
    }
    self.init(
      chunk: ChunkReference(id: id, length: row.small(4)), pack: try row.identifier(1),
      offset: row.unsigned(2), storedLength: row.small(3))
  }
}

/// What a segment names and that is not, or will not be, in the backend.
package struct UnusableContent: Hashable, Sendable {
  package var versions: [ItemID: Set<VersionID>] = [:]
  package var packs: Set<PackID> = []

  package var isEmpty: Bool { versions.isEmpty && packs.isEmpty }
}

extension ContainerCatalog {
  /// What keeps `accepts` from taking a segment although it leaves a tree: contents whose chunks
  /// are in condemned packs, or nowhere. They are to be sent again.
  package func unusable(
    in changes: LogChanges, incomplete: Set<VersionID> = []
  ) throws(Errno) -> UnusableContent {
    try run { try $0.unusable(in: changes, incomplete: incomplete) }
  }

  /// Those of some chunks that the log knows and that stay, and that no check found missing: new
  /// contents may refer to them.
  package func usableChunks(_ ids: [ChunkID]) throws(Errno) -> Set<ChunkID> {
    try run { engine in
      var result: Set<ChunkID> = []
      for id in ids {
        guard let place = try engine.chunk(id) else { continue }
        if try engine.packRow(place.pack)?.record.state ?? .inUse == .inUse,
          try engine.lostChunk(place) == nil
        {
          result.insert(id)
        }
      }
      return result
    }
  }

  /// The log never told of the pack.
  package func isUnknown(_ pack: PackID) throws(Errno) -> Bool {
    try run { try $0.packRow(pack) == nil }
  }

  package func isDeleted(_ pack: PackID) throws(Errno) -> Bool {
    try run { try $0.packRow(pack)?.record.state == .deleted }
  }

  /// Whether the log condemned or deleted a pack.
  package func isOutOfUse(_ pack: PackID) throws(Errno) -> Bool {
    try run { try $0.packRow(pack).map { $0.record.state != .inUse } ?? false }
  }

  /// The item's content is to be sent as if it had been made here: nobody else has it any more.
  package func forgetVersion(of item: ItemID) throws(Errno) -> Bool {
    try changeLazily { engine in
      guard var inode = try engine.syncedInode(item), inode.kind == .file,
        inode.content == .local
      else { return false }
      inode.version = nil
      try engine.store(inode)
      engine.mark(inode)
      return true
    }
  }

  /// Forgets where the bytes of a placeholder were, if the log has the version that it shows by
  /// name only. False, with nothing done, for any other item.
  package func forgetChunks(of item: ItemID) throws(Errno) -> Bool {
    try changeLazily { engine in
      guard let inode = try engine.syncedInode(item), inode.kind == .file,
        inode.content == .remote, let version = inode.version,
        let row = try engine.remoteRow(item),
        let logged = try engine.decode(row.record)?.content,
        logged.id == version, logged.manifest == nil,
        try engine.shownContent(inode)?.manifest != nil
      else { return false }
      if var base = try engine.decode(row.applied) {
        if base.content?.id == version { base.content = base.content?.withoutManifest }
        base.conflicts = base.conflicts.map { $0.id == version ? $0.withoutManifest : $0 }
        try engine.setRemoteRow(
          item, Engine.RemoteRow(record: row.record, applied: base.encoded()), was: row)
      }
      // Last: the call above may keep the chunks beside the inode.
      try engine.write { db in try engine.queries.deleteShown.run(db, inode.number.column) }
      try engine.dropKeptVersion(of: item)
      return true
    }
  }
}
