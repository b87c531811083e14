import Backend
import Catalog
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage
import Testing

/// Directories in directories, thousands of levels deep: the work grows as their number does.
@Suite(.serialized) struct DeepTreeTests {
  enum Case: CaseIterable {
    case madeHere, madeElsewhere, madeOnBoth, removedHere, removedElsewhere, renamedHere, waiting
    case inHeldPackage
  }

  @Test(
    "planning nested directories takes steps in proportion to their number",
    arguments: Case.allCases)
  func planning(_ kind: Case) throws {
    let steps = try [500, 1000, 2000].map { try self.steps(kind, depth: $0) }
    #expect(steps[1] * 10 < steps[0] * 23, "\(steps)")
    #expect(steps[2] * 10 < steps[1] * 23, "\(steps)")
    #expect(steps[2] < 200 * 2000, "\(steps)")
  }

  private let me = Model.DeviceID(high: 7, low: 0)
  private let time = Timestamp(nanoseconds: 1000)

  /// In no order that has to do with the depth.
  private func id(_ level: Int, _ salt: UInt64 = 0) -> ItemID {
    ItemID(high: (UInt64(level + 1) &* 0x9E37_79B9_7F4A_7C15) ^ salt, low: UInt64(level) + 1)
  }

  private func directory(_ level: Int, _ name: String, salt: UInt64 = 0) throws -> ItemRecord {
    ItemRecord(
      id: id(level, salt), kind: .directory,
      links: [
        Link(parent: level == 0 ? .documents : id(level - 1, salt), name: try ItemName(name))
      ], mode: 0o755, modified: time, created: time)
  }

  private func steps(_ kind: Case, depth: Int) throws -> Int {
    var items: [ItemID: ItemTrees] = [:]
    var held: Set<ItemID> = []
    for level in 0..<depth {
      let record = try directory(level, kind == .inHeldPackage && level == 0 ? "d.pages" : "d")
      let stamp = UInt64(level) + 1
      switch kind {
      case .madeHere, .waiting, .inHeldPackage:
        items[record.id] = ItemTrees(local: LocalSide(record: record, stamp: stamp))
      case .madeElsewhere: items[record.id] = ItemTrees(remote: record)
      case .madeOnBoth:
        let other = try directory(level, "d", salt: 1 << 40)
        items[record.id] = ItemTrees(local: LocalSide(record: record, stamp: stamp))
        items[other.id] = ItemTrees(remote: other)
      case .removedHere:
        items[record.id] = ItemTrees(base: record, remote: record, stamp: stamp)
      case .removedElsewhere:
        items[record.id] = ItemTrees(local: LocalSide(record: record), base: record)
      case .renamedHere:
        items[record.id] = ItemTrees(
          local: LocalSide(record: try directory(level, "new"), stamp: stamp), base: record,
          remote: record)
      }
    }
    if kind == .inHeldPackage { held.insert(id(0)) }
    if kind == .waiting {
      // A program writes to a file at the bottom.
      let file = ItemRecord(
        id: id(depth), kind: .file, links: [Link(parent: id(depth - 1), name: try ItemName("f"))],
        mode: 0o644, modified: time, created: time)
      items[file.id] = ItemTrees(
        local: LocalSide(
          record: file, size: 1,
          edited: EditedContent(version: VersionID(high: 1, low: 1), manifest: nil), stamp: 1,
          isBusy: true))
    }
    let view = CountingTrees(items)
    let count = StepCount()
    let plan = try Planner(device: me, view: view, held: held).plan(items, counting: count)
    switch kind {
    case .madeHere: #expect(plan.upserts.count == depth)
    case .waiting: #expect(plan.upserts.count == depth && plan.deferred.count == 1)
    case .inHeldPackage: #expect(plan.upserts.isEmpty && plan.deferred.count == depth)
    case .madeElsewhere, .removedElsewhere: #expect(plan.local.count == depth)
    case .madeOnBoth: #expect(plan.isPreliminary && plan.local.count == depth)
    case .removedHere: #expect(plan.removals.count == depth)
    case .renamedHere: #expect(plan.upserts.count == depth)
    }
    // Directories before what is in them, and the other way round where they go.
    let levels = Dictionary(uniqueKeysWithValues: (0..<depth).map { (id($0), $0) })
    if kind == .madeElsewhere || kind == .removedElsewhere {
      let order = plan.local.compactMap { operation -> Int? in
        switch operation {
        case .upsert(let record, _, _): levels[record.id]
        case .remove(let id, _): levels[id]
        default: nil
        }
      }
      #expect(order == (kind == .madeElsewhere ? order.sorted() : order.sorted(by: >)))
    }
    var independence = Independence(view: view, types: .standard, items: items)
    for id in items.keys { _ = try independence.isIndependent(id) }
    if kind == .madeHere { #expect(try independence.isIndependent(id(depth - 1))) }
    return count.count + view.calls.withLock { $0 }
  }

  @Test("whether a very deep tree can be sent in batches is found without recursion")
  func deepIndependence() throws {
    let depth = 50_000
    var items: [ItemID: ItemTrees] = [:]
    for level in 0..<depth {
      let record = try directory(level, "d")
      items[record.id] = ItemTrees(local: LocalSide(record: record, stamp: 1))
    }
    var independence = Independence(
      view: CountingTrees(items), types: .standard, items: items)
    #expect(try independence.isIndependent(id(depth - 1)))
  }

  @Test("a tree of 3,000 nested directories comes to another device and goes from it")
  func deepTreeSyncs() async throws {
    let store = MemoryStore()
    let secret = AccountSecret.generate()
    let settings = SyncSettings(deletions: DeletionGuard(share: 1))
    let first = try EngineDevice(store: store, secret: secret, settings: settings)
    let second = try EngineDevice(store: store, secret: secret, settings: settings)
    let depth = 3000
    let name = try ItemName("d")
    var above = try #require(try first.find("Documents")).number
    var path: [InodeNumber] = []
    for _ in 0..<depth {
      path.append(above)
      above = try first.catalog.create(
        name, in: above, NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0)
      ).number
    }
    try await first.sync.sync(timeout: .seconds(120))
    try await second.sync.sync(timeout: .seconds(120))
    #expect(try second.catalog.counts().items == UInt64(depth) + 1)
    for parent in path.reversed() {
      let gone = try first.catalog.remove(name, in: parent, directory: true)
      first.coordinator.reclaim(gone.number)
    }
    try await first.sync.sync(timeout: .seconds(120))
    try await second.sync.sync(timeout: .seconds(120))
    #expect(try second.catalog.counts().items == 1)
    await first.end()
    await second.end()
  }
}

