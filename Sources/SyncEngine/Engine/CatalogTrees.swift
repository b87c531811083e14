internal import Catalog
internal import Coordination
internal import Model
internal import SystemPackage

/// The three trees as the catalog holds them.
struct CatalogTrees: TreeView {
  let catalog: ContainerCatalog

  func localRecord(_ item: ItemID) throws(Errno) -> ItemRecord? {
    try catalog.local(item)?.record
  }

  func remoteRecord(_ item: ItemID) throws(Errno) -> ItemRecord? { try catalog.remote(item) }

  func localChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID? {
    try catalog.localChild(parent, name)
  }

  func remoteChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID? {
    try catalog.remoteChild(parent, name)
  }

  func localChildren(of parent: ItemID) throws(Errno) -> [ItemID] {
    try catalog.localChildren(of: parent)
  }

  func remoteChildren(of parent: ItemID) throws(Errno) -> [ItemID] {
    try catalog.remoteChildren(of: parent)
  }

  func hasExcludedChildren(of parent: ItemID) throws(Errno) -> Bool {
    try catalog.hasExcludedChildren(of: parent)
  }
}

/// The content of an edited file as it was when its chunks went up. It is still that while nothing
/// moved the file's change time, which no program can set.
struct StagedContent: Hashable, Sendable {
  let version: VersionID
  let generation: UInt64
  let size: UInt64
  let modified: Timestamp
  let changed: Timestamp
  /// Nil: the version is announced, its chunks are not up.
  let manifest: Manifest?
  let lineage: Lineage?

  init(
    version: VersionID, inode: Catalog.Inode, manifest: Manifest?, lineage: Lineage? = nil
  ) {
    self.version = version
    self.lineage = lineage
    self.generation = inode.generation
    self.size = inode.size
    self.modified = inode.modified
    self.changed = inode.changed
    self.manifest = manifest
  }

  func isStill(_ inode: Catalog.Inode) -> Bool {
    generation == inode.generation && size == inode.size && modified == inode.modified
      && changed == inode.changed
  }
}

extension EditedContent {
  init(_ content: StagedContent) {
    self.init(version: content.version, manifest: content.manifest, lineage: content.lineage)
  }
}

extension UploadedContent {
  /// `version`: the one that the log has of it.
  init(_ content: StagedContent, as version: VersionID) {
    self.init(
      version: version, generation: content.generation, size: content.size,
      modified: content.modified, changed: content.changed)
  }
}

extension LocalSide {
  /// As if the file were closed, with the content of a snapshot.
  mutating func show(_ snapshot: StagedContent) {
    edited = EditedContent(snapshot)
    record.modified = snapshot.modified
    size = snapshot.size
    isBusy = false
  }
}
