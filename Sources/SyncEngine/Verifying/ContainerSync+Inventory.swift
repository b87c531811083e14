internal import Catalog
internal import Coordination
internal import Logging
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// When this process put its packs. A leaf.
final class PackTimes: Sendable {
  private let times = Lock<[PackID: UInt64]>([:])

  func note(_ chunks: [ChunkLocation]) {
    let now = monotonicNanoseconds()
    times.withLock { times in
      for pack in Set(chunks.map(\.pack)) { times[pack] = now }
    }
  }

  /// The store has changed, and may lack any of them.
  func forget() { times.withLock { $0 = [:] } }

  /// The packs that were put longer ago than `limit`, in nanoseconds, or by another process.
  /// Forgets the times of older packs.
  func old(among packs: Set<PackID>, within limit: UInt64) -> Set<PackID> {
    times.withLock { times in
      // Under the lock: a time from before it may be earlier than one that was noted meanwhile.
      let now = monotonicNanoseconds()
      times = times.filter { now &- $0.value <= limit }
      return packs.filter { times[$0] == nil }
    }
  }
}

/// Packs that a store lost while its log is the one that this device knows. A backup copies packs
/// first and the log later; a large upload puts packs for hours and no segment. The head of the log
/// says nothing of either.
extension ContainerSync {
  /// Of so many packs each is asked for; of more the list is read first.
  private static let mostAsked = 8

  /// Of packs that no segment names, those that the store does not have. It does not ask for packs
  /// that were put a moment ago.
  func lostPacks(
    of chunks: [ChunkLocation], _ remote: RemoteContainer
  ) async throws(CycleFailure) -> Set<PackID> {
    let packs = uploads.packTimes.old(
      among: Set(chunks.map(\.pack)), within: StoreHealth.putLimit)
    var suspects = packs.sorted()
    if suspects.count > Self.mostAsked {
      var listing = remote.listPacks()
      var unlisted: [PackID] = []
      for pack in suspects {
        do throws(RemoteError) {
          if try await !listing.looksWhole(pack, upTo: 0) { unlisted.append(pack) }
        } catch {
          throw .remote(error)
        }
      }
      suspects = unlisted
    }
    var lost: Set<PackID> = []
    for pack in suspects {
      guard !Task.isCancelled else { throw .cancelled }
      let isThere = try await remotely { () throws(RemoteError) in try await remote.hasPack(pack) }
      if !isThere { lost.insert(pack) }
    }
    if !lost.isEmpty {
      logger.warning("the backend lost \(lost.count) packs of an upload; they are uploaded again")
    }
    return lost
  }

  /// Whether content that is local here gives way, and the log has it as a conflict version, or in
  /// one of the package around it: that is like an eviction.
  func dropsCopies(_ plan: Plan) throws(Errno) -> Bool {
    try losers(plan) { _ in true } != nil
  }

  /// Whether the bytes of a conflict version that give way here were uploaded again and no segment
  /// says where. Without that segment nobody could read the version.
  func dropsUnannounced(_ plan: Plan) throws(Errno) -> Bool {
    guard !unannounced.isEmpty else { return false }
    let sent = Set(unannounced.map(\.chunk.id))
    let loser = try losers(plan) { loser throws(Errno) in
      loser.manifest?.chunks.contains { sent.contains($0.id) } ?? false
    }
    return loser != nil
  }

  /// Has an edit uploaded again that gives way and of which the store lost a part since its upload:
  /// the log does not show the edit as a version of this file, so no look at the losses finds it.
  func renewsLosers(_ plan: Plan) throws(Errno) -> Bool {
    let sent = Set(unannounced.map(\.chunk.id))
    let catalog = coordinator.catalog
    let found = try losers(plan) { loser throws(Errno) in
      guard loser.isEdit, let manifest = loser.manifest else { return false }
      let ids = Set(manifest.chunks.map(\.id)).subtracting(sent)
      return try !catalog.usableChunks(Array(ids)).isSuperset(of: ids)
    }
    guard let found else { return false }
    return forgetUploaded(found)
  }

