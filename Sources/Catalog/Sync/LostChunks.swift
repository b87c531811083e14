package import Model
internal import RecordFormat
package import SystemPackage

/// Chunks that a check of the store did not find where the log says that they are, or found
/// damaged.
///
/// They are known until their pack is found whole. A chunk that the log has at another place since
/// is not lost any more, so rows of a former place do no harm.
extension Engine {
  /// Whether nothing is at the place, or something damaged; nil: no check found anything wrong
  /// there.
  func lostChunk(_ place: ChunkLocation) throws -> LostChunkKind? {
    try database { db in
      try queries.lostChunk.first(db, place.pack, place.chunk.id.bytes) { row in
        row.integer(0) == 1 ? .missing : .damaged
      }
    }
  }

  /// Whether a check of the store found that it lost a part of the content.
  func storeLacks(_ content: ContentVersion?) throws -> Bool {
    guard let manifest = content?.manifest, try hasLostChunks() else { return false }
    return try manifest.chunks.contains { reference in
      guard let place = try chunk(reference.id) else { return false }
      return try lostChunk(place) != nil
    }
  }

  func hasLostChunks() throws -> Bool {
    try database { db in try queries.anyLostChunk.first(db) { _ in true } ?? false }
  }
}

package enum LostChunkKind: Sendable {
  case missing
  case damaged
}

/// A pack in use that chunks are in, as the log tells.
package struct PackExtent: Sendable {
  package let pack: PackID
  /// Of its last chunk.
  package let end: UInt64
  /// An earlier check found some of it lost.
  package let wasLost: Bool
}

/// The record of an item in the log: the current one, or the last one before it was removed.
package struct LoggedItem: Sendable {
  package let record: ItemRecord
  package let isRemoved: Bool
}

extension ContainerCatalog {
  package func countPacksInUse() throws(Errno) -> UInt64 {
    try run { engine in
      try engine.database { db in
        try engine.queries.packsInUse.first(db) { $0.unsigned(0) } ?? 0
      }
    }
  }

  /// Those after one, by identity. `last`: where the next page begins; nil at the end.
  package func packExtents(after pack: PackID?, limit: Int) throws(Errno) -> (
    extents: [PackExtent], last: PackID?
  ) {
    try run { engine in
      let rows = try engine.database { db in
        try engine.queries.packPage.all(db, pack?.bytes ?? [], Int64(limit)) {
          try Engine.PackRow($0)
        }
      }
      var result: [PackExtent] = []
      for row in rows where row.record.state == .inUse {
        let pack = row.record.pack
        try engine.database { db in
          let last = try engine.queries.lastChunkOfPack.first(db, pack) { try ChunkLocation($0) }
          guard let last else { return }
          let wasLost = try engine.queries.lostChunksOfPack.first(db, pack) { _ in true } ?? false
          result.append(
            PackExtent(
              pack: pack, end: last.offset + UInt64(last.storedLength), wasLost: wasLost))
        }
      }
      return (result, rows.last?.record.pack)
    }
  }

  /// The chunks that the log has in a pack, by their places.
  package func chunks(of pack: PackID) throws(Errno) -> [ChunkLocation] {
    try run { try $0.chunks(of: pack) }
  }

  /// A check found out which chunks of a pack are lost; it takes the place of what earlier ones
  /// found. Returns whether it found any that earlier ones did not.
  package func noteLost(
    _ chunks: [ChunkLocation], of pack: PackID, isMissing: Bool
  ) throws(Errno) -> Bool {
    try changeLazily { engine in
      try engine.write { db in
        let known = Set(try engine.queries.lostChunksOfPack.all(db, pack) { $0.blob(0) })
        try engine.queries.deleteLostChunks.run(db, pack)
        for location in chunks {
          try engine.queries.setLostChunk.run(
            db, pack, location.chunk.id.bytes, Int64(isMissing ? 1 : 0))
        }
        return chunks.contains { !known.contains($0.chunk.id.bytes) }
      }
    }
  }

  package func hasLostChunks() throws(Errno) -> Bool {
    try run { try $0.hasLostChunks() }
  }

  /// Whether a check of the store found that it lost a part of the content that a file shows.
  package func storeLacksContent(of inode: Inode) throws(Errno) -> Bool {
    try run { try $0.storeLacks(try $0.shownContent(inode)) }
  }

  /// Whether a check of the store found that it lost a part of a content.
  package func storeLacks(_ content: ContentVersion) throws(Errno) -> Bool {
    try run { try $0.storeLacks(content) }
  }

  /// Of which of some chunks the log's place is lost.
  package func lostChunks(among ids: [ChunkID]) throws(Errno) -> [ChunkID: LostChunkKind] {
    try run { engine in
      var result: [ChunkID: LostChunkKind] = [:]
      for id in ids {
        guard let place = try engine.chunk(id), let kind = try engine.lostChunk(place) else {
          continue
        }
        result[id] = kind
      }
      return result
    }
  }

  /// The first eight bytes of the identities of all lost chunks: what a scan of a million items
  /// compares with.
  package func lostChunkPrefixes() throws(Errno) -> Set<UInt64> {
    var result: Set<UInt64> = []
    var last: (pack: [UInt8], id: [UInt8]) = ([], [])
    while true {
      let start = last
      let page = try run { engine in
        try engine.database { db in
          try engine.queries.lostChunkPage.all(db, start.pack, start.id, Int64(4096)) { row in
            (pack: row.blob(0), id: row.blob(1))
          }
        }
      }
      for row in page { result.insert(ChunkID.prefix(row.id)) }
      guard page.count == 4096, let end = page.last else { return result }
      last = end
    }
  }

  /// What the log has, page by page in the order of identities: first what is there, then what can
  /// be brought back. Empty: those were all.
  package func loggedItems(after item: ItemID?, removed: Bool) throws(Errno) -> [LoggedItem] {
    guard !removed else {
      return try run { try $0.removedPage(after: item) }.rows.map {
        LoggedItem(record: $0.1.record, isRemoved: true)
      }
    }
    let page = try run { try $0.remotePage(after: item) }
    do throws(RecordError) {
      return try page.rows.map { row throws(RecordError) in
        LoggedItem(record: try ItemRecord(decoding: row.1), isRemoved: false)
      }
    } catch {
      throw Errno.ioError
    }
  }
}

extension ChunkID {
  static func prefix(_ bytes: [UInt8]) -> UInt64 {
    bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }

  package var prefix: UInt64 { Self.prefix(bytes) }
}
