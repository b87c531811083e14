import Catalog
import Model
import SyncEngine
import SystemPackage

/// The log that simulated devices share.
struct SimulatedLog {
  var segments: [LogChanges] = []
}

/// A device of the planner's simulation: three trees in memory and the rules by which the catalog
/// moves them. No I/O; everything follows from the seed.
struct SimulatedDevice: TreeView {
  struct Node {
    var record: ItemRecord
    var edited: EditedContent?
    var stamp: UInt64?
    var isExcluded = false
  }

  let device: Model.DeviceID
  var local: [ItemID: Node] = [:]
  var base: [ItemID: ItemRecord] = [:]
  var remote: [ItemID: ItemRecord] = [:]
  /// Dirty marks of items that are gone here.
  var removed: [ItemID: UInt64] = [:]
  /// Open for writing.
  var busy: Set<ItemID> = []
  /// Programs have just changed all packages in which anything is dirty.
  var holdsPackages = false
  var position = 0
  var nextStamp: UInt64 = 1

  init(device: Model.DeviceID) {
    self.device = device
    let root = ItemRecord(
      id: .root, kind: .directory, links: [], mode: 0o755, modified: Timestamp(nanoseconds: 0),
      created: Timestamp(nanoseconds: 0))
    var documents = root
    documents.id = .documents
    documents.links = [Link(parent: .root, name: .documents)]
    for record in [root, documents] {
      local[record.id] = Node(record: record)
      base[record.id] = record
      remote[record.id] = record
    }
  }

  // MARK: TreeView

  func localRecord(_ item: ItemID) throws(Errno) -> ItemRecord? {
    local[item].flatMap { $0.isExcluded ? nil : $0.record }
  }

  func remoteRecord(_ item: ItemID) throws(Errno) -> ItemRecord? { remote[item] }

  func localChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID? {
    let link = Link(parent: parent, name: name)
    return local.first { $0.value.record.links.contains(link) }?.key
  }

  func remoteChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID? {
    let link = Link(parent: parent, name: name)
    return remote.first { $0.value.links.contains(link) }?.key
  }

  func localChildren(of parent: ItemID) throws(Errno) -> [ItemID] {
    local.filter { !$0.value.isExcluded && $0.value.record.links.contains { $0.parent == parent } }
      .keys.sorted()
  }

  func remoteChildren(of parent: ItemID) throws(Errno) -> [ItemID] {
    remote.filter { $0.value.links.contains { $0.parent == parent } }.keys.sorted()
  }

  func hasExcludedChildren(of parent: ItemID) throws(Errno) -> Bool {
    local.contains { $0.value.isExcluded && $0.value.record.links.contains { $0.parent == parent } }
  }

  // MARK: What a user does

  mutating func touch(_ id: ItemID) {
    local[id]?.stamp = nextStamp
    nextStamp += 1
  }

  mutating func create(
    _ id: ItemID, _ kind: ItemKind, at link: Link, content: EditedContent?, time: Int64
  ) -> Bool {
    guard local[link.parent]?.record.kind == .directory,
      (try? localChild(of: link.parent, named: link.name)) == .some(nil)
    else { return false }
    let time = Timestamp(nanoseconds: time)
    local[id] = Node(
      record: ItemRecord(
        id: id, kind: kind, links: [link], mode: 0o644, modified: time, created: time),
      edited: content)
    touch(id)
    return true
  }

  mutating func move(_ id: ItemID, to link: Link) -> Bool {
    guard id != .root, id != .documents, let node = local[id],
      local[link.parent]?.record.kind == .directory,
      (try? localChild(of: link.parent, named: link.name)) == .some(nil)
    else { return false }
    var above = link.parent
    while above != .root {
      if above == id { return false }
      guard let next = local[above]?.record.links.first?.parent else { return false }
      above = next
    }
    guard node.record.links.count == 1 else { return false }
    local[id]?.record.links = [link]
    touch(id)
    return true
  }

  mutating func remove(_ id: ItemID) {
    guard id != .root, id != .documents, local[id] != nil else { return }
    for child in (try? localChildren(of: id)) ?? [] { remove(child) }
    local[id] = nil
    if base[id] != nil || remote[id] != nil {
      removed[id] = nextStamp
      nextStamp += 1
    }
  }

  // MARK: What the engine does

  func stamp(of id: ItemID) -> UInt64? { local[id]?.stamp ?? removed[id] }

