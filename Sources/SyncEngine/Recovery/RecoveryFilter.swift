internal import Catalog
internal import Model
internal import SystemPackage

/// What of a snapshot can still be read in a store that lost packs. Contents without their chunks
/// stay by name, so that a device that has them can supply them; nothing is ever named as if it
/// could be read.
final class RecoveryFilter {
  private let catalog: ContainerCatalog
  /// Those that the store has.
  private let packs: Set<PackID>
  /// Packages of which a conflict version was left out so far.
  private(set) var disputed: Set<ItemID> = []

  init(catalog: ContainerCatalog, packs: Set<PackID>) {
    self.catalog = catalog
    self.packs = packs
  }

  func readable(_ part: SnapshotPart) throws(Errno) -> SnapshotPart {
    var ids: Set<ChunkID> = []
    for record in part.items + part.removed.map(\.record) {
      for content in record.contents { ids.formUnion((content.manifest?.chunks ?? []).map(\.id)) }
    }
    let places = try catalog.chunkLocations(Array(ids))
    func isReadable(_ content: ContentVersion) -> Bool {
      content.manifest?.chunks.allSatisfy { places[$0.id].map { packs.contains($0.pack) } ?? false }
        ?? false
    }
    var result = SnapshotPart()
    result.items = part.items.map { record in
      var record = record
      if let content = record.content, !isReadable(content) {
        record.content = content.withoutManifest
      }
      let conflicts = record.conflicts
      record.conflicts = conflicts.compactMap {
        isReadable($0) ? $0 : record.kind == .file ? $0.withoutManifest : nil
      }
      // A version of a package is one archive, and cannot be supplied by files. The device that
      // made these edits finds the conflict again.
      if record.conflicts.count < conflicts.count { disputed.insert(record.id) }
      return record
    }
    // A removed item has no name under which a device could supply it. A device that has its
    // content locally takes it for new (`installRecovered`).
    result.removed = part.removed.filter { $0.record.contents.allSatisfy(isReadable) }
    result.chunks = part.chunks.filter { packs.contains($0.pack) }
    result.packs = part.packs.compactMap { pack in
      guard packs.contains(pack.pack) else { return pack.state == .deleted ? pack : nil }
      // In the state to which the store went back others may name what is in it. If nobody does, it
      // is condemned again.
      return PackRecord(pack: pack.pack, bytes: pack.bytes)
    }
    return result
  }
}

extension ItemRecord {
  fileprivate var contents: [ContentVersion] { [content].compactMap(\.self) + conflicts }
}
