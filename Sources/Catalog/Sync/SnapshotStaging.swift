internal import GRDB
package import Model
internal import RecordFormat
package import SystemPackage

/// The parts of a snapshot, before it is whole.
///
/// Parts are staged beside the remote tree, and nothing else uses them. A catalog that has folded
/// nothing yet has no remote tree: there the tables of the tree take the parts themselves, so that
/// a new device writes each row once. The mark in `meta` says so, and goes with the transaction
/// that installs the snapshot. While the mark is there, the rows count for nothing: the next
/// snapshot, the first segment and the next opening delete them first.
extension Engine {
  private static let tables = [
    "staged_item", "staged_link", "staged_chunk", "staged_removed", "staged_pack",
  ]
  /// Those that take a part themselves. Of its directories `staged_item` has the identities too.
  private static let placeTables = ["remote", "remote_link", "conflicted", "chunk"]
  private static let mark = "staging"

  /// Whether the tables of the tree have parts of a snapshot that is not whole.
  func stagesInPlace() throws -> Bool {
    try database { db in try queries.metaGet.first(db, Self.mark) { _ in true } ?? false }
  }

  /// Whether the rows of the remote tree count for nothing so far. For all that looks at that tree
  /// while a cycle stages: a tree of which a half is there is not shown, checked or repaired.
  var hidesRemoteTree: Bool {
    get throws { mayStageInPlace ? try stagesInPlace() : false }
  }

  /// Drops a snapshot that a device left half-staged.
  func dropStaged() throws {
    let tables = Self.tables + (try stagesInPlace() ? Self.placeTables : [])
    try write { db in
      for table in tables { try db.execute("DELETE FROM \(table)") }
      try queries.metaDelete.run(db, Self.mark)
    }
    stagedUsage = 0
  }

  /// After this, parts of one snapshot may be staged. `isRecovery`: for `installRecovered`, which
  /// compares the parts with the tree that is here.
  func beginStaging(isRecovery: Bool) throws {
    try dropStaged()
    stagingLosses = losses
    guard !isRecovery, try position() == .start else { return }
    for table in Self.placeTables {
      let isEmpty = try database { db in
        try Query("SELECT 1 FROM \(table) LIMIT 1").first(db) { _ in false } ?? true
      }
      guard isEmpty else { return }
    }
    mayStageInPlace = true
    try write { db in try queries.metaSet.run(db, Self.mark, Int64(1)) }
  }

  /// The rows that were staged in place are the remote tree from here on.
  func keepStagedInPlace() throws {
    try write { db in try queries.metaDelete.run(db, Self.mark) }
  }

  /// EIO if a transaction was lost since staging began: rows of the snapshot may be missing, and an
  /// item that is missing would count as one that other devices removed. With a full disk a commit
  /// fails on another thread, and nobody else tells the one who stages.
  func requireAllStaged() throws {
    // Settles, so a loss is counted.
    try database { _ in }
    guard losses == stagingLosses else { throw Errno.ioError }
  }

