package import Model
internal import RecordFormat
package import SystemPackage

/// Reads the folded state as it was when it was begun, a page at a time.
///
/// Requests and folding go on in between: the lock is held for one page. What folding changes
/// meanwhile is read as it was (`FoldTracking`). One at a time for a catalog; a second one ends the
/// first. Not to be used by two tasks at once.
package final class SnapshotExport {
  /// Of the state that is read.
  package let position: LogPosition
  private let catalog: ContainerCatalog
  private let token: UInt64
  private var stage = Stage.items(after: nil)

  private enum Stage {
    case items(after: ItemID?)
    case chunks(after: ChunkPlace?)
    case removed(after: ItemID?)
    case packs(after: PackID?)
    case done
  }

  private static let page: Int64 = 512

  package convenience init(_ catalog: ContainerCatalog) throws(Errno) {
    try self.init(catalog, limit: FoldTracking.limit)
  }

  /// `limit`: of the memory for what folding changes meanwhile.
  init(_ catalog: ContainerCatalog, limit: Int) throws(Errno) {
    self.catalog = catalog
    (position, token) = try catalog.changeLazily { engine in
      let token = engine.nextNumber()
      engine.tracking = FoldTracking(token: token, limit: limit)
      return (try engine.position(), token)
    }
  }

  deinit { end() }

  package func end() {
    catalog.engine.withLock { engine in
      if engine.tracking?.token == token { engine.tracking = nil }
    }
  }

  /// The next page; nil when that was all. ECANCELED when the catalog was given another state as a
  /// whole, when too much changed meanwhile, or another reader began.
  package func next() throws(Errno) -> SnapshotPart? {
    while true {
      if case .done = stage { return nil }
      let read = stage
      let (rows, after) = try catalog.run { engine in
        guard let tracking = engine.tracking, tracking.token == token, !tracking.isBroken else {
          throw Errno.canceled
        }
        let page = try Self.page(of: read, engine, tracking)
        switch page.1 {
        case .items(let last?): engine.tracking?.hasRead(itemsUpTo: last)
        case .items(nil): break
        default: engine.tracking?.hasReadItems()
        }
        return page
      }
      stage = after
      let part: SnapshotPart
      // Requests do not wait for the decoding.
      do { part = try rows.decoded() } catch { throw Errno.ioError }
      if !part.isEmpty { return part }
    }
  }

  private struct Rows {
    var items: [[UInt8]] = []
    var part = SnapshotPart()

    func decoded() throws -> SnapshotPart {
      var result = part
      result.items = try items.map { try ItemRecord(decoding: $0) }
      return result
    }
  }

  private static func page(of stage: Stage, _ engine: Engine, _ tracking: FoldTracking) throws
    -> (Rows, Stage)
  {
    var result = Rows()
    func next<Key>(_ keys: [Key], _ more: (Key) -> Stage, _ end: Stage) -> (isLast: Bool, Stage) {
      guard keys.count == Int(page), let last = keys.last else { return (true, end) }
      return (false, more(last))
    }
    switch stage {
    case .items(let start):
      let page = try engine.remotePage(after: start)
      let rows = tracking.items.asItWas(page.rows, after: start, isLast: page.isLast)
      result.items = rows.map(\.1)
      return (result, page.isLast ? .chunks(after: nil) : .items(after: page.rows.last?.0))
    case .chunks(let start):
      let rows = try engine.database { db in
        try engine.queries.chunkPage.all(
          db, start?.pack.bytes ?? [], (start?.offset ?? 0).column, page
        ) { row in
          let location = try ChunkLocation(row)
          return (ChunkPlace(pack: location.pack, offset: location.offset), location)
        }
      }
      let (isLast, after) = next(rows.map(\.0), { .chunks(after: $0) }, .removed(after: nil))
      result.part.chunks = tracking.chunks.asItWas(rows, after: start, isLast: isLast).map(\.1)
      return (result, after)
    case .removed(let start):
      let page = try engine.removedPage(after: start)
      let rows = tracking.removed.asItWas(page.rows, after: start, isLast: page.isLast)
      result.part.removed = rows.map(\.1)
      return (result, page.isLast ? .packs(after: nil) : .removed(after: page.rows.last?.0))
    case .packs(let start):
      let rows = try engine.packPage(after: start, limit: page).map { ($0.pack, $0) }
      let (isLast, after) = next(rows.map(\.0), { .packs(after: $0) }, .done)
      result.part.packs = tracking.packs.asItWas(rows, after: start, isLast: isLast).map(\.1)
      return (result, after)
    case .done:
      return (result, .done)
    }
  }
}

extension Engine {
  func packPage(after start: PackID?, limit: Int64) throws -> [PackRecord] {
    try database { db in
      try queries.packPage.all(db, start?.bytes ?? [], limit) { try PackRow($0).record }
    }
  }
}
