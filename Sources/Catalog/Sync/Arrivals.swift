internal import Dispatch
package import Model
package import SystemPackage

/// Items that came from elsewhere and meet nothing here. Of them a plan says no more than that they
/// are to be made, so they need none: a device that is new in a large container shows it bit by bit,
/// instead of planning all of it first.
///
/// Where the looking for them stands. First directories are gone through from the root down, so that
/// the top can be listed at once. The many come by identity: in that order lie their records, each of
/// which is written to.
package struct ArrivalCursor: Sendable {
  /// So many items are looked at from the root down.
  private static let top = 2_000

  /// To be looked into, from `next` on.
  private var directories: [ItemID] = [.root, .documents]
  private var next = 0
  private var seen = 0
  /// The last name that was seen in the first of them.
  fileprivate var name: ItemName?
  fileprivate var item: ItemID?
  /// Directories in which something is made; true: they are to be looked at with all that is in them.
  /// As the log was at `position`.
  fileprivate var apart: [ItemID: Bool] = [:]
  fileprivate var position = LogPosition.start
  package fileprivate(set) var isDone = false

  package init() {}

  fileprivate var directory: ItemID? { next < directories.count ? directories[next] : nil }

  fileprivate mutating func looked(at count: Int, upTo last: ItemName?, isEnd: Bool) {
    name = isEnd ? nil : last
    if isEnd { next += 1 }
    seen += count
    if seen >= Self.top { directories = [] }
  }

  fileprivate mutating func add(_ records: ArraySlice<ItemRecord>) {
    guard seen < Self.top, directories.count < Self.top else { return }
    directories += records.filter { $0.kind == .directory }.map(\.id)
  }
}

/// One that was made.
package struct Arrival: Sendable {
  package let record: ItemRecord
  package let number: InodeNumber
  /// Where its names are, one for each of the record's.
  package let parents: [InodeNumber]

  /// Where its first name is.
  package var parent: InodeNumber { parents[0] }

  /// What a watcher is told of it.
  package var changes: [ItemChange] {
    zip(record.links, parents).map { link, parent in
      ItemChange(
        .created, number: number, kind: record.kind, item: record.id, parent: parent,
        name: link.name)
    }
  }
}

extension Engine {
  /// `record` is nil for an item that is here or was, or that has a mark. The result is nil for an
  /// item that the planner has to look at with others, or that cannot be made as it is.
  private func arriving(_ record: ItemRecord?, _ isApart: (ItemRecord) -> Bool) -> ItemRecord? {
    guard let record, record.id != .root, record.kind.isSynced,
      // A file without content would be one that was edited here.
      record.kind != .file || record.content != nil,
      record.kind == .directory ? record.links.count == 1 : !record.links.isEmpty,
      !isApart(record)
    else { return nil }
    return record
  }

  private func arriving(_ item: ItemID, _ isApart: (ItemRecord) -> Bool) throws -> ItemRecord? {
    let bytes = try database { db in
      try queries.arrival.first(db, item) { $0.bytes(0) } ?? nil
    }
    return arriving(try decode(bytes), isApart)
  }

  /// Decodes on all processors, since programs wait for the lock meanwhile.
  private func decodeAll(_ rows: [[UInt8]?]) throws -> [ItemRecord?] {
    let stripe = 64
    var parts = [Result<[ItemRecord?], any Error>](
      repeating: .success([]), count: (rows.count + stripe - 1) / stripe)
    parts.withUnsafeMutableBufferPointer { parts in
      // Each iteration writes one element, and no other reads it before all have ended.
      nonisolated(unsafe) let parts = parts
      DispatchQueue.concurrentPerform(iterations: parts.count) { number in
        parts[number] = Result {
          try rows.dropFirst(number * stripe).prefix(stripe).map { try decodeRecord($0) }
        }
      }
    }
    return try parts.flatMap { try $0.get() }
  }

  /// Adds an item to `batch`, after the directories that have to be there first. Nothing where
  /// something is in the way, or above it.
  private func add(
    _ record: ItemRecord, to batch: inout ArrivalBatch, _ isApart: (ItemRecord) -> Bool
  ) throws {
    var path: [ItemRecord] = []
    var pending = [record]
    while let next = pending.popLast() {
      if batch.isChosen(next.id) { continue }
      guard !batch.refused.contains(next.id), path.count < 10_000 else { return }
      path.append(next)
      for link in next.links {
        guard !link.name.isExcludedFromSync else { return batch.refuse(path) }
        if batch.isChosen(link.parent) { continue }
        if let parent = try batch.present(link.parent, self, isApart) {
          guard let parent, try parent.isEmpty || child(link.name, in: parent.number) == nil
          else { return batch.refuse(path) }
          continue
        }
        guard let above = try arriving(link.parent, isApart), above.kind == .directory else {
          return batch.refuse(path)
        }
        pending.append(above)
      }
    }
    for record in path.reversed() { batch.choose(record) }
  }