  private struct Loser {
    /// Nil if the log has it by name only.
    let manifest: Manifest?
    let isEdit: Bool
  }

  /// The first file whose local content gives way though it is a conflict version, or in one.
  private func losers(
    _ plan: Plan, where isWanted: (Loser) throws(Errno) -> Bool
  ) throws(Errno) -> ItemID? {
    let catalog = coordinator.catalog
    var packages = LostPackages(plan, coordinator)
    for operation in plan.local {
      guard let item = packages.item(of: operation), let found = try catalog.local(item),
        found.inode.kind == .file, found.inode.content == .local
      else { continue }
      // An edit that was just uploaded has its version from `staged`.
      let version = found.inode.version ?? staged[item]?.version
      let manifest =
        try found.inode.version == nil
        ? staged[item]?.manifest : catalog.shownContent(of: found.inode.number)?.manifest
      guard let version else { continue }
      var isLoser = false
      if let manifest { isLoser = try packages.hold(manifest, of: found.record) }
      if case .upsert(let record, _, _) = operation, !isLoser {
        isLoser = record.conflicts.contains {
          $0.id == version || (manifest != nil && $0.manifest == manifest)
        }
      }
      let loser = Loser(manifest: manifest, isEdit: found.inode.version == nil)
      if isLoser, try isWanted(loser) { return item }
    }
    return nil
  }

  /// Compares the packs that the log names with those that the store lists. The catalog notes
  /// missing packs as lost. Their local contents are uploaded again, and cannot be evicted until
  /// then.
  func takeInventory(_ remote: RemoteContainer) async throws(CycleFailure) {
    let started = monotonicNanoseconds()
    var check = StoreCheck(options: VerifyOptions()) { _, _ in }
    try await checkPacks(&check, remote)
    // Another task may not have come to a file that a cycle is about to replace.
    if hasUnmarkedLosses || markings > 0 {
      let marked = try await markLost(&check)
      let (local, other) = (marked.count, check.unresolved.count)
      if local + other > 0 {
        logger.error(
          """
          the backend lost the content of \(local + other) files and versions of \
          "\(coordinator.container)": \(local) are local and are uploaded again; for the other \
          \(other) run `ubiquityfs store verify \(coordinator.container)`
          """)
      }
      signals.look()
    }
    health.inventoried(at: started)
  }
}

/// The chunks in the conflict versions of packages, for the files that a plan touches.
private struct LostPackages {
  private let catalog: ContainerCatalog
  private var finder: PackageFinder<CatalogTrees>
  private let hasPackages: Bool
  private var chunks: [ItemID: Set<ChunkID>] = [:]

  init(_ plan: Plan, _ coordinator: ContainerCoordinator) {
    catalog = coordinator.catalog
    finder = PackageFinder(
      view: CatalogTrees(catalog: catalog), types: coordinator.packages, items: [:])
    hasPackages = !plan.packages.isEmpty
  }

  /// The item whose content the operation replaces or removes.
  func item(of operation: LocalOperation) -> ItemID? {
    switch operation {
    case .upsert(let record, let content, _):
      guard content != .keep, record.kind == .file, hasPackages || !record.conflicts.isEmpty else {
        return nil
      }
      return record.id
    // The version of a package has the files that the package loses.
    case .remove(let item, _): return hasPackages ? item : nil
    default: return nil
    }
  }

  /// Whether a content of a file is in a version of a package around the file.
  mutating func hold(_ content: Manifest, of file: ItemRecord) throws(Errno) -> Bool {
    guard hasPackages, !content.chunks.isEmpty else { return false }
    for root in try finder.roots(of: file, .local) {
      if chunks[root] == nil {
        let versions = try catalog.remote(root)?.conflicts ?? []
        chunks[root] = Set(versions.flatMap { $0.manifest?.chunks ?? [] }.map(\.id))
      }
      guard let known = chunks[root] else { continue }
      if content.chunks.contains(where: { known.contains($0.id) }) { return true }
    }
    return false
  }
}
