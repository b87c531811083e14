package import Model
internal import RecordFormat
package import SystemPackage

/// Which chunks somebody may still read: those of every current content, conflict version and
/// removed item that can be brought back. Read page by page while requests and folding go on.
///
/// What folding changes meanwhile is looked at again by `catchUp`, and what was live stays live, so
/// that the answer errs only by keeping. Identities are kept as their first eight bytes: two that
/// share them keep each other.
package final class LiveChunks {
  private let catalog: ContainerCatalog
  private let token: UInt64
  private var ids: Set<UInt64> = []
  private var items: ItemID?
  private var removed: ItemID?
  private var isThroughItems = false
  private var isThrough = false

  package init(_ catalog: ContainerCatalog) throws(Errno) {
    self.catalog = catalog
    token = try catalog.changeLazily { engine in
      let token = engine.nextNumber()
      engine.tracking = FoldTracking(token: token)
      return token
    }
  }

  deinit {
    catalog.engine.withLock { engine in
      if engine.tracking?.token == token { engine.tracking = nil }
    }
  }

  package func contains(_ chunk: ChunkID) -> Bool { ids.contains(Self.short(chunk)) }

  private static func short(_ chunk: ChunkID) -> UInt64 {
    chunk.bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
  }

  private func add(_ record: ItemRecord) {
    for version in [record.content].compactMap(\.self) + record.conflicts {
      for chunk in version.manifest?.chunks ?? [] { ids.insert(Self.short(chunk.id)) }
    }
  }

  /// One page more; false when all were read.
  package func readPage() throws(Errno) -> Bool {
    guard !isThrough else { return false }
    if isThroughItems {
      let start = removed
      let page = try catalog.run { try $0.removedPage(after: start) }
      for (_, item) in page.rows { add(item.record) }
      removed = page.rows.last?.0
      isThrough = page.isLast
    } else {
      let start = items
      let page = try catalog.run { try $0.remotePage(after: start) }
      do {
        for (_, bytes) in page.rows { add(try ItemRecord(decoding: bytes)) }
      } catch {
        throw Errno.ioError
      }
      items = page.rows.last?.0
      isThroughItems = page.isLast
    }
    return true
  }

  /// Adds what changed since the beginning. From the position that it gives on, until the next
  /// segment, everything that is live is known here. ECANCELED: begin anew.
  package func catchUp() throws(Errno) -> LogPosition {
    let (position, records) = try catalog.run { engine -> (LogPosition, [ItemRecord]) in
      guard let tracking = engine.tracking, tracking.token == self.token, !tracking.isBroken else {
        throw Errno.canceled
      }
      var records: [ItemRecord] = []
      for item in tracking.items.keys {
        if let record = try engine.remote(item) { records.append(record) }
      }
      for item in tracking.removed.keys {
        if let kept = try engine.removedItem(item) { records.append(kept.record) }
      }
      return (try engine.position(), records)
    }
    for record in records { add(record) }
    return position
  }
}

/// A pack in use, and which of its chunks are live.
package struct PackUse: Sendable {
  package let pack: PackID
  package let bytes: UInt64
  package let live: [ChunkLocation]
  /// Since when this device knows of it.
  package let since: Timestamp

  package var liveBytes: UInt64 { live.reduce(0) { $0 + UInt64($1.storedLength) } }
}

extension ContainerCatalog {
  /// The packs in use after one, by identity; at most 64 of them. Empty: there are no more.
  package func packUses(after pack: PackID?, _ live: LiveChunks) throws(Errno) -> [PackUse] {
    var start = pack
    while true {
      let rows = try run { engine in
        try engine.database { db in
          try engine.queries.packPage.all(db, start?.bytes ?? [], Int64(64)) {
            try Engine.PackRow($0)
          }
        }
      }
      guard let last = rows.last else { return [] }
      start = last.record.pack
      var result: [PackUse] = []
      for row in rows where row.record.state == .inUse {
        let chunks = try run { try $0.chunks(of: row.record.pack) }
        result.append(
          PackUse(
            pack: row.record.pack, bytes: row.record.bytes,
            live: chunks.filter { live.contains($0.chunk.id) }, since: row.since))
      }
      if !result.isEmpty { return result }
    }
  }

  /// As it is now.
  package func packUse(_ pack: PackID, _ live: LiveChunks) throws(Errno) -> PackUse? {
    try optional { engine in
      guard let row = try engine.packRow(pack), row.record.state == .inUse else { return nil }
      return PackUse(
        pack: pack, bytes: row.record.bytes,
        live: try engine.chunks(of: pack).filter { live.contains($0.chunk.id) }, since: row.since)
    }
  }
}
