internal import Catalog
internal import Coordination
package import Model
internal import RemoteStore
internal import SystemPackage

/// Recently deleted: what was removed on any device can be brought back for some time.
///
/// The log itself is the record: every device keeps the last record of what a segment removes,
/// which names its content, and drops it when a later segment has the item again or forgets it.
/// Bringing something back is putting that record into the log again, under the same identity. What
/// was kept for long enough on every device, compaction has the log forget.
extension ContainerSync {
  /// How long, in nanoseconds.
  private nonisolated var retention: Int64 {
    CompactionPolicy.days(Int64(settings.keepRemovedDays))
  }

  private nonisolated var oldest: Timestamp {
    coordinator.catalog.now.advanced(by: -retention)
  }

  /// All that can be brought back, the newest first.
  package nonisolated func removedKeys() throws(RestoreFailure) -> [RemovedKey] {
    do throws(Errno) {
      return try coordinator.catalog.removedKeys(since: oldest)
    } catch {
      throw Self.unreadable(error)
    }
  }

  /// Nil: it was not removed, was brought back, or was kept for long enough. `isWanted`: read no
  /// path of others; nil for them too.
  package nonisolated func removedPlace(
    of id: ItemID, isWanted: (ItemRecord) -> Bool = { _ in true }
  ) throws(RestoreFailure) -> RemovedPlace? {
    do throws(Errno) {
      guard let item = try coordinator.catalog.removedItem(id), item.removed >= oldest,
        isWanted(item.record)
      else { return nil }
      return RemovedPlace(
        item: item, path: try path(of: item.record),
        expires: item.removed.advanced(by: retention))
    } catch {
      throw Self.unreadable(error)
    }
  }

  private nonisolated static func unreadable(_ error: Errno) -> RestoreFailure {
    .failed("cannot read the removed items: \(error)")
  }

  /// Where it was: as far as what it was in is there, or was removed too.
  nonisolated func path(of record: ItemRecord) throws(Errno) -> [ItemName] {
    let catalog = coordinator.catalog
    var names: [ItemName] = []
    var link = record.links.first
    while let current = link, names.count < 10_000 {
      names.append(current.name)
      guard current.parent != .root else { break }
      let above: ItemRecord?
      if let there = try catalog.remote(current.parent) {
        above = there
      } else {
        above = try catalog.removedItem(current.parent)?.record
      }
      link = above?.links.first
    }
    return names.reversed()
  }

  /// Brings items back, on every device: directories with all in them that can be. What has got
  /// their name meanwhile keeps it, and they become `name 2.ext`. Files of which the store has no
  /// content any more stay in the trash; when all others are back, it fails and names them.
  package func restore(_ items: [ItemID]) async throws(RestoreFailure) {
    var lost: [String] = []
    try await changeLog { remote in
      var changes = try await self.restoration(of: items, remote)
      lost = try self.leaveOutLost(&changes)
      try self.checkRoom(for: changes)
      return changes
    }
    guard lost.isEmpty else {
      throw .failed(
        "the backend lost the content of \(lost.joined(separator: ", ")), so it stays in the "
          + "trash; run `ubiquityfs store verify` to look for the content on this device")
    }
  }

  /// Takes out what the store has lost: conflict versions, and files without any other content. A
  /// package that is made of a version with such a file stays in the trash as a whole. Returns the
  /// names of what stays there.
  private func leaveOutLost(_ changes: inout LogChanges) throws(Errno) -> [String] {
    let unusable = try coordinator.catalog.unusable(in: changes).versions
    guard !unusable.isEmpty else { return [] }
    let catalog = coordinator.catalog
    let records = Dictionary(uniqueKeysWithValues: changes.upserts.map { ($0.id, $0) })
    var names: [String] = []
    var kept: [ItemRecord] = []
    var whole: Set<ItemID> = []
    for var record in changes.upserts {
      let lost = unusable[record.id] ?? []
      record.conflicts.removeAll { lost.contains($0.id) }
      if record.kind == .file, let content = record.content, lost.contains(content.id) {
        guard var other = record.conflicts.popLast() else {
          // An item that is not in the trash was made of a version; the directory of that is.
          var above: ItemRecord? = record
          var passed: Set<ItemID> = []
          while let next = above, try catalog.removedItem(next.id) == nil {
            guard passed.insert(next.id).inserted else {
              above = nil
              break
            }
            above = next.links.first.flatMap { records[$0.parent] }
          }
          let stays = above ?? record
          if stays.id != record.id { whole.insert(stays.id) }
          // Nothing is forgotten either: it may be the record that this one was made of.
          if above == nil { changes.forgotten = [] }
          let name = stays.links.first.map { "\"\($0.name)\"" } ?? "\(stays.id)"
          if !names.contains(name) { names.append(name) }
          continue
        }
        other.isResolved = false
        record.content = other
      }
      kept.append(record)
    }
    func isIn(_ record: ItemRecord) -> Bool {
      var next: ItemRecord? = record
      // Records of other devices may stand in a circle.
      var passed: Set<ItemID> = []
      while let one = next, passed.insert(one.id).inserted {
        if whole.contains(one.id) { return true }
        next = one.links.first.flatMap { records[$0.parent] }
      }
      return false
    }
    changes.upserts = kept.filter { !isIn($0) }
    return names
  }

  /// Nobody is to bring these back any more; nil: nothing that was removed up to now.
  package func forget(_ items: [ItemID]?) async throws(RestoreFailure) {
    try await changeLog { _ in
      let all = try self.coordinator.catalog.removedItems(since: .earliest).map(\.record.id)
      guard let items else { return LogChanges(forgotten: all.sorted()) }
      guard Set(items).isSubset(of: all) else { throw RestoreFailure.notFound }
      return LogChanges(forgotten: Set(items).sorted())
    }
  }

