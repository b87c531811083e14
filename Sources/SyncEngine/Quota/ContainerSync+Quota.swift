internal import Catalog
internal import Coordination
internal import Model
internal import RemoteStore
internal import SystemPackage

/// Contents that have no room in the account's allotment: they are not sent and not announced, and
/// stay here as a file that a program never closes would. All else of them goes on.
extension ContainerSync {
  /// Files that have no room now, and their bytes.
  package nonisolated var waitingForRoom: (files: Int, bytes: UInt64) { transfers.waitingForRoom }

  /// What is sent together or not at all: a file, or what was edited in a package.
  private struct Unit {
    var files: [ItemID] = []
    var growth: Int64 = 0
    var size: UInt64 = 0
    var changed = Timestamp.earliest
    /// All of it is up already: sending anything else in its stead would be for nothing.
    var isUp = true
    var isChangedElsewhere = false
  }

  /// Marks edited files for which there is no room as busy, in the order in which contents go up:
  /// what does not fit is passed over, and what is smaller and still fits goes.
  ///
  /// `isPart`: these are not all in which the trees differ.
  func holdBeyondQuota(
    _ items: inout [ItemID: ItemTrees], _ changes: [ItemID: Timestamp], isPart: Bool = false
  ) throws(Errno) {
    let catalog = coordinator.catalog
    let id = coordinator.container
    let usage = try catalog.usage()
    var beyond = isPart ? beyondQuota.filter { items[$0.key] == nil } : [:]
    if allotment.room(for: id, using: usage) == nil {
      _ = allotment.choose(for: id, using: usage, [])
      (deniedRoom, deniedFiles) = ([], [:])
    } else {
      // The later rounds of a cycle leave alone what one plan had no room for: it still waits.
      if isPart || !items.isEmpty { beyond.merge(deniedFiles) { $1 } }
      let units = try units(items, changes)
      let chosen = allotment.choose(
        for: id, using: usage, units.map(\.growth), isWaiting: !deniedRoom.isEmpty)
      for (unit, hasRoom) in zip(units, chosen) where !hasRoom {
        for file in unit.files {
          guard let local = items[file]?.local,
            let number = try catalog.inodeNumber(of: file)
          else { continue }
          items[file]?.local?.isBusy = true
          items[file]?.local?.mayBeAnnounced = false
          beyond[file] = BeyondQuota(number: number, size: local.size)
        }
      }
    }
    if beyond != beyondQuota || !beyond.isEmpty { tellBeyondQuota(beyond) }
  }

  private func tellBeyondQuota(_ beyond: [ItemID: BeyondQuota]) {
    let known = Set(beyondQuota.values.map(\.number))
    let now = Set(beyond.values.map(\.number))
    beyondQuota = beyond
    transfers.setBeyondQuota(
      Dictionary(beyond.values.map { ($0.number, $0.size) }, uniquingKeysWith: { $1 }),
      limit: allotment.figures.limit ?? 0)
    for number in known.symmetricDifference(now) { coordinator.tellStatus(number) }
  }

  private func units(_ items: [ItemID: ItemTrees], _ changes: [ItemID: Timestamp]) throws(Errno)
    -> [Unit]
  {
    var finder = PackageFinder(
      view: CatalogTrees(catalog: coordinator.catalog), types: coordinator.packages, items: items)
    var units: [ItemID: Unit] = [:]
    var owners: [Link: ItemID] = [:]
    for (id, trees) in items {
      guard let local = trees.local else { continue }
      let root = try finder.roots(of: local.record, .local).min()
      // A new package that takes the place of a removed one is settled together with it.
      for link in local.record.links where root == nil || root == id { owners[link] = root ?? id }
      if let root, let remote = trees.remote, remote.content?.id != trees.base?.content?.id {
        units[root, default: Unit()].isChangedElsewhere = true
      }
      guard let edited = local.edited, !local.isBusy else { continue }
      var unit = units[root ?? id] ?? Unit()
      unit.files.append(id)
      unit.growth = unit.growth.plus(Self.growth(of: local, edited, trees))
      unit.size = unit.size &+ local.size
      unit.changed = max(unit.changed, changes[id] ?? unit.changed)
      if edited.manifest == nil { unit.isUp = false }
      units[root ?? id] = unit
    }
    for trees in items.values {
      // What goes from the log in the same segment makes room.
      guard trees.local == nil, let remote = trees.remote, trees.base == remote else { continue }
      let root = try finder.roots(of: remote, .remote).min()
      var links = remote.links
      if let root { links = try finder.record(root, .remote)?.links ?? links }
      guard let owner = links.lazy.compactMap({ owners[$0] }).first else {
        continue
      }
      units[owner]?.growth -= Int64(clamping: remote.allottedBytes)
    }
    for (root, unit) in units where unit.isChangedElsewhere {
      // One of the two is kept whole, as a version.
      guard let number = try coordinator.catalog.inodeNumber(of: root) else { continue }
      var size: UInt64 = 0
      try coordinator.forEachBelow(number) {
        if $0.kind == .file, !$0.isExcluded { size &+= $0.size }
      }
      units[root]?.growth = unit.growth.plus(Int64(clamping: size))
    }
    let recent = UploadOrder.recent(at: coordinator.catalog.now)
    func rank(_ unit: Unit) -> Int { unit.isUp ? 0 : unit.changed < recent ? 2 : 1 }
    return units.values.filter { !$0.files.isEmpty }.map { unit in
      var unit = unit
      unit.files.sort()
      return unit
    }.sorted { left, right in
      (rank(left), left.size, left.files[0]) < (rank(right), right.size, right.files[0])
    }
  }

