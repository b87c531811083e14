package import Catalog
package import ContentStore
package import Model
package import Platform
internal import SystemPackage

/// The one place where the file system and the sync engine of a container meet.
///
/// It knows what is open, and so what may be uploaded, evicted or replaced. Safe from any thread.
/// Lock order: `parts`, the open table and the hub of events are leaves. The claim table's lock may
/// be held above the open table's. The catalog's may be held above both (it asks whether an inode
/// is open), never below.
package final class ContainerCoordinator: Sendable {
  package let container: ContainerID
  package let catalog: ContainerCatalog
  package let content: ContentFiles
  /// Which directories are one document by their name.
  package let packages: PackageTypes
  /// Claims and presenters, of this container and of the others of the account.
  package let claims: ClaimTable
  /// Who listens to what happens, in this container and the others of the account.
  package let events: EventHub
  /// Which programs may cause downloads, here and in the other containers.
  package let downloads: DownloadGate
  /// Where the paths of this container's claims begin.
  package let top: Place

  private struct Parts {
    var fetcher: (any ContentFetching)?
    var versionFetcher: (any VersionFetching)?
    var transfers: (any TransferReporting)?
    var storeConfirmer: any StoreConfirming = ClosedStore()
    var invalidator: (any KernelInvalidating)?
    var kernelWaits = KernelWaits()
    var staleNames = StaleNames()
    var writerClosed: (@Sendable () -> Void)?
    var allotted: (@Sendable () -> AllottedSpace?)?
    var contentObserver: (@Sendable (InodeNumber) -> Void)?
    var lockReader: (@Sendable () -> FileLocks?)?
    var downloadObserver: (any DownloadObserving)?
    var space: LocalSpace?
    var uses: UseTimes?
  }

  let moves = MovesUnderWay()
  private let parts = Lock(Parts())
  private let table = OpenTable()
  let detached: DetachedWriters

  package init(
    container: ContainerID, catalog: ContainerCatalog, content: ContentFiles,
    packages: PackageTypes = .standard, claims: ClaimTable = ClaimTable(),
    events: EventHub = EventHub(), downloads: DownloadGate = DownloadGate()
  ) {
    self.events = events
    self.downloads = downloads
    self.packages = packages
    self.claims = claims
    top = claims.place(of: container)
    self.container = container
    self.catalog = catalog
    self.content = content
    let parts = parts
    detached = DetachedWriters(catalog: catalog) { number in
      parts.withLock { $0.invalidator }?.invalidate([.content(number)])
    }
  }

  // MARK: What the composition root injects

  package var fetcher: (any ContentFetching)? { parts.withLock { $0.fetcher } }

  package func setFetcher(_ fetcher: (any ContentFetching)?) {
    parts.withLock { $0.fetcher = fetcher }
  }

  package var versionFetcher: (any VersionFetching)? { parts.withLock { $0.versionFetcher } }

  package func setVersionFetcher(_ fetcher: (any VersionFetching)?) {
    parts.withLock { $0.versionFetcher = fetcher }
  }

  /// What keeps contents within their budget; nil where nothing does.
  var space: LocalSpace? { parts.withLock { $0.space } }
  var uses: UseTimes? { parts.withLock { $0.uses } }

  /// `uses` where there is a budget.
  package func setSpace(_ space: LocalSpace?, uses: UseTimes?) {
    parts.withLock {
      $0.space = space
      $0.uses = uses
    }
  }

  /// Until an engine sets one, nothing may be evicted: nobody could bring it back.
  var storeConfirmer: any StoreConfirming { parts.withLock { $0.storeConfirmer } }

  package func setStoreConfirmer(_ confirmer: any StoreConfirming) {
    parts.withLock { $0.storeConfirmer = confirmer }
  }

  package func setTransferReporter(_ reporter: (any TransferReporting)?) {
    parts.withLock { $0.transfers = reporter }
  }

  package func setInvalidator(_ invalidator: (any KernelInvalidating)?) {
    parts.withLock {
      // The kernel of a mount that is gone hears of nothing any more.
      if $0.invalidator != nil { $0.staleNames = StaleNames() }
      $0.invalidator = invalidator
      $0.kernelWaits = KernelWaits()
    }
  }

  /// Told, on the closing thread, when the last open for writing of an inode is closed.
  package func setWriterClosedObserver(_ observer: (@Sendable () -> Void)?) {
    parts.withLock { $0.writerClosed = observer }
  }

  /// Brings the row of an inode up to date with what the kernel wrote by itself.
  var contentObserver: (@Sendable (InodeNumber) -> Void)? { parts.withLock { $0.contentObserver } }

  package func setContentObserver(_ observer: (@Sendable (InodeNumber) -> Void)?) {
    parts.withLock { $0.contentObserver = observer }
  }

  /// Tells which files of the mount are locked.
  var lockReader: (@Sendable () -> FileLocks?)? { parts.withLock { $0.lockReader } }

  package func setLockReader(_ reader: (@Sendable () -> FileLocks?)?) {
    parts.withLock { $0.lockReader = reader }
  }

  package func setAllotted(_ allotted: (@Sendable () -> AllottedSpace?)?) {
    parts.withLock { $0.allotted = allotted }
  }

  /// Nil where the account has no limit.
  package var allotted: AllottedSpace? { parts.withLock { $0.allotted }?() }

  var downloadObserver: (any DownloadObserving)? { parts.withLock { $0.downloadObserver } }

  package func setDownloadObserver(_ observer: (any DownloadObserving)?) {
    parts.withLock { $0.downloadObserver = observer }
  }

  package func transferState(of number: InodeNumber) -> TransferState {
    parts.withLock { $0.transfers }?.transfer(of: number) ?? TransferState()
  }

  package func invalidate(_ list: [Invalidation]) {
    guard !list.isEmpty else { return }
    parts.withLock { $0.invalidator }?.invalidate(list)
  }

  /// Changes names in the catalog as other devices did, and makes the kernel forget what `change`
  /// gives with its result. Until the kernel has done so, all names count as stale. `change` does
  /// only the change; it may throw.
  package func changeNames<Result, Failure>(
    _ change: () throws(Failure) -> (result: Result, invalidations: [Invalidation])
  ) throws(Failure) -> Result {
    let names = parts.withLock { $0.staleNames }
    names.begin()
    let changed: (result: Result, invalidations: [Invalidation])
    do throws(Failure) { changed = try change() } catch {
      names.end()
      throw error
    }
    forget(changed.invalidations) { names.end() }
    return changed.result
  }

  /// Whether the kernel may know another inode by this name than the catalog. After a change that a
  /// program made by the name, ask before the answer.
  package func isStale(_ name: KernelName) -> Bool {
    parts.withLock { $0.staleNames }.isStale(name)
  }

  /// A program gave something these names, or changed these inodes, by a name that is stale. The
  /// kernel did so with the inode that it knew by that name: it has to ask for them again.
  package func correctKernel(names: [KernelName], inodes: [InodeNumber]) {
    let stale = parts.withLock { $0.staleNames }
    stale.begin(doubting: names)
    forget(
      names.map { .doubt(parent: $0.parent, name: $0.name) } + inodes.map { .attributes($0) }
    ) { stale.end(doubting: names) }
  }

  /// Whether a program that takes this name from a directory gets ESTALE first. The kernel then
  /// asks what has the name, and sends the request once more. Otherwise it could take another
  /// directory for removed, and nothing in that could be opened. Call it under the catalog's lock.
  /// Source: `retry_estale` in Linux; `vfs_rmdir` and `vfs_rename` set `S_DEAD`.
  package func mustAskAgain(_ name: KernelName, by thread: Int32) -> Bool {
    parts.withLock { $0.staleNames }.mustAskAgain(name, by: thread)
  }

  /// The invalidator is asked for last: a mount that came meanwhile has to hear of it.
  private func forget(_ list: [Invalidation], _ heard: @escaping @Sendable () -> Void) {
    guard !list.isEmpty, let invalidator = parts.withLock({ $0.invalidator }) else {
      return heard()
    }
    invalidator.invalidate(list, heard: heard)
  }

  /// Gives the kernel a second to forget it: it may itself wait for what the caller brings.
  package func invalidateAndWait(_ list: [Invalidation]) async {
    let (invalidator, waits) = parts.withLock { ($0.invalidator, $0.kernelWaits) }
    guard let invalidator, !list.isEmpty else { return }
    await waits.wait(limit: .seconds(1)) { invalidator.invalidate(list, heard: $0) }
  }

  func announce(_ changes: [ItemChange]) {
    parts.withLock { $0.invalidator }?.announce(changes)
  }

  /// Waits until programs see what was changed so far. Blocks; never from a request of the kernel.
  package func waitForKernel() {
    _ = parts.withLock { $0.invalidator }?.waitForInvalidations(milliseconds: 2000)
  }

  // MARK: What is open

  /// Notes an open. Call it before reading the inode's generation: a remote change that is applied
  /// in between then either sees the open, or is seen by it.
  ///
  /// `process` is the thread that opens it, 0 where that is not known; `closed` gives the same.
  /// With `noteWriter` after it, when no lock is held, those who claim the item hear of a writer.
  ///
  /// `isAnnounced`: the program is about to open the file. See `AnnouncedOpen`.
  package func opened(
    _ number: InodeNumber, forWriting: Bool, by process: Int32 = 0, isAnnounced: Bool = false
  ) {
    table.opened(number, forWriting: forWriting, by: process, isAnnounced: isAnnounced)
  }

  package func closed(
    _ number: InodeNumber, forWriting: Bool, by process: Int32 = 0, isAnnounced: Bool = false
  ) {
    let left = table.closed(number, forWriting: forWriting, by: process, isAnnounced: isAnnounced)
    guard forWriting else { return }
    noteWriterGone(number)
    // A program that only announced its open has no part in the changes of those before it.
    if !isAnnounced, left.realWriters == 0 { noteSettled(number) }
    if left.writers == 0 { parts.withLock { $0.writerClosed }?() }
  }

  package func isOpen(_ number: InodeNumber) -> Bool { table.count(number).total > 0 }

  package func isOpenForWriting(_ number: InodeNumber) -> Bool {
    table.count(number).writers > 0
  }

  /// Without opens that were only announced.
  func writerCount(_ number: InodeNumber) -> Int { table.count(number).realWriters }

  /// What is open for writing.
  package var writers: [InodeNumber] { table.writers }

  /// Who has it open for writing, as far as that is known.
  func writingProcesses(_ number: InodeNumber) -> [Int32] { table.count(number).processes }

  /// How often it is open for writing, and the threads that opened it so, as far as they are known.
  func openers(_ number: InodeNumber) -> (writers: Int, programs: [Int32]) {
    let count = table.count(number)
    return (count.writers, count.processes)
  }

  /// Removes what an orphan has left once nothing has it open.
  package func reclaim(_ number: InodeNumber) {
    guard !isOpen(number), let key = try? catalog.reclaim(number) else { return }
    discard(key)
  }

  /// Unlinks a content file once it is durable that no row names it. The other order could leave,
  /// after a power cut, a row whose bytes are gone; this one at worst leaves a file for the sweep.
  func discard(_ key: ContentKey) {
    let content = content
    catalog.afterDurableCommit { try? content.remove(key) }
  }
}