/// The top of a container that both sides know, and planned items as they are on each side.
private final class CountingTrees: TreeView {
  let calls = Lock(0)
  private var local: [ItemID: ItemRecord] = [:]
  private var remote: [ItemID: ItemRecord] = [:]
  private var names: (local: [Link: ItemID], remote: [Link: ItemID]) = ([:], [:])

  init(_ items: [ItemID: ItemTrees]) {
    let root = ItemRecord(
      id: .root, kind: .directory, links: [], mode: 0o755, modified: Timestamp(nanoseconds: 0),
      created: Timestamp(nanoseconds: 0))
    var documents = root
    documents.id = .documents
    documents.links = [Link(parent: .root, name: .documents)]
    for record in [root, documents] + items.values.compactMap(\.local?.record) { add(record, true) }
    for record in [root, documents] + items.values.compactMap(\.remote) { add(record, false) }
  }

  private func add(_ record: ItemRecord, _ isLocal: Bool) {
    if isLocal { local[record.id] = record } else { remote[record.id] = record }
    for link in record.links {
      if isLocal { names.local[link] = record.id } else { names.remote[link] = record.id }
    }
  }

  private func counted<Answer>(_ answer: Answer) -> Answer {
    calls.withLock { $0 += 1 }
    return answer
  }

  func localRecord(_ item: ItemID) throws(Errno) -> ItemRecord? { counted(local[item]) }

  func remoteRecord(_ item: ItemID) throws(Errno) -> ItemRecord? { counted(remote[item]) }

  func localChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID? {
    counted(names.local[Link(parent: parent, name: name)])
  }

  func remoteChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID? {
    counted(names.remote[Link(parent: parent, name: name)])
  }

  func localChildren(of parent: ItemID) throws(Errno) -> [ItemID] {
    counted(local.values.filter { $0.links.contains { $0.parent == parent } }.map(\.id))
  }

  func remoteChildren(of parent: ItemID) throws(Errno) -> [ItemID] {
    counted(remote.values.filter { $0.links.contains { $0.parent == parent } }.map(\.id))
  }

  func hasExcludedChildren(of parent: ItemID) throws(Errno) -> Bool { counted(false) }
}