  func gather() -> [ItemID: ItemTrees] {
    var result: [ItemID: ItemTrees] = [:]
    for id in Set(local.keys).union(remote.keys).union(base.keys).union(removed.keys) {
      guard stamp(of: id) != nil || base[id] != remote[id] else { continue }
      var trees = ItemTrees(base: base[id], remote: remote[id], stamp: stamp(of: id))
      if let node = local[id] {
        trees.local = LocalSide(
          record: node.record, size: 1, edited: node.edited, stamp: node.stamp,
          isBusy: busy.contains(id))
        trees.local?.record.conflicts = base[id]?.conflicts ?? []
      }
      result[id] = trees
    }
    return result
  }

  mutating func pull(_ log: SimulatedLog, upTo limit: Int = .max) {
    while position < min(log.segments.count, limit) {
      fold(log.segments[position])
      position += 1
    }
  }

  private mutating func fold(_ changes: LogChanges) {
    for record in changes.upserts { remote[record.id] = record }
    for id in changes.removals { remote[id] = nil }
  }

  private func differs(_ left: ItemRecord, _ right: ItemRecord?) -> Bool {
    guard let right else { return true }
    var left = left
    left.content = right.content
    left.conflicts = right.conflicts
    return left != right
  }

  mutating func apply(_ operations: [LocalOperation], keepingBaseOf kept: Set<ItemID> = []) {
    for operation in operations {
      switch operation {
      case .upsert(let record, let content, let stamp):
        precondition(self.stamp(of: record.id) == stamp, "stamp of \(record.id)")
        var node = local[record.id] ?? Node(record: record)
        let shown = node.record.content
        node.record = record
        node.record.conflicts = []
        if case .keep = content, local[record.id] != nil {
          node.record.content = shown
        } else {
          node.edited = nil
        }
        if !kept.contains(record.id) { base[record.id] = remote[record.id] }
        if node.edited != nil || differs(node.record, remote[record.id]) {
          if node.stamp == nil {
            node.stamp = nextStamp
            nextStamp += 1
          }
        } else {
          node.stamp = nil
        }
        removed[record.id] = nil
        local[record.id] = node
      case .remove(let id, let stamp):
        precondition(self.stamp(of: id) == stamp)
        local[id] = nil
        removed[id] = nil
        base[id] = remote[id]
      case .adopt(let mine, let theirs):
        guard var node = local.removeValue(forKey: mine), local[theirs] == nil else {
          preconditionFailure("adopted twice")
        }
        node.record.id = theirs
        local[theirs] = node
        for id in local.keys {
          for index in local[id]!.record.links.indices
          where local[id]!.record.links[index].parent == mine {
            local[id]!.record.links[index].parent = theirs
          }
          local[id]!.record.links.sort()
        }
      case .agree(let id, let stamp):
        base[id] = remote[id]
        if self.stamp(of: id) == stamp {
          local[id]?.stamp = nil
          removed[id] = nil
        }
      case .forgetBase(let id):
        base[id] = nil
        local[id]?.stamp = nil
      }
    }
  }

  mutating func committed(_ changes: LogChanges, _ plan: Plan) {
    fold(changes)
    for (id, version) in plan.versions {
      guard local[id]?.edited?.version == version || local[id]?.edited?.manifest != nil else {
        continue
      }
      local[id]?.record.content = remote[id]?.content
      local[id]?.edited = nil
    }
    let changed = changes.upserts.map(\.id) + changes.removals
    for id in Set(changed).union(plan.settled.keys).subtracting(plan.undecided) {
      base[id] = remote[id]
      guard let stamp = plan.settled[id], self.stamp(of: id) == stamp else { continue }
      local[id]?.stamp = nil
      removed[id] = nil
    }
  }

  /// One round of the engine; false when there was nothing to do.
  mutating func round(
    _ log: inout SimulatedLog, losesRace: Bool, stopsBeforeNoting: Bool, isTraced: Bool
  )
    throws -> Bool
  {
    pull(log)
    let items = gather()
    guard !items.isEmpty else { return false }
    let types = PackageTypes.standard
    let held = local.values.filter { holdsPackages && types.isPackage($0.record) }.map(\.record.id)
    let planner = Planner(device: device, view: self, held: Set(held))
    var plan = try planner.plan(items)
    let again = try planner.plan(items)
    precondition(plan.upserts == again.upserts && plan.removals == again.removals)
    precondition(plan.archives == again.archives)
    for (root, tree) in plan.archives {
      guard let index = plan.upserts.firstIndex(where: { $0.id == root }) else {
        throw BadSegment(reason: "nobody keeps \(root)")
      }
      let chunks = tree.entries.flatMap { $0.content?.chunks ?? [] }
      plan.upserts[index].conflicts.append(
        ContentVersion(
          id: tree.id, parent: nil, device: tree.device, modified: tree.modified,
          size: UInt64(chunks.count), manifest: Manifest(chunks: chunks)))
    }
    if isTraced {
      for operation in plan.local { print("local \(operation)") }
      for record in plan.upserts { print("upsert \(record)") }
      print("removals \(plan.removals) settled \(plan.settled) versions \(plan.versions)")
    }
    apply(plan.local, keepingBaseOf: plan.keepsBase)
    if plan.isPreliminary { return true }
    let changes = LogChanges(upserts: plan.upserts, removals: plan.removals)
    if !changes.isEmpty || !plan.versions.isEmpty {
      if losesRace { return true }
      try checkFolds(changes)
      try checkPackages(changes, plan)
      if !changes.isEmpty { log.segments.append(changes) }
      if stopsBeforeNoting { return true }
      if !changes.isEmpty { position += 1 }
      committed(changes, plan)
    }
    var sent = false
    for id in plan.uploads where !busy.contains(id) {
      guard let edited = local[id]?.edited, edited.manifest == nil else { continue }
      sent = true
      local[id]?.edited?.manifest = SimulatedDevice.manifest(of: edited.version)
    }
    // What is left waits for a close.
    let moved = !plan.local.isEmpty || !changes.isEmpty || !plan.versions.isEmpty || sent
    return moved || plan.deferred.isEmpty
  }

