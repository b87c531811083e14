package import Catalog
package import ContentStore
package import ControlProtocol
package import Coordination
internal import FileSystem
internal import Glibc
package import Logging
package import Model
package import MountDriver
package import Platform
package import RemoteStore
package import SyncEngine
package import SystemPackage

/// A container that is open on this device: its catalog, its content, what keeps it in step with
/// the backend, and its mount if there is one. Syncs from the moment that it is open.
package final class ContainerSession: Sendable {
  private enum MountState {
    case unmounted
    case mounting(ContainerMount)
    case mounted(ContainerMount)
  }

  package let id: ContainerID
  package let incarnation: IncarnationID
  package let catalog: ContainerCatalog
  package let content: ContentFiles
  package let coordinator: ContainerCoordinator
  package let sync: ContainerSync
  /// Where the kernel is told of changes is set with it, under this lock: the coordinator's is a
  /// leaf.
  private let mountState = Lock(MountState.unmounted)
  private let guards: (any ConnectionGuarding)?
  private let mountList: MountList?
  private let logger: Logger
  /// Before the rows were brought up to date with the content files.
  private let opening: Timestamp
  private let written: Lock<[WrittenFile]>
  /// The mount was made by an earlier daemon, and nobody asked this one for it.
  private let isRestored = Lock(false)

  /// Opens what the directory holds. Nothing of it is changed if the catalog is damaged.
  package init(
    _ directory: ContainerDirectory, account: RemoteAccount, device: Model.DeviceID,
    weather: LinkWeather, policy: ContentPolicy, settings: SyncSettings,
    packages: PackageTypes, claims: ClaimTable, events: EventHub, allotment: Allotment,
    downloads: DownloadGate, downloadLog: DownloadLog, guards: (any ConnectionGuarding)?,
    mountList: MountList? = nil, keepsOrphans: Bool = false, logger: Logger
  ) throws(ControlError) {
    opening = Timestamp(nanoseconds: SystemClock().nanoseconds())
    let incarnation = try directory.incarnation()
    let written: [WrittenFile]
    do {
      let catalog = try ContainerCatalog(
        path: directory.catalog, owner: geteuid(), group: getegid(), clock: SystemClock(),
        keepsOrphans: keepsOrphans)
      try Files.makeDirectories(directory.content)
      let content = try ContentFiles(directory: directory.content)
      written = try Self.recover(catalog, content, logger)
      self.catalog = catalog
      self.content = content
    } catch {
      throw ControlError(.failed, "\(directory.id): \(ControlError(mapping: error).message)")
    }
    id = directory.id
    self.incarnation = incarnation
    self.guards = guards
    self.mountList = mountList
    self.logger = logger
    self.written = Lock(written)
    coordinator = ContainerCoordinator(
      container: id, catalog: catalog, content: content, packages: packages, claims: claims,
      events: events, downloads: downloads)
    let remote = account.container(id, incarnation: incarnation)
    let link = RemoteLink(weather) { () async throws(RemoteError) in remote }
    sync = ContainerSync(
      coordinator: coordinator, link: link, device: device, policy: policy, settings: settings,
      allotment: allotment, logger: logger)
    coordinator.setDownloadObserver(
      DownloadRecorder(log: downloadLog, coordinator: coordinator) { [weak self] in
        self?.mountpoint
      })
    if !keepsOrphans { followWritten() }
  }

  /// Files that programs write to by an open of a mount that has ended.
  private func followWritten() {
    let files = written.withLock { written in
      defer { written = [] }
      return written
    }
    for file in files where !coordinator.isOpenForWriting(file.number) {
      let path = coordinator.pathText(of: file.number)
      logger.warning(
        """
        "\(path)" is still written to by a program that opened it in an earlier mount; \
        it is uploaded when that program has closed it
        """)
      coordinator.followDetachedWriter(file.number, file.file, seen: file.seen)
    }
  }

  struct WrittenFile {
    let number: InodeNumber
    let file: OpenFile
    /// The file before its row was corrected.
    let seen: FileStamp
  }

  /// Corrects the rows that a daemon which was killed, or which ended under a writer, left behind,
  /// and sweeps content that no row names. Gives the files that something still writes to.
  @discardableResult
  static func recover(
    _ catalog: ContainerCatalog, _ content: ContentFiles, _ logger: Logger
  ) throws -> [WrittenFile] {
    var written: [WrittenFile] = []
    if catalog.endedUncleanly {
      var found: [(key: ContentKey, file: OpenFile, seen: FileStamp)] = []
      let repaired = try catalog.recover { key throws(Errno) in
        // In this order: without a writer the length is the last one.
        if let file = try content.fileWithWriter(key) {
          found.append((key, file, FileStamp(try file.status())))
        }
        return try content.found(key).map {
          FoundContent(size: $0.size, modified: $0.modified, blocks: $0.blocks)
        }
      }
      for (key, file, seen) in found {
        guard let number = try catalog.inodeNumber(of: key.item),
          try catalog.inode(number).generation == key.generation
        else { continue }
        written.append(WrittenFile(number: number, file: file, seen: seen))
      }
      logger.notice(
        "files may have changed since the daemon last ended; \(repaired.count) rows were corrected")
    }
    // What contents take is exact from here on: what no crash can have changed is as its row says.
    let wrong = try catalog.recount(all: catalog.endedUncleanly) { key throws(Errno) in
      try content.found(key)?.blocks
    }
    if wrong > 0 { logger.debug("recounted the space of \(wrong) files") }
    for key in try catalog.unneededContent(among: try content.keys()) { try content.remove(key) }
    return written
  }

  package func start() async { await sync.start() }

  /// Downloads keep to the budget from here on. To be called before `start`.
  package func use(_ space: LocalSpace, in directory: ContainerDirectory) {
    var uses: UseTimes?
    if space.hasBudget {
      do throws(Errno) { uses = try UseTimes(path: directory.uses) } catch {
        logger.warning(
          "cannot use \"\(directory.uses)\", so evictions follow the files' own times: \(error)")
      }
    }
    coordinator.setSpace(space, uses: uses)
  }

  /// Lets the budget evict from this container. To be called after `start`, which restores the
  /// condition of the store: nothing is evicted from a container that another device deleted.
  package func join(_ space: LocalSpace, isOffline: @escaping @Sendable () -> Bool) {
    let sync = sync
    space.add(
      LocalSpace.Member(
        coordinator, canSend: { !isOffline() && sync.canSend }, sendNow: { sync.trigger() }))
  }

  /// Stops and closes the catalog. The session, which has no mount any more, is of no use after it.
  package func close() async {
    await sync.stop()
    let written = coordinator.stopFollowingDetachedWriters()
    for number in written {
      logger.warning(
        """
        "\(coordinator.pathText(of: number))" is still open for writing; \
        data written before the next start is uploaded then
        """)
    }
    do { try catalog.close(isClean: written.isEmpty) } catch {
      logger.error("cannot close the catalog: \(error)")
    }
  }

  // MARK: What status tells

  /// Nothing of the container's log has been read yet.
  package var isUnread: Bool { (try? catalog.position()) == LogPosition.start }

  package var pendingUploads: Int { (try? catalog.dirtyCount()) ?? 0 }

  /// With the container's own directory, as `find` counts, and with what conflict versions take.
  package var counts: CatalogCounts? {
    guard var counts = try? catalog.counts(), let versions = try? catalog.conflictBytes() else {
      return nil
    }
    counts.items += 1
    counts.totalBytes &+= versions
    return counts
  }

  // MARK: The mount

  package var mountpoint: String? { mounted?.path }

  package var mountOptions: MountOptions? { mounted?.options }

  /// How local files of the mount are read and written; nil when there is none.
  package var ioMode: IOMode? { mounted?.mode }

  private var mounted: ContainerMount? {
    mountState.withLock { state in
      if case .mounted(let mount) = state { return mount }
      return nil
    }
  }

  /// Mounts; usable when it returns. The mount's end, by whomever, is noticed.
  package func mount(at mountpoint: String, _ options: MountOptions) throws(ControlError) {
    // Without the memory for it the mount ends with this daemon.
    let record = guards == nil ? nil : try? MountRecord()
    let mount = makeMount(at: mountpoint, options, record)
    try begin(mount) { () throws(MountError) in try mount.start() }
  }

  /// `mount`, of a mount that an earlier daemon had.
  package func restore(at mountpoint: String, _ options: MountOptions) throws(ControlError) {
    try mount(at: mountpoint, options)
    isRestored.withLock { $0 = true }
  }

  /// Whether the mount there is as it was before an earlier daemon died, with these options. True
  /// once: for who asks for the mount again.
  package func takesRestored(at mountpoint: String, _ options: MountOptions) -> Bool {
    guard let mount = mounted, mount.path == mountpoint, mount.options == options else {
      return false
    }
    return isRestored.withLock { isRestored in
      defer { isRestored = false }
      return isRestored
    }
  }

  /// Goes on with a mount of an earlier daemon. Where that does not work, programs that use it get
  /// errors, and the container is mounted anew. Gives whether `inherited` is in use.
  package func adopt(_ inherited: InheritedMounts.Mount) -> Bool {
    let description = inherited.description
    do throws(ControlError) {
      let mount = makeMount(at: description.mountpoint, description.options, inherited.record)
      try begin(mount) { [opening] () throws(MountError) in
        try mount.adopt(inherited.device, description, start: opening)
      }
      inherited.wasAdopted()
      isRestored.withLock { $0 = true }
      followWritten()
      return true
    } catch {
      logger.error("the mount at \"\(description.mountpoint)\" cannot continue: \(error.message)")
    }
    inherited.abandon()
    for orphan in (try? catalog.orphans()) ?? [] { coordinator.reclaim(orphan.number) }
    followWritten()
    return false
  }

  private func makeMount(
    at mountpoint: String, _ options: MountOptions, _ record: MountRecord?
  ) -> ContainerMount {
    let logger = logger
    return ContainerMount(
      fileSystem: ContainerFileSystem(
        coordinator: coordinator, clock: SystemClock(), foldsCase: options.foldsCase,
        record: record),
      mountpoint: mountpoint, options: options, guards: guards,
      logger: { logger.warning("\($0)") })
  }

  private func begin(
    _ mount: ContainerMount, _ start: () throws(MountError) -> Void
  ) throws(ControlError) {
    // Before the kernel can ask for anything: what it once was told, it must hear the changes of.
    try mountState.withLock { state throws(ControlError) in
      switch state {
      case .mounting(let there):
        throw ControlError(.busy, "\"\(id)\" is being mounted at \"\(there.path)\"")
      case .mounted(let there) where there.isMounted:
        throw ControlError(.busy, "\"\(id)\" is already mounted at \"\(there.path)\"")
      case .mounted, .unmounted:
        state = .mounting(mount)
        coordinator.setInvalidator(mount)
      }
    }
    do throws(MountError) {
      try start()
    } catch {
      _ = forget(mount)
      throw ControlError(mapping: error)
    }
    mountState.withLock { $0 = .mounted(mount) }
    coordinator.setLockReader { [weak mount] in mount?.fileLocks() }
    isRestored.withLock { $0 = false }
    mountList?.add(MountList.Entry(id, mount.path, mount.options))
    coordinator.tellContainer()
    logger.info("mounted at \"\(mount.path)\"")
    _ = startThread {
      mount.waitUntilUnmounted()
      self.ended(mount)
    }
  }

  /// Gives false, and does nothing, when the mount is not this session's any more.
  private func forget(_ mount: ContainerMount) -> Bool {
    mountState.withLock { state -> Bool in
      switch state {
      case .mounting(let current), .mounted(let current):
        guard current === mount else { return false }
      case .unmounted:
        return false
      }
      state = .unmounted
      coordinator.setInvalidator(nil)
      return true
    }
  }

  /// Notices that the kernel has unmounted it: the mount ends a moment later, or is ended after
  /// half of the time. Gives up if programs have files of it open all that time, as after
  /// `umount -l`.
  package func noticeUnmounting(milliseconds: Int = 10_000) {
    guard let mount = mounted, !mount.isInUse else { return }
    let half = milliseconds / 2
    if mount.endAfterUnmounting(patience: half) || mount.endAfterUnmounting(patience: half) {
      ended(mount)
    }
  }

  private func ended(_ mount: ContainerMount) {
    guard forget(mount) else { return }
    if let connection = mount.connection { guards?.ended(connection) }
    mountList?.remove(id)
    coordinator.tellContainer()
    do { try catalog.commit(durable: true) } catch {
      logger.error("cannot make the last changes durable: \(error)")
    }
    logger.info("unmounted from \"\(mount.path)\"")
  }

  /// Serves the mount no more, for another daemon to go on with it. What was done is durable then.
  func quiesce() {
    mounted?.quiesce()
    do { try catalog.commit(durable: true) } catch {
      // The journal has it, and only a power cut could take it.
      logger.error("cannot make the last changes durable: \(error)")
    }
  }

  /// Flushes and unmounts. Throws `busy` while programs use the mount, which then stays.
  package func unmount() throws(ControlError) {
    guard let mount = mounted else { return }
    do throws(MountError) { try mount.unmount() } catch { throw ControlError(mapping: error) }
    ended(mount)
  }

  /// For the daemon's end: what the kernel holds back is written, then the mount goes whatever uses
  /// it. Waits until `deadline` (of `monotonicNanoseconds`) for programs that have files open for
  /// writing, since nobody sees what they write through the kernel afterwards.
  package func unmountAnyway(waitingUntil deadline: UInt64) {
    guard let mount = mounted else { return }
    do throws(MountError) {
      do throws(MountError) {
        try mount.unmount(patience: 10_000, isForced: true)
      } catch .busy {
        waitForWriters(until: deadline)
        try mount.unmount(patience: 10_000, isForced: true)
      }
    } catch {
      logger.warning("\(error); unmounting anyway")
      mount.detach()
    }
    ended(mount)
  }

  private func waitForWriters(until deadline: UInt64) {
    let detached = Set(coordinator.detachedWriters)
    var isAnyOpen: Bool { !coordinator.writers.allSatisfy(detached.contains) }
    guard isAnyOpen else { return }
    let now = monotonicNanoseconds()
    let seconds = deadline > now ? (deadline - now + 999_999_999) / 1_000_000_000 : 0
    for line in coordinator.writersText() {
      logger.warning("\(line); waiting up to \(seconds) s for it to be closed")
    }
    while isAnyOpen, monotonicNanoseconds() < deadline { usleep(20_000) }
  }
}

