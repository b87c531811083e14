package import Model
package import SystemPackage

/// A content that was changed here and that the log does not hold yet.
package struct EditedContent: Hashable, Sendable {
  /// The version it is, or is going to be.
  package var version: VersionID
  /// Nil until its chunks are up.
  package var manifest: Manifest?
  /// Of a version that comes into the log again after a recovery, and of an edit of one.
  package var lineage: Lineage?

  package init(version: VersionID, manifest: Manifest?, lineage: Lineage? = nil) {
    self.version = version
    self.manifest = manifest
    self.lineage = lineage
  }
}

/// The version that another one was made of, and the one before that, as far as there were any.
package struct Lineage: Hashable, Sendable {
  package var parent: VersionID?
  package var grandparent: VersionID?

  package init(parent: VersionID?, grandparent: VersionID? = nil) {
    self.parent = parent
    self.grandparent = grandparent
  }

  /// Whether what has this lineage was made of a version.
  func has(_ version: VersionID) -> Bool { parent == version || grandparent == version }
}

/// An item as the mount shows it.
package struct LocalSide: Hashable, Sendable {
  /// `content` is the version shown; of an edited file it says nothing.
  package var record: ItemRecord
  package var size: UInt64
  package var edited: EditedContent?
  /// The dirty mark that the plan was made from; nil when nothing changed here.
  package var stamp: UInt64?
  /// A program has it open for writing: its content is nobody else's until it is closed.
  package var isBusy: Bool
  /// While it is busy, a new file's name may be in the log before its content.
  package var mayBeAnnounced: Bool
  /// The backend lost the content that the log has of it.
  package var lacksNewer: Bool
  /// It lacks that, and the file was edited since.
  package var replacesLost: Bool

  package init(
    record: ItemRecord, size: UInt64 = 0, edited: EditedContent? = nil, stamp: UInt64? = nil,
    isBusy: Bool = false, mayBeAnnounced: Bool = false, lacksNewer: Bool = false,
    replacesLost: Bool = false
  ) {
    self.lacksNewer = lacksNewer
    self.mayBeAnnounced = mayBeAnnounced
    self.replacesLost = replacesLost
    self.record = record
    self.size = size
    self.edited = edited
    self.stamp = stamp
    self.isBusy = isBusy
  }
}

/// One item in the three trees. Nil: it is not in that tree.
package struct ItemTrees: Hashable, Sendable {
  /// What the mount shows.
  package var local: LocalSide?
  /// What local and remote last agreed on.
  package var base: ItemRecord?
  /// The log, folded.
  package var remote: ItemRecord?
  /// The dirty mark of an item that is gone here.
  package var stamp: UInt64?
  /// The last record of an item that is gone from the log, while that can be brought back.
  package var removed: ItemRecord?
  /// Conflict versions that a recovery of the store left out: they come into the log again.
  package var keptConflicts: [ContentVersion]

  package init(
    local: LocalSide? = nil, base: ItemRecord? = nil, remote: ItemRecord? = nil,
    stamp: UInt64? = nil, removed: ItemRecord? = nil, keptConflicts: [ContentVersion] = []
  ) {
    self.removed = removed
    self.keptConflicts = keptConflicts
    self.local = local
    self.base = base
    self.remote = remote
    self.stamp = stamp ?? local?.stamp
  }

  /// Whether a file that is gone from the log is local here with conflict versions that this device
  /// alone keeps. Nobody can read a version by name only, so such a version does not count.
  var hasOnlyCopies: Bool {
    guard remote == nil, local?.record.kind == .file else { return false }
    let readable = keptConflicts.filter { $0.manifest != nil }
    return !(removed?.lacks(readable) ?? readable).isEmpty
  }
}

/// The rest of the trees, where local, base and remote agree, for names and parents.
package protocol TreeView {
  func localRecord(_ item: ItemID) throws(Errno) -> ItemRecord?
  func remoteRecord(_ item: ItemID) throws(Errno) -> ItemRecord?
  func localChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID?
  func remoteChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID?
  func localChildren(of parent: ItemID) throws(Errno) -> [ItemID]
  func remoteChildren(of parent: ItemID) throws(Errno) -> [ItemID]
  /// Whether a directory holds anything that never leaves the device.
  func hasExcludedChildren(of parent: ItemID) throws(Errno) -> Bool
}

/// Asks once for each record: all that is in a directory asks for that of the directory. For one
/// plan.
package final class RememberedTrees<View: TreeView>: TreeView {
  private let view: View
  private var local: [ItemID: ItemRecord?] = [:]
  private var remote: [ItemID: ItemRecord?] = [:]

  package init(_ view: View) { self.view = view }

  package func localRecord(_ item: ItemID) throws(Errno) -> ItemRecord? {
    if let known = local[item] { return known }
    let record = try view.localRecord(item)
    local[item] = .some(record)
    return record
  }

  package func remoteRecord(_ item: ItemID) throws(Errno) -> ItemRecord? {
    if let known = remote[item] { return known }
    let record = try view.remoteRecord(item)
    remote[item] = .some(record)
    return record
  }

  package func localChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID? {
    try view.localChild(of: parent, named: name)
  }

  package func remoteChild(of parent: ItemID, named name: ItemName) throws(Errno) -> ItemID? {
    try view.remoteChild(of: parent, named: name)
  }

  package func localChildren(of parent: ItemID) throws(Errno) -> [ItemID] {
    try view.localChildren(of: parent)
  }

  package func remoteChildren(of parent: ItemID) throws(Errno) -> [ItemID] {
    try view.remoteChildren(of: parent)
  }

  package func hasExcludedChildren(of parent: ItemID) throws(Errno) -> Bool {
    try view.hasExcludedChildren(of: parent)
  }
}