  /// Looks at some more; gives at how many.
  private func look(
    _ cursor: inout ArrivalCursor, _ limit: Int, _ batch: inout ArrivalBatch,
    _ isApart: (ItemRecord) -> Bool
  ) throws -> Int {
    var rows: [[UInt8]?] = []
    let start = cursor.item
    if let directory = cursor.directory {
      var last: ItemName?
      rows = try database { db in
        try queries.arrivalsInside.all(
          db, directory, cursor.name?.bytes ?? [], Int64(limit)
        ) { row in
          last = try row.name(0)
          return row.bytes(1)
        }
      }
      cursor.looked(at: rows.count, upTo: last, isEnd: rows.count < limit)
    } else {
      rows = try database { db in
        try queries.arrivalPage.all(db, cursor.item?.bytes ?? [], Int64(limit)) { row in
          cursor.item = try row.identifier(0)
          return row.bytes(1)
        }
      }
      cursor.isDone = rows.count < limit
    }
    let first = batch.records.count
    var isWhole = true
    for record in try decodeAll(rows) {
      guard let record = arriving(record, isApart) else {
        isWhole = false
        continue
      }
      try add(record, to: &batch, isApart)
      isWhole = isWhole && batch.isChosen(record.id)
    }
    if isWhole, let last = cursor.item, last != start {
      batch.noteWholePage(after: start, last: last)
    }
    if cursor.item == nil, !cursor.isDone { cursor.add(batch.records[first...]) }
    return rows.count + 1
  }

  fileprivate func bringArrivals(
    _ cursor: inout ArrivalCursor, limit: Int, _ isApart: (ItemRecord) -> Bool
  ) throws -> (made: [Arrival], invalidations: [Invalidation]) {
    let position = try self.position()
    if position != cursor.position { cursor.apart = [:] }
    cursor.position = position
    var batch = ArrivalBatch()
    swap(&batch.apart, &cursor.apart)
    defer { swap(&batch.apart, &cursor.apart) }
    var looked = 0
    while batch.records.count < limit, looked < 4 * limit, !cursor.isDone {
      looked += try look(&cursor, max(64, limit - batch.records.count), &batch, isApart)
    }
    return try make(batch)
  }

  /// Each is made as it is to be in the end, and the base says so: each row is written once, past
  /// memory, which has no room for so many.
  private func make(_ batch: ArrivalBatch) throws -> (
    made: [Arrival], invalidations: [Invalidation]
  ) {
    guard !batch.records.isEmpty else { return ([], []) }
    return try write { db in
      let root = try inode(.root)
      let time = now
      var made: [Arrival] = []
      made.reserveCapacity(batch.records.count)
      var invalidations: [Invalidation] = []
      var numbers: [ItemID: InodeNumber] = [:]
      var subdirectories: [InodeNumber: UInt32] = [:]
      var changed: Set<InodeNumber> = []
      var inodes: [Inode] = []
      inodes.reserveCapacity(batch.records.count)
      var entries: [NewEntry] = []
      entries.reserveCapacity(batch.records.count)
      for record in batch.records {
        let inode = numbered(
          Inode(arriving: record, owner: root.owner, group: root.group, at: time, nextNumber()))
        inodes.append(inode)
        if record.kind == .directory { numbers[record.id] = inode.number }
        var parents: [InodeNumber] = []
        for link in record.links {
          // The kernel does not know an item that was made just now.
          let new = numbers[link.parent]
          guard let parent = new ?? batch.number(of: link.parent) else {
            throw CatalogDamage("an item comes before its directory")
          }
          if new == nil {
            invalidations.append(.entry(parent: parent, name: link.name))
            changed.insert(parent)
          }
          entries.append(newEntry(parent, link.name, inode))
          if inode.kind == .directory { subdirectories[parent, default: 0] += 1 }
          parents.append(parent)
        }
        if !batch.isOfWholePage(record.id) { try queries.agreeOnArrival.run(db, record.id) }
        if !record.attributes.isEmpty {
          for (name, value) in record.attributes.sorted(by: { $0.key < $1.key }) {
            try put(inode.number, name, value, db)
          }
        }
        made.append(Arrival(record: record, number: inode.number, parents: parents))
      }
      try Inode.insert(inodes, db, queries)
      try put(entries, db)
      for page in batch.wholePages {
        try queries.agreeOnArrivals.run(db, page.after?.bytes ?? [], page.last)
      }
      for (number, count) in subdirectories {
        var parent = try inode(number)
        parent.linkCount += count
        try store(parent)
      }
      invalidations += changed.sorted().map { .attributes($0) }
      return (made, invalidations)
    }
  }
}

extension Inode {
  fileprivate init(
    arriving record: ItemRecord, owner: UInt32, group: UInt32, at time: Timestamp,
    _ generation: UInt64
  ) {
    self.init(
      number: InodeNumber(0), item: record.id, kind: record.kind, mode: record.mode & 0o7777,
      owner: owner, group: group,
      linkCount: record.kind == .directory ? 2 : UInt32(clamping: record.links.count),
      size: record.content?.size ?? UInt64(record.target.count), accessed: record.modified,
      modified: record.modified, changed: time, created: record.created, target: record.target,
      isPackage: record.isPackage, content: record.kind == .file ? .remote : .local,
      generation: generation, version: record.kind == .file ? record.content?.id : nil)
  }
}

extension ContainerCatalog {
  /// Whether more than `count` items differ between remote and base.
  package func differsInMore(than count: Int) throws(Errno) -> Bool {
    try run { engine in
      try engine.database { db in
        try engine.queries.differsMore.first(db, Int64(count) + 1) { Int($0.integer(0)) } ?? 0
      } > count
    }
  }

  /// Makes about `limit` more of what can simply be made here, in one transaction: files are
  /// placeholders, base := remote. What is in something that `isApart` is left out, and so is what
  /// something stands in the way of. The kernel's caches are to be invalidated after, and the database's
  /// is to be made small again.
  package func bringArrivals(
    _ cursor: inout ArrivalCursor, limit: Int, isApart: (ItemRecord) -> Bool
  ) throws(Errno) -> (made: [Arrival], invalidations: [Invalidation]) {
    useLargeCache(true)
    return try changeLazily { try $0.bringArrivals(&cursor, limit: limit, isApart) }
  }
}
