internal import ControlProtocol
internal import Foundation
internal import MetadataQueries

/// What a query knows, under its lock.
struct QueryState {
  enum Phase {
    case stopped
    case gathering
    case live
  }

  var predicate: MetadataPredicate?
  var scopes = Box([])
  var items: Box?
  var sortDescriptors: [NSMetadataQuery.SortDescriptor] = []
  var interval: TimeInterval = 1
  var queue: OperationQueue?

  var phase = Phase.stopped
  /// Of starts: what was under way for an earlier one does not count.
  var run: UInt64 = 0
  var error: (any Error)?
  var disabled = 0
  var results: [NSMetadataItem] = []
  /// By the daemon's numbers.
  var byID: [UInt64: NSMetadataItem] = [:]
  /// Of before the daemon was another, until all is gathered anew.
  var former: [NSMetadataItem]?
  /// What was received and is not in `results` yet.
  var pending = QueryUpdate(query: 0)
  var pendingEnd = false
  var isFlushScheduled = false
  /// In seconds of the system's uptime.
  var lastFlush: TimeInterval = -1e9
  var continuations: [Int: AsyncStream<NSMetadataQuery.Update>.Continuation] = [:]
  var nextListener = 0

  var hasPending: Bool {
    pendingEnd || !pending.added.isEmpty || !pending.changed.isEmpty || !pending.removed.isEmpty
  }

  /// What a listener who comes now has missed.
  var soFar: NSMetadataQuery.Update? {
    guard phase == .live || (phase == .gathering && !results.isEmpty) else { return nil }
    return NSMetadataQuery.Update(
      phase: phase == .live ? .gathered : .gathering, added: results, changed: [], removed: [])
  }

  mutating func begin() {
    phase = .gathering
    run += 1
    error = nil
    results = []
    former = nil
    forgetPending()
  }

  mutating func forgetPending() {
    byID = [:]
    pending = QueryUpdate(query: 0)
    pendingEnd = false
  }

  /// Takes what was received into the results; nil where there is nothing to tell.
  mutating func apply() -> NSMetadataQuery.Update? {
    guard phase != .stopped, disabled == 0, hasPending else { return nil }
    // Of another daemon's the whole is compared.
    if former != nil, !pendingEnd { return nil }
    let received = pending
    let isEnd = pendingEnd
    pending = QueryUpdate(query: 0)
    pendingEnd = false
    var added: [NSMetadataItem] = []
    var changed: [NSMetadataItem] = []
    var removed: [NSMetadataItem] = []
    if let former {
      self.former = nil
      (added, changed, removed) = compare(former, with: received.added)
    } else {
      for result in received.added {
        let item = NSMetadataItem(result.item)
        byID[result.id] = item
        added.append(item)
      }
    }
    // Of what is new no change is told.
    var told = Set((added + changed).map(ObjectIdentifier.init))
    for result in received.changed {
      guard let item = byID[result.id] else { continue }
      item.update(result.item)
      if told.insert(ObjectIdentifier(item)).inserted { changed.append(item) }
    }
    for removal in received.removed {
      if let item = byID.removeValue(forKey: removal.id) { removed.append(item) }
    }
    // What came and went in between nobody has seen.
    if !removed.isEmpty {
      let gone = Set(removed.map(ObjectIdentifier.init))
      let new = Set(added.map(ObjectIdentifier.init))
      added.removeAll { gone.contains(ObjectIdentifier($0)) }
      changed.removeAll { gone.contains(ObjectIdentifier($0)) }
      removed.removeAll { new.contains(ObjectIdentifier($0)) }
      results.removeAll { gone.contains(ObjectIdentifier($0)) }
    }
    results += added
    sort()
    guard phase == .gathering || !added.isEmpty || !changed.isEmpty || !removed.isEmpty else {
      return nil
    }
    let kind: NSMetadataQuery.Update.Phase =
      phase == .live ? .update : isEnd ? .gathered : .gathering
    if isEnd { phase = .live }
    return NSMetadataQuery.Update(phase: kind, added: added, changed: changed, removed: removed)
  }

  /// Items that are the same, by the identity that they have in their container, stay the same
  /// objects.
  private mutating func compare(
    _ former: [NSMetadataItem], with now: [QueryResult]
  ) -> (added: [NSMetadataItem], changed: [NSMetadataItem], removed: [NSMetadataItem]) {
    func key(_ item: QueryItem) -> String { item.container + "/" + item.itemIdentifier }
    var left = Dictionary(grouping: former) { key($0.report) }
    var added: [NSMetadataItem] = []
    var changed: [NSMetadataItem] = []
    for result in now {
      let place = key(result.item)
      guard var alike = left[place], !alike.isEmpty else {
        let item = NSMetadataItem(result.item)
        byID[result.id] = item
        added.append(item)
        continue
      }
      let index = alike.firstIndex { $0.report.path == result.item.path } ?? 0
      let item = alike.remove(at: index)
      left[place] = alike
      byID[result.id] = item
      if item.report != result.item {
        item.update(result.item)
        changed.append(item)
      }
    }
    let removed = left.values.flatMap(\.self)
    return (added, changed, removed)
  }

  private mutating func sort() {
    let keys = sortDescriptors.compactMap { descriptor in
      MetadataAttribute(named: descriptor.key).map { ($0, descriptor.ascending) }
    }
    guard !keys.isEmpty else { return }
    let valued = results.map { item in
      let report = item.report
      return (item, keys.map { $0.0.value(report) })
    }
    results = valued.sorted { left, right in
      for (index, key) in keys.enumerated() {
        let order = PredicateMatcher.order(left.1[index], right.1[index])
        if order != 0 { return key.1 ? order < 0 : order > 0 }
      }
      return false
    }.map(\.0)
  }
}
