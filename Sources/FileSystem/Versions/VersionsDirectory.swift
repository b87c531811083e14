internal import Catalog
package import Coordination
internal import Model
package import Platform
package import SystemPackage

/// The hidden directory `.ubiquity` of a mount's root, whose `versions` mirrors the tree: a file
/// with conflict versions is a directory there, with a read-only file for each of its versions.
///
/// Not listed by the root, as CephFS's `.snap` is not, so that what copies or packs a mount does
/// not see it. Nothing in it is stored: names are looked up in the catalog, versions in the records
/// of the log. So nothing can be changed here either; looking never asks the network, and opening a
/// version brings it. An item that another device's older program called `.ubiquity` stays in the
/// log, and is not seen here.
///
/// Any thread. Its locks are leaves.
package final class VersionsDirectory: Sendable {
  package static let name = Array(".ubiquity".utf8)
  static let versionsName = Array("versions".utf8)

  let fileSystem: ContainerFileSystem
  var catalog: ContainerCatalog { fileSystem.catalog }
  let table = VersionTable()
  package let opens: OpenVersions
  private let noticed: Lock<Noticed>

  /// The state of the log that was seen last, and when a newer one was first seen.
  private struct Noticed {
    var sequence: UInt64?
    var time: Timestamp
  }

  package init(fileSystem: ContainerFileSystem) {
    self.fileSystem = fileSystem
    opens = OpenVersions(fileSystem: fileSystem)
    noticed = Lock(Noticed(time: fileSystem.now()))
  }

  /// Whether a name in a directory is the hidden directory's own.
  package static func isHidden(_ name: [UInt8], in parent: UInt64) -> Bool {
    parent == InodeNumber.root.rawValue && name == Self.name
  }

  // MARK: Looking

  /// `.ubiquity`, which the root has without telling of it.
  package func hidden() throws(Errno) -> VersionStatus { try status(.hidden) }

  /// Nil when there is no such name. A version's counts as a lookup, to be forgotten some time.
  package func lookup(_ name: [UInt8], in parent: VersionNode) throws(Errno) -> VersionStatus? {
    switch parent {
    case .hidden:
      return name == Self.versionsName ? try status(.mirror(.root)) : nil
    case .mirror(let number):
      let directory = try shown(number)
      if directory.kind == .directory,
        let found = try catalog.lookup(fileSystem.meaning(of: name, in: number), in: number),
        try isMirrored(found)
      {
        return status(mirroring: found)
      }
      guard let id = VersionID(hex: String(decoding: name, as: UTF8.self)),
        id.description.utf8.elementsEqual(name),
        let version = try versions(of: directory).first(where: { $0.id == id })
      else { return nil }
      let known = KnownVersion(version, of: directory)
      return status(known, numbered: table.add(known))
    case .version:
      throw Errno.notDirectory
    }
  }

  /// A node by its number, for a file handle. A version's counts as a lookup.
  package func lookup(itself node: VersionNode) throws(Errno) -> VersionStatus {
    guard case .version(let number) = node else { return try status(node) }
    guard let known = table[number] else { throw Errno.staleNFSFileHandle }
    return status(known, numbered: table.add(known))
  }

  package func status(_ node: VersionNode) throws(Errno) -> VersionStatus {
    switch node {
    case .hidden:
      let root = try shown(.root)
      return VersionStatus(
        node: node.number, isDirectory: true, mode: root.mode, owner: root.owner,
        group: root.group, size: 4096, modified: root.created, changed: root.created)
    case .mirror(let number):
      return status(mirroring: try shown(number))
    case .version(let number):
      guard let known = table[number] else { throw Errno.staleNFSFileHandle }
      return status(known, numbered: number)
    }
  }

  package func forget(_ node: VersionNode, count: UInt64) {
    if case .version(let number) = node { table.forget(number, count: count) }
  }

  /// The kernel has forgotten everything.
  package func reset() {
    opens.reset()
    table.removeAll()
  }

  /// The inode that a directory stands for. What has lost its name is no part of the tree.
  func shown(_ number: InodeNumber) throws(Errno) -> Inode {
    let inode = try fileSystem.inode(number)
    guard !inode.isOrphan else { throw Errno.staleNFSFileHandle }
    return inode
  }

  private func isMirrored(_ inode: Inode) throws(Errno) -> Bool {
    if inode.kind == .directory { return true }
    return try !versions(of: inode).isEmpty
  }

  /// As the log has them, the current one first.
  func versions(of inode: Inode) throws(Errno) -> [ContentVersion] {
    try catalog.remote(inode.item)?.contents ?? []
  }

  /// The write bits stay, so that who may write there is told that this is read-only, and not that
  /// he has no right.
  private func status(mirroring inode: Inode) -> VersionStatus {
    let isDirectory = inode.kind == .directory
    // Who may read a file may go into it here.
    let mode = isDirectory ? inode.mode : inode.mode & 0o666 | (inode.mode & 0o444) >> 2
    let versions = versionsChanged()
    let modified = isDirectory ? max(inode.changed, versions) : versions
    return VersionStatus(
      node: VersionNode.mirror(inode.number).number, isDirectory: true, mode: mode & 0o1777,
      owner: inode.owner, group: inode.group, size: 4096, modified: modified, changed: modified)
  }

  private func status(_ known: KnownVersion, numbered number: UInt64) -> VersionStatus {
    VersionStatus(
      node: VersionNode.version(number).number, isDirectory: false, mode: known.mode & 0o555,
      owner: known.owner, group: known.group, size: known.version.size,
      modified: known.version.modified, changed: known.version.modified)
  }

  /// The time that directories have here. The kernel caches what it listed until it sees that the
  /// time of the directory has changed, so whenever versions may have come or gone it is another.
  private func versionsChanged() -> Timestamp {
    let sequence = (try? catalog.position())?.sequence
    let now = fileSystem.now()
    return noticed.withLock { noticed in
      if noticed.sequence != sequence {
        noticed.sequence = sequence
        noticed.time = max(now, noticed.time.advanced(by: 1))
      }
      return noticed.time
    }
  }

  // MARK: Opening

  package func open(_ node: VersionNode, for caller: Caller = Caller(user: 0, group: 0))
    throws(Errno) -> OpenVersions.Step
  {
    guard case .version(let number) = node else { throw Errno.isDirectory }
    guard let known = table[number] else { throw Errno.staleNFSFileHandle }
    return try opens.open(known, node, for: caller)
  }

  // MARK: Succession

  /// Goes on with what an earlier daemon left in the record; gives how many opens could not be
  /// restored, such as of a version that was resolved meanwhile. Before requests are served.
  package func restore(_ record: MountRecord) -> Int {
    var lost = 0
    for (slot, open) in record.openings.all() {
      guard let version = open.version,
        case .version(let number)? = VersionNode(open.number.rawValue)
      else { continue }
      guard let inode = try? fileSystem.inode(version.inode),
        let found = try? versions(of: inode).first(where: { $0.id == version.id })
      else {
        record.openings.remove(slot)
        lost += 1
        continue
      }
      let known = KnownVersion(found, of: inode)
      table.restore(known, as: number)
      opens.restore(open, known, in: slot)
    }
    return lost
  }
}
