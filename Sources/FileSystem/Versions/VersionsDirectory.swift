internal import Catalog
package import Coordination
internal import Model
package import Platform
internal import Synchronization
package import SystemPackage

/// The hidden directory `.ubiquity` of a mount's root, whose `versions` mirrors the tree: a file with
/// conflict versions is a directory there, with a read-only file for each of its versions.
///
/// Not listed by the root, as CephFS's `.snap` is not, so that what copies or packs a mount does not see
/// it. Nothing in it is stored: names are looked up in the catalog, versions in the records of the log.
/// So nothing can be changed here either; looking never asks the network, and opening a version brings it.
/// An item that another device's older program called `.ubiquity` stays in the log, and is not seen here.
///
/// Any thread. Its locks are leaves.
package final class VersionsDirectory: Sendable {
  package static let name = Array(".ubiquity".utf8)
  static let versionsName = Array("versions".utf8)

  let fileSystem: ContainerFileSystem
  var catalog: ContainerCatalog { fileSystem.catalog }
  let table = VersionTable()
  private let contents: VersionContents
  private let handles = Lock<[UInt64: Opened]>([:])
  /// Begins anywhere: the kernel may say once more that an open of an earlier daemon is closed.
  private let nextHandle = Atomic<UInt64>(
    VersionNode.first + UInt64.random(in: 0..<1 << 40) << 16)
  private let noticed: Lock<Noticed>

  private struct Opened {
    let version: VersionID
    let file: OpenFile
  }

  /// The state of the log that was seen last, and when a newer one was first seen.
  private struct Noticed {
    var sequence: UInt64?
    var time: Timestamp
  }

  package init(fileSystem: ContainerFileSystem) {
    self.fileSystem = fileSystem
    contents = VersionContents(coordinator: fileSystem.coordinator)
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
    handles.withLock { $0 = [:] }
    contents.removeAll()
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

  /// The write bits stay, so that who may write there is told that this is read-only, and not that he
  /// has no right.
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

  /// The time that directories have here. The kernel caches what it listed until it sees that the time
  /// of the directory has changed, so whenever versions may have come or gone it is another.
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

  // MARK: Reading

  package enum OpenStep: Sendable {
    case opened(handle: UInt64)
    /// It has to come first; `open` with a completion does that.
    case wait(VersionWait)
  }

  /// A version that is to be brought.
  package struct VersionWait: Sendable {
    fileprivate let version: ContentVersion
    fileprivate let inode: InodeNumber
  }

  package func open(_ node: VersionNode) throws(Errno) -> OpenStep {
    guard case .version(let number) = node else { throw Errno.isDirectory }
    guard let known = table[number] else { throw Errno.staleNFSFileHandle }
    guard let file = contents.openReady(known.version.id) else {
      return .wait(VersionWait(version: known.version, inode: known.inode))
    }
    return .opened(handle: add(known.version.id, file))
  }

  /// Brings the whole content. `completion` gets a handle, to be released by who has it, or the errno; it
  /// is called once, on any thread, perhaps before this has returned, and not after a `cancel`.
  package func open(
    _ wait: VersionWait, for caller: Caller = Caller(user: 0, group: 0),
    completion: @escaping @Sendable (Result<UInt64, Errno>) -> Void
  ) -> any FetchTicket {
    let ticket = LaterTicket {}
    @Sendable func begin(_ permission: DownloadPermission) -> any FetchTicket {
      contents.open(wait.version, of: wait.inode, permission) { [self] result in
        if case .failure(let error) = result, error == permission.refusal(of: .version) {
          fileSystem.coordinator.noteDenied(wait.inode, for: permission.cause(.version))
        }
        completion(result.map { add(wait.version.id, $0) })
      }
    }
    let now = fileSystem.coordinator.downloads.permission(ofThread: caller.process) { permission in
      ticket.begin { begin(permission) }
    }
    return now.map(begin) ?? ticket
  }

  private func add(_ version: VersionID, _ file: OpenFile) -> UInt64 {
    let handle = nextHandle.add(1, ordering: .relaxed).oldValue
    handles.withLock { $0[handle] = Opened(version: version, file: file) }
    return handle
  }

  package func file(_ handle: UInt64) throws(Errno) -> OpenFile {
    guard let opened = handles.withLock({ $0[handle] }) else { throw Errno.badFileDescriptor }
    return opened.file
  }

  package func release(_ handle: UInt64) {
    guard let opened = handles.withLock({ $0.removeValue(forKey: handle) }) else { return }
    contents.close(opened.version)
  }
}
