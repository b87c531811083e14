package import Model
package import SystemPackage

/// Items that came from elsewhere and meet nothing here. Of them a plan says no more than that they
/// are to be made, so they need none: a device that is new in a large container shows it bit by bit,
/// instead of planning all of it first.
extension Engine {
  /// What is in the log, never was here, and is not to be looked at together with others.
  private func arriving(_ item: ItemID, _ isApart: (ItemRecord) -> Bool) throws -> ItemRecord? {
    guard let row = try remoteRow(item), row.applied == nil, let record = try decode(row.record),
      !isApart(record), item != .root, try stamp(item) == nil, try inodeNumber(of: item) == nil
    else { return nil }
    return record
  }

  /// Adds an item to `batch`, after the directories that have to be there first. False where
  /// something is in the way, or above it.
  private func add(
    _ record: ItemRecord, to batch: inout ArrivalBatch, _ isApart: (ItemRecord) -> Bool
  ) throws -> Bool {
    var path: [ItemRecord] = []
    var pending = [record]
    while let next = pending.popLast() {
      if batch.chosen.contains(next.id) { continue }
      guard !batch.refused.contains(next.id), path.count < 10_000 else { return false }
      path.append(next)
      for link in next.links {
        guard !link.name.isExcludedFromSync else { return refuse(path, &batch) }
        if batch.chosen.contains(link.parent) { continue }
        if let parent = try syncedInode(link.parent) {
          guard parent.kind == .directory, try !batch.isApart(link.parent, self, isApart),
            try child(link.name, in: parent.number) == nil
          else { return refuse(path, &batch) }
          continue
        }
        guard let above = try arriving(link.parent, isApart), above.kind == .directory else {
          return refuse(path, &batch)
        }
        pending.append(above)
      }
    }
    for record in path.reversed() where batch.chosen.insert(record.id).inserted {
      batch.records.append(record)
    }
    return true
  }

  private func refuse(_ path: [ItemRecord], _ batch: inout ArrivalBatch) -> Bool {
    // Only the item itself is known to be refused; above it another name may be what is wrong.
    if let first = path.first { batch.refused.insert(first.id) }
    return false
  }

  fileprivate func arrivals(
    after start: ItemID?, limit: Int, _ isApart: (ItemRecord) -> Bool
  ) throws -> (records: [ItemRecord], next: ItemID?) {
    let rows = try database { db in
      try queries.arrivalPage.all(db, start?.bytes ?? [], Int64(limit)) { row in
        try row.identifier(0) as ItemID
      }
    }
    var batch = ArrivalBatch()
    for item in rows where !batch.chosen.contains(item) {
      guard let record = try arriving(item, isApart) else { continue }
      _ = try add(record, to: &batch, isApart)
    }
    return (batch.records, rows.count == limit ? rows.last : nil)
  }
}

private struct ArrivalBatch {
  /// Parents first.
  var records: [ItemRecord] = []
  var chosen: Set<ItemID> = []
  var refused: Set<ItemID> = []
  private var apart: [ItemID: Bool] = [:]

  /// Whether a directory that is here, or one above it, is to be looked at with all in it.
  mutating func isApart(_ item: ItemID, _ engine: Engine, _ rule: (ItemRecord) -> Bool) throws
    -> Bool
  {
    var passed: [ItemID] = []
    var current = item
    var result = false
    while current != .root, passed.count < 10_000 {
      if let known = apart[current] {
        result = known
        break
      }
      passed.append(current)
      guard let record = try engine.remote(current) else { break }
      if rule(record) {
        result = true
        break
      }
      guard let link = record.links.first else { break }
      current = link.parent
    }
    for item in passed { apart[item] = result }
    return result
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

  /// Items that can simply be made here, of the next `limit` that are new, after `start` by identity:
  /// directories before what is in them. `next` is where to go on, nil at the end. What is in
  /// something that `isApart` is left out.
  package func arrivals(
    after start: ItemID?, limit: Int, isApart: (ItemRecord) -> Bool
  ) throws(Errno) -> (records: [ItemRecord], next: ItemID?) {
    try changeLazily { try $0.arrivals(after: start, limit: limit, isApart) }
  }
}