extension ContainerSession {
  /// What `fsck` finds; with `repair` what can be put right without losing anything is.
  ///
  /// While the container is in use, what it names and the files that there are can be read apart by
  /// a moment; what is found is looked for again, and only what is there every time is told.
  package func check(repair: Bool) throws(Errno) -> [FoundProblem] {
    var problems = try problemsNow()
    for _ in 0..<3 where !problems.isEmpty && mountpoint != nil {
      try catalog.commit(durable: true)
      usleep(100_000)
      let again = Set(try problemsNow())
      problems.removeAll { !again.contains($0) }
    }
    var repaired: Set<Problem> = []
    if repair, !problems.isEmpty {
      // Open files have content that no row names yet or any more.
      guard mountpoint == nil else {
        return problems.map { found($0, "; unmount the container to repair it") }
      }
      // One repair may uncover another problem.
      for _ in 0..<16 {
        let content = content
        let result = try catalog.repair(contentKeys: try content.keys()) {
          (try? content.found($0))??.size
        }
        for key in result.obsolete { try content.remove(key) }
        repaired.formUnion(result.repaired)
        if result.repaired.isEmpty { break }
      }
      problems = Array(Set(problems).union(repaired).union(try problemsNow()))
    }
    return problems.sorted { $0.description < $1.description }.map { problem in
      FoundProblem(
        container: id.description, description: problem.description,
        isRepaired: repaired.contains(problem))
    }
  }

  private func problemsNow() throws(Errno) -> [Problem] {
    let content = content
    return try catalog.check(contentKeys: try content.keys()) {
      (try? content.found($0))??.size
    }
  }

  private func found(_ problem: Problem, _ suffix: String) -> FoundProblem {
    FoundProblem(
      container: id.description, description: problem.description + suffix, isRepaired: false)
  }
}
