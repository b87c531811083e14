package import Model
package import SystemPackage

/// Which of the items that were looked at can be planned without those that were not: those that
/// are here, that nobody changed elsewhere, and that are in no package; whose directories are in
/// the log or go there with them; and whose names nothing in the log has. Of a directory that was
/// moved the plan has to see where all others are.
package struct Independence<View: TreeView> {
  private let view: View
  private let items: [ItemID: ItemTrees]
  private var finder: PackageFinder<View>
  private var answers: [ItemID: Bool] = [:]

  package init(view: View, types: PackageTypes, items: [ItemID: ItemTrees]) {
    self.view = view
    self.items = items
    finder = PackageFinder(view: view, types: types, items: items)
  }

  /// Decides on directories before their items, without recursion: trees may be deep.
  package mutating func isIndependent(_ id: ItemID) throws(Errno) -> Bool {
    var pending = [id]
    var begun: Set<ItemID> = []
    while let next = pending.last {
      if answers[next] == nil, begun.insert(next).inserted {
        let above = items[next]?.local?.record.links.map(\.parent) ?? []
        pending += above.filter { items[$0] != nil && answers[$0] == nil && !begun.contains($0) }
        // Its directories come first; this one comes again after them.
        if pending.last != next { continue }
      }
      pending.removeLast()
      if answers[next] == nil { answers[next] = try decide(next) }
    }
    return answers[id] ?? false
  }

  private mutating func decide(_ id: ItemID) throws(Errno) -> Bool {
    guard let trees = items[id], let local = trees.local, trees.base == trees.remote else {
      return false
    }
    let known = trees.remote?.links ?? []
    if local.record.kind == .directory, let remote = trees.remote {
      guard remote.links.map(\.parent) == local.record.links.map(\.parent) else { return false }
    }
    guard try finder.roots(of: local.record, .local).isEmpty,
      try finder.rootsAcross(local.record, .local).isEmpty
    else { return false }
    if let remote = trees.remote {
      guard try finder.roots(of: remote, .remote).isEmpty,
        try finder.rootsAcross(remote, .remote).isEmpty
      else { return false }
    }
    for link in local.record.links {
      guard try holds(link.parent) else { return false }
      if !known.contains(link),
        try view.remoteChild(of: link.parent, named: link.name) != nil
      {
        return false
      }
    }
    return true
  }

  /// Whether a directory is, or is about to be, in the log and here.
  private mutating func holds(_ directory: ItemID) throws(Errno) -> Bool {
    if directory == .root { return true }
    if let answer = answers[directory] { return answer }
    // It is being decided on itself: a directory within itself.
    if items[directory] != nil { return false }
    let here = try view.localRecord(directory)
    let there = try view.remoteRecord(directory)
    let answer = here?.kind == .directory && there?.kind == .directory
    answers[directory] = answer
    return answer
  }
}