  /// By how much the log would name more bytes than it does, if the edited content went into it.
  private static func growth(of local: LocalSide, _ edited: EditedContent, _ trees: ItemTrees)
    -> Int64
  {
    let size = Int64(clamping: local.size)
    guard let remote = trees.remote else { return size }
    if let manifest = edited.manifest,
      ([remote.content].compactMap(\.self) + remote.conflicts).contains(where: {
        $0.manifest == manifest
      })
    {
      return 0
    }
    let isConflict =
      trees.base?.content?.id != remote.content?.id && remote.content?.id != edited.version
      && remote.content?.manifest != nil
    // Of a conflict both contents are kept.
    return isConflict ? size : size - Int64(clamping: remote.content?.size ?? 0)
  }

  /// What somebody is told who waits for everything to be sent.
  var quotaText: String {
    transfers.quotaLine ?? Allotment.text(limit: allotment.figures.limit ?? 0)
  }

  // MARK: What a plan says

  /// Takes out of the next plan of this cycle what `holdBeyondQuota` could not foresee, such as
  /// packages that are kept as versions. False: the plan has room.
  func denyBeyondQuota(_ plan: Plan) throws(Errno) -> Bool {
    let catalog = coordinator.catalog
    let usage = try catalog.usage()
    guard let room = allotment.room(for: coordinator.container, using: usage) else { return false }
    var sum: Int64 = 0
    var growing: [(id: ItemID, growth: Int64)] = []
    for record in plan.upserts {
      var bytes = Int64(clamping: record.allottedBytes)
      if let tree = plan.archives[record.id] { bytes = bytes.plus(PackageArchive.size(of: tree)) }
      let growth = bytes - Int64(clamping: try catalog.remote(record.id)?.allottedBytes ?? 0)
      sum = sum.plus(growth)
      if growth > 0 { growing.append((record.id, growth)) }
    }
    for id in plan.removals {
      sum -= Int64(clamping: try catalog.remote(id)?.allottedBytes ?? 0)
    }
    guard sum > 0, UInt64(sum) > room else { return false }
    var finder = PackageFinder(
      view: CatalogTrees(catalog: catalog), types: coordinator.packages, items: [:])
    let denied = deniedRoom
    var beyond = beyondQuota
    for (id, growth) in growing.sorted(by: { ($0.growth, $0.id) > ($1.growth, $1.id) }) {
      guard sum > 0, UInt64(sum) > room else { break }
      sum -= growth
      deniedRoom.insert(id)
      for side in [PackageFinder<CatalogTrees>.Side.local, .remote] {
        if let record = try finder.record(id, side) {
          deniedRoom.formUnion(try finder.roots(of: record, side))
        }
      }
      guard let number = try catalog.inodeNumber(of: id) else { continue }
      let file = BeyondQuota(number: number, size: UInt64(growth))
      deniedFiles[id] = file
      beyond[id] = file
    }
    tellBeyondQuota(beyond)
    allotment.waits(coordinator.container)
    // Room that came before the container was marked as waiting woke nobody.
    if allotment.room(for: coordinator.container, using: usage).map({ $0 > room }) ?? true {
      signals.look()
    }
    return deniedRoom != denied
  }

  /// For what is put into the log by request: throws the text for the user where there is no room.
  func checkRoom(for changes: LogChanges) throws {
    let catalog = coordinator.catalog
    guard
      let room = allotment.room(for: coordinator.container, using: try catalog.usage())
    else { return }
    var sum: Int64 = 0
    for record in changes.upserts {
      sum = sum.plus(
        Int64(clamping: record.allottedBytes)
          - Int64(clamping: try catalog.remote(record.id)?.allottedBytes ?? 0))
    }
    for id in changes.removals {
      sum -= Int64(clamping: try catalog.remote(id)?.allottedBytes ?? 0)
    }
    guard sum > 0, UInt64(sum) > room else { return }
    throw RestoreFailure.failed(
      """
      quotaExceeded: this needs \(sum) bytes, but the account's quota has only \(room) bytes left; \
      delete stored data, or raise the quota with `ubiquityfs account quota`
      """)
  }
}

/// A file that has no room.
struct BeyondQuota: Hashable, Sendable {
  let number: InodeNumber
  let size: UInt64
}

extension PackageArchive {
  /// Of the whole archive.
  static func size(of tree: PackageTree) -> Int64 {
    parts(of: tree).reduce(0) { sum, part in
      switch part {
      case .frame(let pieces): sum.plus(Int64(pieces.reduce(0) { $0 + $1.count }))
      case .content(let manifest): sum.plus(Int64(clamping: manifest.size))
      }
    }
  }
}

extension Int64 {
  fileprivate func plus(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other > 0 ? .max : .min) : sum
  }
}
