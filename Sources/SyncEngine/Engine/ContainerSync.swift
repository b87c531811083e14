internal import Backend
package import Catalog
package import Coordination
internal import Dispatch
package import Logging
package import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Keeps a container and its log in the backend the same.
///
/// One cycle at a time: read the log to its head, plan, apply to the mount, commit to the log, send
/// content, and again until nothing differs. Everything it knows between two cycles can be found
/// out anew from the three trees, so a cycle may stop anywhere. It meets the file system only in
/// the coordinator. An actor; never awaited by a request of the kernel.
package actor ContainerSync {
  nonisolated let coordinator: ContainerCoordinator
  nonisolated let link: RemoteLink
  package nonisolated let fetcher: ContentFetcher
  nonisolated let device: Model.DeviceID
  nonisolated let settings: SyncSettings
  nonisolated let logger: Logger
  nonisolated let signals: SyncSignals
  nonisolated let health = StoreHealth()
  nonisolated let transfers: TransferBoard
  /// Uploads that go on beside the cycles.
  nonisolated let uploads: UploadQueue
  nonisolated let claims: EngineClaims
  nonisolated let allotment: Allotment

  var policy: ContentPolicy
  /// Edited contents that are announced or up, and not yet in the log.
  var staged: [ItemID: StagedContent] = [:]
  /// Contents of files that programs have open, copied and uploaded: those that are not in the log
  /// yet, and those that are.
  var snapshots: [ItemID: StagedContent] = [:]
  var committedSnapshots: [ItemID: StagedContent] = [:]
  nonisolated let quiet: QuietFiles
  /// The last cycle left nothing but open files of which the log has the content.
  var isLeftWithSnapshots = false
  /// Chunks that are durable in the backend and that no segment has told of yet.
  var unannounced: [ChunkLocation] = []
  /// Those of them that were uploaded for contents which are not in the log yet.
  var awaitingContent: Set<ChunkID> = []
  /// Those that cannot be told of any more, since their packs were condemned.
  var condemnedPlaces: [ChunkID: ChunkLocation] = [:]
  /// Whether what a former run of the daemon sent is among them.
  var hasResumed = false
  /// The cursor of a device that read another log than the one that is shown here.
  var foreignHead: DeviceCursor?
  /// Whether the log stands on a recovery; nil before the catalog was asked.
  var isRecovered: Bool?
  /// Contents that were uploaded again since the last recovery.
  var supplied = 0
  /// Names that items have which do not sync; of one cycle.
  var reserved: Set<Link> = []
  /// Newer contents that are here whole and wait to be switched to.
  var stagings: [ItemID: Staging] = [:]
  /// Newer contents of large local files that are downloaded beside the cycles.
  var arriving: [ItemID: ArrivingContent] = [:]
  /// Those that wait for one of these to end.
  var arrivingLater: [ItemID: VersionID] = [:]
  /// The failure that ended one of them, for the next round.
  var arrivalFailures: [ArrivalFailure] = []
  /// Versions that are damaged in the backend: left alone until they change or someone asks again.
  var damaged: [ItemID: VersionID] = [:]
  /// What the catalog has of it, once it was asked.
  var knownDeletions: DeletionRecord?
  /// Directories that were emptied by removals that are in the log already.
  var emptied: Set<ItemID> = []
  var turns = TurnTaking()
  /// Who wrote last to what is in the log and not applied yet, for events; there while somebody
  /// listens.
  var writers: [ItemID: Model.DeviceID] = [:]
  /// Since when packages wait for their programs to pause, in monotonic nanoseconds.
  var packagesHeld: [ItemID: UInt64] = [:]
  /// Claims that were given for this round.
  var givenClaims: [ClaimAccess] = []
  /// Those of them that are asked for anew, for a later one.
  var askedAgain: Set<ClaimAccess> = []
  /// The round only looked at the store, and the next one of the cycle needs all of them.
  var keepsClaims = false
  /// The catalog's, when the round began.
  var losses: UInt64 = 0
  /// When the first of them will have been quiet for long enough.
  var packageWake: Duration?
  /// Edited files for which the account has no room.
  var beyondQuota: [ItemID: BeyondQuota] = [:]
  /// What else has none; of one cycle.
  var deniedRoom: Set<ItemID> = []
  /// Those of them that are told to the user, with their sizes; of one cycle.
  var deniedFiles: [ItemID: BeyondQuota] = [:]
  /// Another container had the name of this one in the store at the last look for it.
  var hasForeignName = false
  /// How many calls wait for everything to be sent: for them programs need not pause.
  var hurrying = 0
  /// News were heard since the last look: the log has most likely a segment more.
  var hasNews = false
  /// When the last look at the log began; monotonic.
  var lookedAt: UInt64 = 0
  /// Of one round: it began with a look.
  var hasLooked = false
  /// When the last segment of this device went into the log; monotonic.
  var committedAt: UInt64 = 0
  var cycle: Task<CycleResult, Never>?
  /// Of one cycle: how often the packs were compared with those that the log names.
  var inventories = 0
  static let mostInventories = 3
  /// The catalog may have noted lost chunks whose files are not marked: this process noted some,
  /// or the former one ended in between.
  var hasUnmarkedLosses = true
  /// How many tasks are marking them now.
  var markings = 0
  /// Of one round: something was applied or uploaded; the store did not take a segment.
  var hasMoved = false
  var isRefused = false
  private var tasks: [Task<Void, Never>] = []
  private var isStopped = false
  /// Work on the store that a command asked for, apart from the cycles.
  private var commanded: Set<Task<Void, Never>> = []
  /// What kept the last cycle from finishing, for `status`.
  private var lastError: String? { didSet { transfers.stopped(by: lastError) } }

  package init(
    coordinator: ContainerCoordinator, link: RemoteLink, device: Model.DeviceID,
    policy: ContentPolicy = .onDemand, settings: SyncSettings = SyncSettings(),
    allotment: Allotment = Allotment(), logger: Logger
  ) {
    self.allotment = allotment
    self.coordinator = coordinator
    self.link = link
    self.device = device
    self.policy = policy
    self.settings = settings
    self.logger = logger
    let (signals, transfers) = (SyncSignals(), TransferBoard())
    self.signals = signals
    self.transfers = transfers
    let claims = EngineClaims(
      coordinator.claims, name: "the sync of \"\(coordinator.container)\"")
    self.claims = claims
    let quiet = QuietFiles(
      coordinator: coordinator, claims: claims, quiet: settings.snapshotQuiet)
    self.quiet = quiet
    self.uploads = UploadQueue(
      coordinator: coordinator, transfers: transfers, quiet: quiet,
      failed: { inode, text in
        if transfers.upload(inode.number)?.lastError != text {
          logger.error("upload of item \(inode.number) failed: \(text)")
        }
      }, wake: { signals.goOn() })
    self.fetcher = ContentFetcher(
      coordinator: coordinator, remote: link, unsent: settings.unsent,
      answerLimit: settings.answerLimit,
      noteUnsent: { number in
        logger.notice(
          """
          a program waits for the content of item \(number): the device that saved it has not \
          uploaded it yet
          """)
      })
    // From the first moment on: a device that starts may be asked to evict before it has looked at
    // the store.
    coordinator.setStoreConfirmer(self)
  }

  // MARK: Life

  /// Begins to watch both sides. Call it once.
  package func start() {
    let signals = signals
    allotment.opened(
      coordinator.container, using: (try? coordinator.catalog.usage()) ?? 0,
      wake: { signals.look() })
    let allotment = allotment
    coordinator.setAllotted {
      let figures = allotment.figures
      return figures.limit.map { AllottedSpace(limit: $0, left: figures.left ?? 0) }
    }
    coordinator.setFetcher(fetcher)
    coordinator.setVersionFetcher(fetcher)
    coordinator.setTransferReporter(self)
    link.setCatchUp { [weak self] in _ = await self?.runCycle(freshly: true) }
    coordinator.catalog.setChangeObserver { signals.changedHere() }
    coordinator.setWriterClosedObserver { signals.changedHere() }
    if let reason = resumeEnd() {
      lastError = reason
      return
    }
    resumeForeignName()
    tasks = [
      Task { await self.watchSignals() },
      Task { await self.watchNews() },
      Task { await self.poll() },
      Task { await self.compactNowAndThen() },
      Task { await self.compareHeadsNowAndThen() },
      Task { await self.watchOpenFiles() },
    ]
    signals.look()
  }

  /// Ends all work and waits for the running cycle. What is not up stays marked in the catalog.
  package func stop() async {
    isStopped = true
    coordinator.catalog.setChangeObserver(nil)
    coordinator.setWriterClosedObserver(nil)
    for task in tasks { task.cancel() }
    signals.finish()
    cycle?.cancel()
    for work in commanded { work.cancel() }
    await uploads.stop()
    _ = await cycle?.value
    for work in commanded { await work.value }
    let arrivals = arriving.values.map(\.task)
    for task in arrivals { task.cancel() }
    for task in arrivals { await task.value }
    for task in tasks { await task.value }
    claims.end()
    allotment.closed(coordinator.container)
    link.setCatchUp(nil)
    fetcher.stop()
    coordinator.setFetcher(nil)
    coordinator.setVersionFetcher(nil)
    coordinator.setTransferReporter(nil)
    coordinator.setStoreConfirmer(ClosedStore())
    coordinator.setAllotted(nil)
  }

  /// Does work on the store that a command asked for. `stop` cancels it and waits for it: nothing
  /// of it may reach the store later, when another session may have the container. Throws
  /// `.cancelled` then.
  func untilStopped<Value: Sendable>(
    _ work: @escaping @Sendable (isolated ContainerSync) async throws(CycleFailure) -> Value
  ) async throws(CycleFailure) -> Value {
    guard !isStopped else { throw .cancelled }
    let answer = Lock<Result<Value, CycleFailure>>(.failure(.cancelled))
    let task = Task {
      let result: Result<Value, CycleFailure>
      do throws(CycleFailure) { result = .success(try await work(self)) } catch {
        result = .failure(error)
      }
      answer.withLock { $0 = result }
    }
    commanded.insert(task)
    await withTaskCancellationHandler {
      await task.value
    } onCancel: {
      task.cancel()
    }
    commanded.remove(task)
    return try answer.withLock(\.self).get()
  }

  /// Whether what is changed here goes up: the way to the backend is there, and nothing stopped the
  /// last cycle.
  package nonisolated var canSend: Bool {
    link.isReachable && !link.isMetered && transfers.stoppedBy == nil && condition.isNormal
  }

  /// Looks at both sides now, without waiting for it.
  package nonisolated func trigger() { signals.look() }

  /// Sends what waits, as `sync` does, with nobody waiting for it.
  package func sendNow() async {
    hurrying += 1
    defer { hurrying -= 1 }
    while case .uploading = await runCycle(freshly: true) {
      await uploads.waitForEnd(atMost: Self.uploadLook)
    }
  }

  /// A call that waits for uploads looks at both sides this often meanwhile.
  private static let uploadLook = Duration.seconds(10)

  /// Bytes cost money from now on, or do not any more.
  package nonisolated func meteredChanged() {
    fetcher.meteredChanged()
    Task { await self.lookAnew() }
  }

  /// A cycle that sends what nobody asked for ends; what of it is up stays up.
  private func lookAnew() {
    if link.isMetered, hurrying == 0 {
      cycle?.cancel()
      uploads.cancelAll()
    }
    signals.look()
  }

  package func setPolicy(_ policy: ContentPolicy) {
    self.policy = policy
    if policy == .greedy { fetchEverything() }
  }

  // MARK: Waiting for it

  /// Returns when everything that was written here before the call is in the backend, and
  /// everything that the backend held at the call is applied here. `needsRoom`: fails if the
  /// account has no room for some of it. The files `awaiting`, and those below, are uploaded first
  /// as long as the call lasts.
  package func sync(
    timeout: Duration? = nil, needsRoom: Bool = true, awaiting numbers: [InodeNumber] = []
  ) async throws(SyncFailure) {
    let deadline = timeout.map { ContinuousClock.now + $0 }
    damaged = [:]
    turns.forgive()
    hurrying += 1
    defer { hurrying -= 1 }
    let awaited = await beginAwaiting(numbers)
    let uploads = uploads
    defer { uploads.endAwaiting(awaited) }
    let result = await withTaskCancellationHandler {
      await waitUntilSettled(until: deadline, needsRoom: needsRoom)
    } onCancel: {
      // A cycle may go on for long after its caller went away.
      uploads.endAwaiting(awaited)
    }
    try result.get()
  }

  private func waitUntilSettled(
    until deadline: ContinuousClock.Instant?, needsRoom: Bool
  ) async -> Result<Void, SyncFailure> {
    do throws(SyncFailure) {
      return .success(try await settle(until: deadline, needsRoom: needsRoom))
    } catch {
      return .failure(error)
    }
  }

  private func settle(
    until deadline: ContinuousClock.Instant?, needsRoom: Bool
  ) async throws(SyncFailure) {
    var pause: Duration = .milliseconds(20)
    while true {
      guard !isStopped else { throw .stopped }
      try link.check()
      let result = await runCycle(freshly: true)
      switch result {
      case .settled:
        if policy == .greedy, !link.isMetered, fetcher.activeCount > 0 { break }
        await kernelKnows()
        return
      case .full(let text):
        guard !needsRoom else { throw .failed(text) }
        await kernelKnows()
        return
      case .waiting:
        // What waits for a close comes by waiting; what cannot be read does not.
        if let error = transfers.errors().first { throw .failed(error) }
        if isLeftWithSnapshots {
          await kernelKnows()
          return
        }
      case .uploading:
        if let error = transfers.errors().first { throw .failed(error) }
        let left = deadline.map { $0 - ContinuousClock.now } ?? Self.uploadLook
        if left > .zero { await uploads.waitForEnd(atMost: min(left, Self.uploadLook)) }
        // Downloads wake nobody here.
        pause = arriving.isEmpty ? .zero : .milliseconds(100)
      case .failed(let failure): throw failure
      }
      if let deadline, ContinuousClock.now >= deadline {
        throw .timedOut(Self.lateText(openFiles()))
      }
      if pause > .zero {
        let left = deadline.map { $0 - ContinuousClock.now } ?? pause
        try? await Task.sleep(for: max(.zero, min(pause, left)))
      }
      pause = min(max(pause * 2, .milliseconds(20)), .seconds(1))
      if Task.isCancelled { throw .stopped }
    }
  }

  /// So that a program that starts after `sync` returned sees what was applied.
  func kernelKnows() async {
    let coordinator = coordinator
    await withCheckedContinuation { done in
      DispatchQueue.global().async {
        coordinator.waitForKernel()
        done.resume()
      }
    }
  }

  package func status() -> SyncStatus {
    let catalog = coordinator.catalog
    // It is known before a cycle fails of it.
    let problem = storeProblem
    return SyncStatus(
      pendingUploads: (try? catalog.dirtyCount()) ?? 0,
      pendingDownloads: fetcher.activeCount,
      conflicts: (try? catalog.conflictCount()) ?? 0,
      errors: [problem, lastError == problem ? nil : lastError].compactMap(\.self)
        + transfers.errors()
        + [transfers.quotaLine].compactMap(\.self) + pausedTurns(),
      transfers: (transfers.running() + fetcher.running()).sorted { $0.number < $1.number },
      openFiles: openFiles())
  }

  private func pausedTurns() -> [String] {
    turns.paused(at: monotonicNanoseconds()).map { link, count, pause in
      "two devices change \"\(link.name)\" in response to each other, \(count) times in a row; the "
        + "upload starts in \(pause.components.seconds + 1) s, or at once with `ubiquityfs sync`"
    }
  }

  // MARK: Cycles

  enum CycleResult: Sendable {
    /// Local, base and remote are equal.
    case settled
    /// Something waits for a program to close a file.
    case waiting
    /// All that is left is being uploaded, or waits for that: each upload's end wakes the engine.
    case uploading
    /// All that is left has no room in the account: it waits until something changes. The text says
    /// so.
    case full(String)
    case failed(SyncFailure)
  }

  /// Runs a cycle, or joins the one that runs. `freshly`: one that began after this call.
  /// `readsLog`: it reads the log after this call, even if the last look was a moment ago.
  func runCycle(freshly: Bool, readsLog: Bool = true) async -> CycleResult {
    if readsLog { signals.wantLook() }
    if let running = cycle {
      let result = await running.value
      if !freshly { return result }
      if let next = cycle, next != running { return await next.value }
    }
    guard !isStopped else { return .failed(.stopped) }
    // It is nobody's who joins it, nor as urgent as who began it.
    let task = Transfers.$isAwaited.withValue(false) { Task { await self.performCycle() } }
    cycle = task
    let result = await task.value
    if cycle == task { cycle = nil }
    return result
  }

  private func performCycle() async -> CycleResult {
    do throws(SyncFailure) {
      try link.check()
      // Looking again and again would load the store and end nothing; a user who asks is answered.
      if hurrying == 0, health.rest != nil, let storeProblem { throw .failed(storeProblem) }
      fetcher.startBacklog()
      let result = try await synchronize()
      switch result {
      case .settled, .full, .uploading: if !link.isMetered { fetchMissed() }
      case .waiting, .failed: break
      }
      lastError = nil
      return result
    } catch {
      // Segments that were read may not be in the catalog.
      signals.wantLook()
      // Others wait for what it may not need for long.
      claims.release(claims.held)
      if error.isOfTheNetwork { health.forget() }
      if error != .offline, error != .stopped {
        let text = error.description
        // What is wrong with the store was logged when it was found.
        let isKnown = text == lastError || text == storeProblem
        if !isKnown, !error.isOfTheNetwork { logger.error("sync failed: \(text)") }
        lastError = text
      }
      return .failed(error)
    }
  }

  // MARK: Watching

  private func watchSignals() async {
    var retry: Duration = .seconds(1)
    var notBefore: ContinuousClock.Instant?
    for await signal in signals.stream {
      if signal == .changedHere { await waitForQuiet() }
      // A cycle that fails may itself cause news, and changes here do not mend it.
      if let notBefore { try? await Task.sleep(until: notBefore, clock: .continuous) }
      notBefore = nil
      guard !Task.isCancelled else { return }
      switch await runCycle(freshly: true, readsLog: false) {
      case .settled, .full:
        retry = .seconds(1)
      case .waiting:
        // Its close tells us; this is for what closes without telling, such as a mapping.
        signals.lookLater(
          after: min(packageWake ?? restPause, restPause))
      case .uploading:
        signals.lookLater(after: min(packageWake ?? restPause, restPause))
      case .failed(.offline), .failed(.unreachable), .failed(.stopped):
        // News tell when it is over.
        break
      case .failed(.deleted): return
      case .failed(.held):
        // The user's word, a change here and one elsewhere each wake it; trying again does nothing.
        retry = .seconds(1)
      case .failed where health.rest != nil:
        signals.lookLater(after: (health.rest ?? .zero) + .milliseconds(Int.random(in: 0...500)))
      case .failed:
        // Devices that lost the backend together do not come back to it together.
        signals.lookLater(after: retry * Double.random(in: 0.5...1.5))
        notBefore = .now + min(retry, Self.longestDeafness) * Double.random(in: 0.5...1)
        retry = min(retry * 2, .seconds(60))
      }
    }
  }

  /// So long after a failed cycle neither news nor changes here begin another one.
  private static let longestDeafness = Duration.seconds(5)

  /// Waits until programs pause, for as long as they have been at it: a single save goes up at
  /// once, and a copy in one piece and not in fifty.
  private func waitForQuiet() async {
    let start = ContinuousClock.now
    while !Task.isCancelled {
      let quiet = signals.quietSince()
      let busy = ContinuousClock.now - start
      let wanted = min(settings.debounce, max(settings.firstDebounce, busy - quiet))
      if quiet >= wanted || busy >= settings.longestWait { return }
      try? await Task.sleep(for: wanted - quiet)
    }
  }

  /// Nothing of the store is of interest any more.
  func stopWatching() { for task in tasks { task.cancel() } }

  private func watchNews() async {
    var wait: Duration = .seconds(1)
    while !Task.isCancelled {
      do throws(RemoteError) {
        let remote = try await link.container()
        wait = .seconds(1)
        for await _ in remote.news() {
          hearNews()
        }
      } catch {
        logger.debug("cannot watch the backend for changes: \(error)")
      }
      try? await Task.sleep(for: wait)
      wait = min(wait * 2, .seconds(30))
    }
  }

  func hearNews() {
    health.hearNews()
    // In a store that is asked for news, a segment of this device is news too.
    hasNews = monotonicNanoseconds() &- committedAt > Self.ownNews
    signals.look()
  }

  /// News within this time after a segment of this device are most likely of that segment.
  private static let ownNews: UInt64 = 1_000_000_000

  private func poll() async {
    while !Task.isCancelled {
      try? await Task.sleep(for: pollPause)
      // Where the news are found by looking this would be as many requests again.
      if let remote = try? await link.container(), remote.looksForNews { continue }
      signals.look()
    }
  }

  /// Between two looks at what waits for a close.
  private var restPause: Duration { link.isMetered ? pollPause : .seconds(2) }

  private var pollPause: Duration {
    link.isMetered ? settings.poll * settings.meteredPolls : settings.poll
  }
}