  /// A segment that changes anything in a package leaves in it what this device shows: all of its
  /// changes and those of nobody else, with contents that can be read.
  private func checkPackages(_ changes: LogChanges, _ plan: Plan) throws {
    let types = PackageTypes.standard
    var tree = remote
    for record in changes.upserts { tree[record.id] = record }
    for id in changes.removals { tree[id] = nil }
    func roots(_ id: ItemID, in records: [ItemID: ItemRecord]) -> ItemID? {
      var found: ItemID?
      var current = records[id]
      while let record = current {
        if types.isPackage(record) { found = record.id }
        current = record.links.first.flatMap { records[$0.parent] }
      }
      return found
    }
    let shown = local.mapValues { node in
      var record = node.record
      if let edited = node.edited {
        record.content = ContentVersion(
          id: edited.version, parent: nil, device: device, modified: record.modified, size: 1,
          manifest: edited.manifest)
      } else if let sent = tree[record.id]?.content, sent.id == record.content?.id {
        // What is shown is known by its version.
        record.content = sent
      }
      return record
    }
    func contents(_ root: ItemID, _ records: [ItemID: ItemRecord]) -> Set<String> {
      Set(
        records.values.filter { $0.id != root && roots($0.id, in: records) == root }.map {
          "\($0.id) \($0.links) \(Hex.encode($0.content?.manifest?.chunks.first?.id.bytes.prefix(4) ?? []))"
        })
    }
    var touched: Set<ItemID> = []
    // A file that goes into a package or out of it may have a conflict of its own.
    for record in changes.upserts where !plan.undecided.contains(record.id) {
      guard let root = roots(record.id, in: tree), root != record.id else { continue }
      touched.insert(root)
      if record.kind == .file, record.content?.manifest == nil,
        record.content?.device == device, record.content?.id != remote[record.id]?.content?.id
      {
        throw BadSegment(reason: "\(record.id) is announced in the package \(root)")
      }
    }
    for id in changes.removals {
      if let root = roots(id, in: remote), root != id, tree[root] != nil { touched.insert(root) }
    }
    // What goes from one side of a package's border to the other merges on its own.
    let crossing = Set(
      shown.keys.filter { id in
        tree[id] != nil && roots(id, in: shown) != roots(id, in: tree)
      }.flatMap { [roots($0, in: shown), roots($0, in: tree)].compactMap(\.self) })
    for root in touched.subtracting(crossing) where contents(root, tree) != contents(root, shown) {
      let (there, here) = (contents(root, tree), contents(root, shown))
      throw BadSegment(
        reason: """
          a part of \(root): the log gets \(there.subtracting(here).sorted()) and lacks \
          \(here.subtracting(there).sorted())
          """)
    }
  }

  struct BadSegment: Error {
    let reason: String
  }

  /// A segment after which the log is no tree would stop every device.
  private func checkFolds(_ changes: LogChanges) throws {
    var tree = remote
    for record in changes.upserts { tree[record.id] = record }
    for id in changes.removals { tree[id] = nil }
    var names: Set<Link> = []
    for record in tree.values {
      for link in record.links {
        guard tree[link.parent]?.kind == .directory else {
          throw BadSegment(reason: "no directory for \(link) of \(record.id)")
        }
        guard names.insert(link).inserted else { throw BadSegment(reason: "\(link) twice") }
      }
    }
  }

  /// In the simulation a content is known by its version's number.
  static func manifest(of version: VersionID) -> Manifest {
    let bytes = version.bytes + version.bytes
    guard let id = ChunkID(bytes) else { return .empty }
    return Manifest(chunks: [ChunkReference(id: id, length: 1)])
  }
}