  /// EBADMSG for an item that is there twice, and for records that no tree has; EIO as
  /// `requireAllStaged`.
  func stage(_ piece: SnapshotPiece) throws {
    try requireAllStaged()
    let isInPlace = try stagesInPlace()
    let isNew = try position() == .start
    for item in piece.items {
      try check(item.record, knownAs: isNew ? nil : try remote(item.record.id)?.kind)
    }
    do {
      try write { db in
        try stage(piece.items, isInPlace: isInPlace, db)
        let links = isInPlace ? queries.insertRemoteLinks : queries.stageLinks
        try links.run(db, piece.links) { ($0.0.parent, $0.0.name, $0.1) }
        let chunks = isInPlace ? queries.insertChunks : queries.stageChunks
        try chunks.run(db, piece.chunks) { place in
          (
            place.chunk.id.bytes, place.pack, place.offset.column, Int64(place.storedLength),
            Int64(place.chunk.length)
          )
        }
        for item in piece.removed {
          try queries.stageRemoved.run(
            db, item.record.id, item.record.encoded(), item.removed.nanoseconds, item.device)
        }
        for record in piece.packs {
          try queries.stagePack.run(
            db, record.pack, record.bytes.column, Int64(record.state.rawValue),
            record.condemnedAt.column)
        }
      }
    } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
      throw Errno.badMessage
    }
    for item in piece.items { stagedUsage &+= item.record.allottedBytes }
  }

  private func stage(
    _ items: ArraySlice<PreparedPart.Item>, isInPlace: Bool, _ db: SQLConnection
  ) throws {
    guard isInPlace else {
      return try queries.stageItems.run(db, items) { item in
        let record = item.record
        return (
          record.id, item.bytes, Int64(record.kind.rawValue),
          Int64(record.conflicts.isEmpty ? 0 : 1)
        )
      }
    }
    try queries.insertRemotes.run(db, items) { ($0.record.id, $0.bytes) }
    for item in items where !item.record.conflicts.isEmpty {
      try queries.setConflicted.run(db, item.record.id)
    }
    // The check of the tree asks for directories alone.
    let directories = items.filter { $0.record.kind == .directory }
    try queries.stageItems.run(db, directories[...]) { item in
      (item.record.id, [UInt8](), Int64(ItemKind.directory.rawValue), Int64(0))
    }
  }

  /// Names are distinct by the table that they are in. Every parent is a directory, and all
  /// directories are reached from the root, of which they have one way: so there is no cycle.
  func checkStagedTree() throws {
    let directory = Int64(ItemKind.directory.rawValue)
    let links = try stagesInPlace() ? "remote_link" : "staged_link"
    // From one parent to the next by the index, not over all that they hold.
    let isBroken = try database { db in
      try Query(
        """
        WITH RECURSIVE filled (parent) AS (SELECT MIN(parent) FROM \(links) UNION ALL \
        SELECT (SELECT MIN(l.parent) FROM \(links) l WHERE l.parent > filled.parent) \
        FROM filled WHERE filled.parent IS NOT NULL) \
        SELECT 1 FROM filled f LEFT JOIN staged_item p ON p.item = f.parent \
        WHERE f.parent <> ? AND (p.item IS NULL OR p.kind <> ?) LIMIT 1
        """
      ).first(db, ItemID.root, directory) { _ in true } ?? false
    }
    guard !isBroken else { throw Errno.badMessage }
    let (reached, all) = try database { db in
      (
        try Query(
          """
          WITH RECURSIVE reached (item) AS (SELECT ? UNION ALL SELECT l.item FROM reached r \
          JOIN \(links) l ON l.parent = r.item \
          JOIN staged_item i ON i.item = l.item AND i.kind = ?) \
          SELECT COUNT(*) - 1 FROM reached
          """
        ).first(db, ItemID.root, directory) { $0.integer(0) },
        try Query("SELECT COUNT(*) FROM staged_item WHERE kind = ? AND item <> ?").first(
          db, directory, ItemID.root
        ) { $0.integer(0) }
      )
    }
    guard reached == all else { throw Errno.badMessage }
  }
}

/// A part as its rows are to be. Making one takes processor and no catalog: it may be made on one
/// thread while another stages the part before it.
package struct PreparedPart: Sendable {
  struct Item: Sendable {
    let record: ItemRecord
    /// The encoded record.
    let bytes: [UInt8]

    init(_ record: ItemRecord) {
      self.record = record
      bytes = record.encoded()
    }
  }

  // In the order of the keys that their rows have: neighbours share a page.
  let items: [Item]
  let links: [(Link, ItemID)]
  let chunks: [ChunkLocation]
  let removed: [RemovedItem]
  let packs: [PackRecord]

  package init(_ part: SnapshotPart) {
    items = part.items.map { Item($0) }
    links = part.items.flatMap { record in record.links.map { ($0, record.id) } }
      .sorted { $0.0 < $1.0 }
    chunks = part.chunks.sorted {
      $0.chunk.id.bytes.lexicographicallyPrecedes($1.chunk.id.bytes)
    }
    removed = part.removed
    packs = part.packs
  }
}

/// So much of a part as is staged under one lock.
struct SnapshotPiece {
  var items: ArraySlice<PreparedPart.Item> = []
  var links: ArraySlice<(Link, ItemID)> = []
  var chunks: ArraySlice<ChunkLocation> = []
  var removed: ArraySlice<RemovedItem> = []
  var packs: ArraySlice<PackRecord> = []
}

extension ContainerCatalog {
  private static let piece = 512

  /// Drops earlier staged parts. `isRecovery`: the snapshot is for `installRecovered`.
  package func beginSnapshot(isRecovery: Bool = false) throws(Errno) {
    try changeLazily { try $0.beginStaging(isRecovery: isRecovery) }
  }

  /// Drops the staged parts of a snapshot that is not to be installed.
  package func dropSnapshot() throws(Errno) {
    try changeLazily { try $0.dropStaged() }
  }

  /// A part that was verified. EBADMSG when it can be no part of a tree together with the others.
  package func stage(_ part: PreparedPart) throws(Errno) {
    try stage(part.items) { SnapshotPiece(items: $0) }
    try stage(part.links) { SnapshotPiece(links: $0) }
    try stage(part.chunks) { SnapshotPiece(chunks: $0) }
    try stage(part.removed) { SnapshotPiece(removed: $0) }
    try stage(part.packs) { SnapshotPiece(packs: $0) }
  }

  private func stage<Row>(
    _ rows: [Row], _ piece: (ArraySlice<Row>) -> SnapshotPiece
  ) throws(Errno) {
    var left = rows[...]
    while !left.isEmpty {
      let next = piece(left.prefix(Self.piece))
      left = left.dropFirst(Self.piece)
      try changeLazily { try $0.stage(next) }
    }
  }
}
