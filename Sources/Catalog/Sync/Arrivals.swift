package import Model
package import SystemPackage

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

  /// Looks at some more of a directory; gives at how many.
  private func look(
    in directory: ItemID, _ cursor: inout ArrivalCursor, _ limit: Int, _ batch: inout ArrivalBatch,
    _ isApart: (ItemRecord) -> Bool
  ) throws -> Int {
    var last: ItemName?
    let rows = try database { db in
      try queries.arrivalsInside.all(
        db, directory, cursor.name?.bytes ?? [], Int64(limit)
      ) { row in
        last = try row.name(0)
        return row.bytes(1)
      }
    }
    cursor.looked(at: rows.count, upTo: last, isEnd: rows.count < limit)
    let first = batch.records.count
    for row in rows {
      if let record = arriving(try decode(row), isApart) { try add(record, to: &batch, isApart) }
    }
    cursor.add(batch.records[first...])
    return rows.count + 1
  }

  private func arrivals(after item: ItemID?, _ limit: Int) throws -> ArrivalRows {
    var last = item
    let rows = try database { db in
      try queries.arrivalPage.all(db, item?.bytes ?? [], Int64(limit)) { row in
        last = try row.identifier(0)
        return row.bytes(1)
      }
    }
    return ArrivalRows(
      position: try position(), after: item, last: last, isLast: rows.count < limit, rows: rows)
  }

  /// Adds the items of the page after the cursor's item that can simply be made.
  ///
  /// Between the reading and the making of a page only the batch ahead makes items of it: they
  /// come from other devices, and only the cycle that calls this brings such items. If anything
  /// else did, the unique index on the items of inodes would refuse the batch.
  private func take(
    _ cursor: inout ArrivalCursor, _ limit: Int, _ batch: inout ArrivalBatch,
    _ isApart: (ItemRecord) -> Bool
  ) throws {
    let prepared = cursor.page
    (cursor.page, cursor.coming) = (nil, nil)
    // Records of an older state of the log must not become the base.
    let page =
      if let prepared, prepared.rows.position == cursor.position { prepared } else {
        try arrivals(after: cursor.item, limit).decoded()
      }
    if !page.rows.isLast {
      let next = try arrivals(after: page.rows.last, limit)
      cursor.coming = Task.detached { next.decoded() }
    }
    var isWhole = true
    for record in try page.records.get() {
      guard let record = arriving(record, isApart), !cursor.early.contains(record.id) else {
        isWhole = false
        continue
      }
      try add(record, to: &batch, isApart)
      isWhole = isWhole && batch.isChosen(record.id)
    }
    if let last = page.rows.last {
      if isWhole, last != page.rows.after {
        batch.noteWholePage(after: page.rows.after, last: last)
      }
      cursor.early = Set(batch.records.lazy.map(\.id).filter { $0 > last })
    }
    cursor.item = page.rows.last
    cursor.isDone = page.rows.isLast
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
    if cursor.directory == nil {
      try take(&cursor, limit, &batch, isApart)
    } else {
      var looked = 0
      while let directory = cursor.directory, batch.records.count < limit, looked < 4 * limit {
        looked += try look(
          in: directory, &cursor, max(64, limit - batch.records.count), &batch, isApart)
      }
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
  /// something stands in the way of. The kernel's caches are to be invalidated after, and the
  /// database's is to be made small again.
  package func bringArrivals(
    _ cursor: inout ArrivalCursor, limit: Int, isApart: (ItemRecord) -> Bool
  ) throws(Errno) -> (made: [Arrival], invalidations: [Invalidation]) {
    useLargeCache(true)
    return try changeLazily { try $0.bringArrivals(&cursor, limit: limit, isApart) }
  }
}
