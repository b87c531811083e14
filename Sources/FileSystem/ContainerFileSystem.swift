package import Catalog
internal import ContentStore
package import Coordination
internal import Model
package import Platform
internal import Synchronization
package import SystemPackage

/// POSIX semantics on a container's items, by inode, for one mount.
///
/// Knows nothing of FUSE, and never waits for the network: a call that needs bytes which are not
/// here gives a `ContentWait`. Errors are those that a local file system gives; an inode that is
/// gone is ESTALE. Permissions are checked by the kernel (`default_permissions`). Any thread.
///
/// Lock order: an `OpenContent`'s lock, then the catalog's. The tables of nodes and handles, the
/// list of lingering writers and `passthrough` are leaves.
package final class ContainerFileSystem: Sendable {
  package let coordinator: ContainerCoordinator
  let catalog: ContainerCatalog
  let store: ContentFiles
  let clock: any WallClock
  /// Names are found without regard to case and Unicode form. Source: CONTRACT, mount option
  /// `casefold`.
  package let foldsCase: Bool
  let nodes: NodeTable
  let handles = HandleTable()
  let passthrough = Lock<(any ContentPassthrough)?>(nil)
  let lingering = LingeringWriters()
  /// Counts the closes of files that something wrote to, each once the row says what was written.
  let writingCloses = Atomic<UInt64>(0)

  /// What another daemon would need to go on with the mount; nil where none could.
  package let record: MountRecord?
  let resent = Lock(ResentRequests())

  /// Whether the kernel has a file of this mount open, as far as it has told.
  package var hasOpenFiles: Bool { !handles.isEmpty }

  package init(
    coordinator: ContainerCoordinator, clock: any WallClock, foldsCase: Bool = false,
    record: MountRecord? = nil
  ) {
    self.record = record
    nodes = NodeTable(record: record)
    self.coordinator = coordinator
    catalog = coordinator.catalog
    store = coordinator.content
    self.clock = clock
    self.foldsCase = foldsCase
    coordinator.setContentObserver { [weak self] number in
      try? self?.nodes.state(number)?.content?.look()
    }
    if let record { catalog.setDoneObserver { record.addDone($0, $1) } }
  }

  /// Where the content files are.
  package var contentDirectory: String { store.directory }

  func now() -> Timestamp { Timestamp(nanoseconds: clock.nanoseconds()) }

  /// Whether the kernel may have cached anything of the inode.
  package func isKnownToKernel(_ number: InodeNumber) -> Bool {
    number == .root || nodes.isUsed(number)
  }

  /// An inode that the kernel names. It was there when its name was answered: gone now, the kernel
  /// is to look the path up again, which ESTALE makes it do.
  func inode(_ number: InodeNumber) throws(Errno) -> Inode {
    do {
      return try catalog.inode(number)
    } catch .noSuchFileOrDirectory {
      throw Errno.staleNFSFileHandle
    }
  }

  /// What to ask for before an inode is read whose status is to be told. See `status(of:readAt:)`.
  package var moment: UInt64 { writingCloses.load(ordering: .acquiring) }

  /// `moment` is that before the inode was read. A file that was closed since is read again: as it
  /// was read it may be without what had just been written to it, and nothing would say so any
  /// more.
  func status(of inode: Catalog.Inode, readAt moment: UInt64) -> FileStatus {
    guard inode.kind == .file else { return FileStatus(inode: inode, blocks: 0) }
    return status(of: inode, readAt: moment, nodes.state(inode.number)?.content)
  }

  /// Of a name that the kernel is told of, and will forget some time.
  package func remembered(_ inode: Catalog.Inode, readAt moment: UInt64) -> FileStatus {
    let content = nodes.addLookup(inode.number)
    guard inode.kind == .file else { return FileStatus(inode: inode, blocks: 0) }
    return status(of: inode, readAt: moment, content)
  }

  private func status(
    of inode: Catalog.Inode, readAt moment: UInt64, _ open: OpenContent?
  ) -> FileStatus {
    let isWrittenUnseen = coordinator.lookAtDetachedWriter(inode.number)
    if let open {
      let (current, blocks, isChanging) = open.current(inode)
      return FileStatus(
        inode: current, blocks: blocks, isChanging: isChanging || isWrittenUnseen)
    }
    // After the content was found to be closed: only then is it sure what was closed before.
    let inode =
      self.moment == moment && !isWrittenUnseen
      ? inode : (try? catalog.inode(inode.number)) ?? inode
    return FileStatus(inode: inode, blocks: blocks(of: inode), isChanging: isWrittenUnseen)
  }

  /// Of a file that is not open.
  private func blocks(of inode: Inode) -> UInt64 {
    let key = ContentKey(item: inode.item, generation: inode.generation)
    guard inode.content == .local else {
      return (try? store.existingPartial(key)?.blocks()) ?? 0
    }
    if let blocks = inode.blocks { return blocks }
    guard let blocks = try? store.blocks(key) else { return 0 }
    try? catalog.rememberBlocks(key, of: inode.number, blocks)
    return blocks
  }

  // MARK: What the kernel remembers

  package func forget(_ number: InodeNumber, count: UInt64) {
    if nodes.forget(number, count: count) { coordinator.reclaim(number) }
  }

  /// Its last name is gone: it goes too, now or when nothing uses it any more.
  func becameOrphan(_ number: InodeNumber) {
    if nodes.becameOrphan(number) { coordinator.reclaim(number) }
  }

  /// The kernel has forgotten everything and closed everything, in whatever way.
  package func reset() {
    for handle in handles.removeAll() { close(handle) }
    for handle in lingering.stop() { abandon(handle) }
    catalog.setDoneObserver(nil)
    for number in nodes.removeAll() { coordinator.reclaim(number) }
    try? catalog.commit(durable: true)
  }

  // MARK: The file system as a whole

  /// Of the account's allotment where there is one, else of the local disk. Source: CONTRACT, "The
  /// mount".
  ///
  /// What is available is what the local disk has room for as well: a program asks before it
  /// writes.
  package func statistics() throws(Errno) -> DiskStatistics {
    var disk = try DiskStatistics.of(store.directory)
    guard let allotted = coordinator.allotted, disk.blockSize > 0 else { return disk }
    disk.blocks = allotted.limit / disk.blockSize
    disk.blocksFree = min(allotted.left / disk.blockSize, disk.blocks)
    disk.blocksAvailable = min(disk.blocksFree, disk.blocksAvailable)
    return disk
  }
}
