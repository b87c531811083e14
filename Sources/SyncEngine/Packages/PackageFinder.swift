internal import Model
internal import SystemPackage

/// Which package an item is in: the outermost one at or above it, in the local tree and in the
/// log's.
///
/// A function of the trees. What was asked once is remembered, so one is made for each plan.
struct PackageFinder<View: TreeView> {
  enum Side {
    case local
    case remote
  }

  private let view: View
  private let types: PackageTypes
  /// What is planned is asked here: these are the trees as they were at one moment.
  private let items: [ItemID: ItemTrees]
  private var known: [Side: [ItemID: ItemID?]] = [.local: [:], .remote: [:]]
  private let places: LocalPlaces

  init(view: View, types: PackageTypes, items: [ItemID: ItemTrees]) {
    self.view = view
    self.types = types
    self.items = items
    places = LocalPlaces(items)
  }

  /// The planned items by the directories that they are in here; found out when first asked for.
  private final class LocalPlaces {
    private let items: [ItemID: ItemTrees]

    init(_ items: [ItemID: ItemTrees]) { self.items = items }

    lazy var inside: [ItemID: Set<ItemID>] = {
      var result: [ItemID: Set<ItemID>] = [:]
      for (id, trees) in items {
        for link in trees.local?.record.links ?? [] {
          result[link.parent, default: []].insert(id)
        }
      }
      return result
    }()
  }

  func record(_ id: ItemID, _ side: Side) throws(Errno) -> ItemRecord? {
    switch side {
    case .local:
      if let trees = items[id] { return trees.local?.record }
      return try view.localRecord(id)
    case .remote:
      if let trees = items[id] { return trees.remote }
      return try view.remoteRecord(id)
    }
  }

  /// A hard-linked file may be in several.
  mutating func roots(of record: ItemRecord, _ side: Side) throws(Errno) -> Set<ItemID> {
    if record.kind == .directory {
      return try root(ofDirectory: record.id, side).map { [$0] } ?? []
    }
    var result: Set<ItemID> = []
    for link in record.links {
      if let root = try root(ofDirectory: link.parent, side) { result.insert(root) }
    }
    return result
  }

  /// The names that are in no package.
  mutating func outside(_ links: [Link], _ side: Side) throws(Errno) -> [Link] {
    var result: [Link] = []
    for link in links where try root(ofDirectory: link.parent, side) == nil { result.append(link) }
    return result
  }

  /// Where it is to be when its directories are where the other side has them.
  mutating func rootsAcross(_ record: ItemRecord, _ side: Side) throws(Errno) -> Set<ItemID> {
    var result: Set<ItemID> = []
    for link in record.links {
      let other: Side = side == .local ? .remote : .local
      if let root = try root(ofDirectory: link.parent, other) { result.insert(root) }
    }
    return result
  }

  /// What is a package on one side is none of two minds on the other: it is about to be one there,
  /// or was one.
  private func isPackage(_ record: ItemRecord, _ side: Side) throws(Errno) -> Bool {
    if types.isPackage(record) { return true }
    guard let other = try self.record(record.id, side == .local ? .remote : .local) else {
      return false
    }
    return types.isPackage(other)
  }

  private mutating func root(ofDirectory id: ItemID, _ side: Side) throws(Errno) -> ItemID? {
    var path: [ItemRecord] = []
    var passed: Set<ItemID> = []
    var current = id
    var found: ItemID?
    while current != .root, passed.insert(current).inserted {
      if let answer = known[side]?[current] {
        found = answer
        break
      }
      guard let record = try record(current, side) else { break }
      path.append(record)
      guard let above = record.links.first?.parent else { break }
      current = above
    }
    for record in path.reversed() {
      if found == nil, try isPackage(record, side) { found = record.id }
      known[side]?[record.id] = .some(found)
    }
    return found
  }
}

extension PackageFinder {
  /// All that a package holds; nil when something of it changed after the trees were looked at.
  func tree(_ root: ItemID, _ side: Side, as merge: Merge) throws(Errno) -> PackageTree? {
    var builder = PackageTreeBuilder()
    var pending: [(directory: ItemID, path: [ItemName])] = [(root, [])]
    while let next = pending.popLast() {
      let children =
        side == .local
        ? try localChildren(of: next.directory) : try view.remoteChildren(of: next.directory)
      for child in children {
        guard var record = try record(child, side), next.path.count < 1_000 else { return nil }
        var content = record.content
        if side == .local {
          // Those of one that was removed elsewhere went with it, and may be nowhere any more.
          record.conflicts = try self.record(child, .remote)?.conflicts ?? []
        }
        if side == .local, let local = items[child]?.local, let edited = local.edited {
          content = merge.version(of: local, edited: edited, parent: nil)
        } else if side == .local, record.kind == .file, content == nil {
          return nil
        }
        if let shown = content, shown.manifest == nil {
          // Announced when it came, sent since.
          let known = [try self.record(child, .remote)?.content, items[child]?.base?.content]
          content = known.compactMap(\.self).first { $0.id == shown.id } ?? shown
        }
        for link in record.links where link.parent == next.directory {
          let path = next.path + [link.name]
          builder.add(record, content: content, at: path)
          if record.kind == .directory { pending.append((child, path)) }
        }
      }
    }
    return builder.finish(device: merge.device)
  }

  /// As the trees were looked at: what was moved or removed since is where it was then.
  private func localChildren(of directory: ItemID) throws(Errno) -> [ItemID] {
    let others = Set(try view.localChildren(of: directory)).filter { items[$0] == nil }
    return others.union(places.inside[directory] ?? []).sorted()
  }
}