  /// Puts changes right after the state of the log that they were made from.
  private func changeLog(
    _ changes: (RemoteContainer) async throws -> LogChanges
  ) async throws(RestoreFailure) {
    do {
      try link.check()
      let remote = try await link.container()
      var backoff = Backoff()
      for _ in 0..<20 {
        try await sync(timeout: .seconds(60), needsRoom: false)
        let catalog = coordinator.catalog
        let position = try catalog.position()
        let changes = try await changes(remote)
        guard !changes.isEmpty else { return }
        guard try catalog.accepts(changes, after: position) else {
          throw RestoreFailure.failed("the items do not fit the current state of the container")
        }
        if try await put(changes, after: position, to: remote) != nil {
          // It comes back like any other device's change.
          try await sync(timeout: .seconds(60), needsRoom: false)
          return
        }
        await backoff.pause()
      }
      throw RestoreFailure.failed("other devices keep changing the log; try again")
    } catch let failure as RestoreFailure {
      throw failure
    } catch let failure as CycleFailure {
      throw .failed(failure.asSyncFailure.description)
    } catch let failure as SyncFailure {
      switch failure {
      case .offline: throw .offline
      case .unreachable(let reason): throw .unreachable(reason)
      default: throw .failed(failure.description)
      }
    } catch {
      throw .failed("\(error)")
    }
  }

  private func restoration(
    of items: [ItemID], _ remote: RemoteContainer
  ) async throws -> LogChanges {
    let catalog = coordinator.catalog
    let removed = Dictionary(
      try catalog.removedItems(since: .earliest).map {
        ($0.record.id, $0.record)
      },
      uniquingKeysWith: { first, _ in first })
    guard items.allSatisfy({ removed[$0] != nil }) else { throw RestoreFailure.notFound }
    let chosen = Self.withAllBelow(Set(items), removed)
    var records: [ItemID: ItemRecord] = [:]
    for id in chosen { records[id] = removed[id] }
    // What something was in comes back with it.
    var pending = Array(chosen)
    while let id = pending.popLast() {
      for link in records[id]?.links ?? [] where link.parent != .root {
        guard records[link.parent] == nil, try catalog.remote(link.parent) == nil else { continue }
        guard let parent = removed[link.parent], parent.kind == .directory else { continue }
        records[link.parent] = parent
        pending.append(link.parent)
      }
    }
    var taken: Set<Link> = []
    var changes = LogChanges()
    for id in records.keys.sorted() {
      guard var record = records[id] else { continue }
      record.links = try record.links.map { link in
        try place(link, among: records, taken: &taken)
      }.sorted()
      if record.kind == .file, record.content?.manifest == nil,
        var kept = record.conflicts.last(where: { $0.manifest != nil })
      {
        record.conflicts.removeAll { $0.id == kept.id }
        kept.isResolved = false
        record.content = kept
      }
      record.conflicts.removeAll { $0.manifest == nil }
      if try record.id == .root || catalog.remote(record.id) != nil {
        // A device of a former release brought the item back and left this record where it was.
        record.id = .random()
        changes.forgotten.append(id)
      }
      if let archive = try keptArchive(record, as: id) {
        record.conflicts = []
        changes.upserts += try await self.items(of: archive, in: record.id, remote)
      }
      changes.upserts.append(record)
    }
    changes.upserts.sort { $0.id < $1.id }
    return changes
  }

  /// The archive, where a removed directory is no directory but a dropped version of a package.
  private func keptArchive(_ record: ItemRecord, as id: ItemID) throws -> ContentVersion? {
    guard record.kind == .directory, record.conflicts.count == 1,
      let version = record.conflicts.first
    else { return nil }
    let owner = ItemRecord.owner(of: version.id, keptAs: id)
    let catalog = coordinator.catalog
    let isKept = try catalog.remote(owner) != nil || catalog.removedItem(owner) != nil
    return isKept ? version : nil
  }

  private static func withAllBelow(_ chosen: Set<ItemID>, _ removed: [ItemID: ItemRecord])
    -> Set<ItemID>
  {
    var children: [ItemID: [ItemID]] = [:]
    for record in removed.values {
      for link in record.links { children[link.parent, default: []].append(record.id) }
    }
    var result = chosen
    var pending = Array(chosen)
    while let id = pending.popLast() {
      for child in children[id] ?? [] where result.insert(child).inserted { pending.append(child) }
    }
    return result
  }

  /// A free name, in the directory where it was or else in `Documents` or the root.
  private func place(
    _ link: Link, among records: [ItemID: ItemRecord], taken: inout Set<Link>
  ) throws -> Link {
    let catalog = coordinator.catalog
    func isThere(_ id: ItemID) throws -> Bool {
      if id == .root || records[id] != nil { return true }
      return try catalog.remote(id)?.kind == .directory
    }
    let parent =
      try isThere(link.parent) ? link.parent : try isThere(.documents) ? .documents : .root
    var number = 1
    while true {
      let name = number == 1 ? link.name : link.name.numbered(number)
      let candidate = Link(parent: parent, name: name)
      let isFree =
        try !taken.contains(candidate) && catalog.remoteChild(parent, name) == nil
        && catalog.localChild(parent, name) == nil
      if isFree {
        taken.insert(candidate)
        return candidate
      }
      number += 1
    }
  }
}

/// Something that was removed, and where it was.
package struct RemovedPlace: Sendable {
  package let item: RemovedItem
  /// From the container's own directory.
  package let path: [ItemName]
  package let expires: Timestamp
}

package enum RestoreFailure: Error, Sendable, Hashable {
  case notFound
  case offline
  case unreachable(String)
  case failed(String)
}
