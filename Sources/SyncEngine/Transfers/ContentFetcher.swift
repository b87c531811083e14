internal import Backend
package import Catalog
internal import ContentStore
package import Coordination
internal import Model
internal import Platform
internal import RemoteStore
internal import SystemPackage

/// Brings the content of placeholders, a read's own range at a time.
///
/// Any thread. The lock is a leaf: the catalog, the backend and completions are called without it.
package final class ContentFetcher: ContentFetching, Sendable {
  struct State {
    var jobs: [InodeNumber: DownloadJob] = [:]
    var errors: [InodeNumber: String] = [:]
    var nextWaiter: UInt64 = 1
    var nextJob: UInt64 = 1
    /// Whole contents that are wanted some time: what somebody asked for in the order of asking,
    /// then the rest by rank.
    var backlog = Backlog()
    /// While it is not 0 nothing of the backlog begins.
    var backlogHolds = 0
    /// One of the backlog is being looked at: no other one begins meanwhile.
    var isAdmitting = false
    /// The room of eager downloads that are under way.
    var eagerRoom: [InodeNumber: SpaceReservation] = [:]
    /// Contents that their devices have announced and not uploaded, while programs wait for them.
    var unsent: [InodeNumber: UnsentWait] = [:]
    /// What is in `backlog`, and why.
    private(set) var queued: [InodeNumber: DownloadCause] = [:]
    /// How many of those somebody asked for.
    private(set) var asked = 0
    /// What a request brings at most, as the last ones went.
    var batchLimit = DownloadJob.firstBatchLimit
    /// What is fetched of the backlog though nobody asked for it by name.
    var unasked: Set<InodeNumber> = []
    var background = BackgroundPlaces()
    /// Something of the backlog did not come, or could not come yet.
    var missedBackground = false
    var isStopped = false

    /// Puts it into the backlog's list of reasons, or takes it out.
    @discardableResult
    mutating func setQueued(_ number: InodeNumber, _ cause: DownloadCause?) -> DownloadCause? {
      let old = queued[number]
      if old?.isAsked ?? false { asked -= 1 }
      if cause?.isAsked ?? false { asked += 1 }
      queued[number] = cause
      return old
    }

    /// The job that it is, unless another one has taken its place.
    func job(_ number: InodeNumber, _ id: UInt64) -> DownloadJob? {
      jobs[number].flatMap { $0.id == id ? $0 : nil }
    }

    mutating func newJob() -> DownloadJob {
      defer { nextJob += 1 }
      return DownloadJob(id: nextJob, batchLimit: batchLimit)
    }

    /// Lets the requests begin anew, with the content that the inode has now; gives the new job.
    mutating func renew(_ number: InodeNumber) -> UInt64? {
      guard let old = jobs[number] else { return nil }
      let new = old.successor(id: nextJob)
      nextJob += 1
      jobs[number] = new
      return new.id
    }

    mutating func forgetBacklog() {
      (backlog, queued, unasked, asked) = (Backlog(), [:], [], 0)
    }
  }

  let coordinator: ContainerCoordinator
  let remote: any RemoteContent
  let state = Lock(State())
  /// How long content that its device has not uploaded yet is waited for, and what its reader gets
  /// then.
  let pendingLimit: UInt64
  let unsentError: Errno
  private let unsentMemory: UInt64
  private let noteUnsent: @Sendable (InodeNumber) -> Void
  /// How long one answer of the backend is waited for.
  private let answerLimit: Duration
  /// Contents are made durable here: not on threads of tasks, of which there are as many as
  /// processors.
  private let settling = BlockingQueue(threads: 32)

  package init(
    coordinator: ContainerCoordinator, remote: any RemoteContent,
    unsent: UnsentContent = UnsentContent(), answerLimit: Duration,
    noteUnsent: @escaping @Sendable (InodeNumber) -> Void = { _ in }
  ) {
    self.coordinator = coordinator
    self.remote = remote
    let wait = unsent.wait.components
    pendingLimit =
      UInt64(max(0, wait.seconds)) * 1_000_000_000
      + UInt64(max(0, wait.attoseconds) / 1_000_000_000)
    unsentError = unsent.error
    unsentMemory = UInt64(max(0, unsent.memory.components.seconds)) * 1_000_000_000
    self.noteUnsent = noteUnsent
    self.answerLimit = answerLimit
  }

  package func fetch(
    _ number: InodeNumber, range: Range<UInt64>, cause: DownloadCause,
    completion: @escaping @Sendable (Result<Void, FetchFailure>) -> Void
  ) -> any FetchTicket {
    fetch(number, range: range, cause: cause, isBackground: false, completion: completion)
  }

  func fetch(
    _ number: InodeNumber, range: Range<UInt64>, cause: DownloadCause, isBackground: Bool,
    completion: @escaping @Sendable (Result<Void, FetchFailure>) -> Void
  ) -> any FetchTicket {
    enum Step {
      case open(UInt64)
      case pump, refuse
    }
    // An inode that nobody had open may have got another content since its job began.
    let generation = (try? coordinator.catalog.inode(number))?.generation
    let (waiter, step): (UInt64, Step) = state.withLock { state in
      let waiter = state.nextWaiter
      state.nextWaiter += 1
      guard !state.isStopped else { return (waiter, .refuse) }
      let request = DownloadJob.Request(
        waiter: waiter, range: range, cause: cause, isBackground: isBackground,
        completion: completion)
      var job = state.jobs[number]
      var isNew = false
      if job == nil {
        (job, isNew) = (state.newJob(), true)
      } else if let source = job?.source, let generation, source.key.generation != generation {
        _ = state.renew(number)
        (job, isNew) = (state.jobs[number], true)
      }
      job?.add(request)
      state.jobs[number] = job
      return (waiter, isNew ? .open(job?.id ?? 0) : .pump)
    }
    if case .open = step { coordinator.tellStatus(number) }
    Task {
      switch step {
      case .open(let id): await self.open(number, id)
      case .pump: self.pump(number)
      case .refuse: completion(.failure(.offline))
      }
    }
    return Ticket(fetcher: self, number: number, waiter: waiter)
  }

  package func cancelBackgroundFetches(of number: InodeNumber) {
    let waiters = state.withLock { state -> [DownloadJob.Waiter] in
      if state.setQueued(number, nil) != nil {
        state.backlog.remove(number)
      }
      return state.jobs[number]?.dropBackground() ?? []
    }
    for waiter in waiters { waiter.completion(.failure(.cancelled)) }
    pump(number)
    coordinator.tellStatus(number)
  }

  /// These contents are no inode's any more: who waits for one of them gets the one that came in
  /// its place.
  func contentsAreGone(_ keys: [ContentKey]) {
    let gone = Set(keys)
    let renewed = state.withLock { state -> [(InodeNumber, UInt64)] in
      let old = state.jobs.filter { $0.value.source.map { gone.contains($0.key) } ?? false }
      return old.keys.sorted().compactMap { number in state.renew(number).map { (number, $0) } }
    }
    for (number, id) in renewed { Task { await self.open(number, id) } }
  }

  /// Answers every waiter with `.offline` and takes no more requests.
  package func stop() {
    let jobs = state.withLock { state -> [DownloadJob] in
      state.isStopped = true
      state.forgetBacklog()
      defer { state.jobs = [:] }
      return Array(state.jobs.values)
    }
    for job in jobs { Self.fail(job, .offline) }
  }

  private struct Ticket: FetchTicket {
    let fetcher: ContentFetcher
    let number: InodeNumber
    let waiter: UInt64

    func cancel() { fetcher.cancel(waiter, of: number) }
  }

  private func cancel(_ waiter: UInt64, of number: InodeNumber) {
    let request = state.withLock { $0.jobs[number]?.drop(waiter) }
    guard let request else { return }
    request.completion(.failure(.cancelled))
    pump(number)
  }

  // MARK: A job's life

  /// Finds out what the content is made of, then begins.
  private func open(_ number: InodeNumber, _ id: UInt64) async {
    var hasTold = false
    // Whoever asked has been answered when this stops, and the catalog may be closed.
    while state.withLock({ !$0.isStopped && $0.job(number, id) != nil }) {
      do throws(FetchFailure) {
        switch try source(of: number) {
        case .local:
          finish(number, id, .success(()))
          return
        case .ready(let source):
          state.withLock { state in
            if state.unsent.removeValue(forKey: number) != nil { state.errors[number] = nil }
            guard var job = state.job(number, id) else { return }
            job.source = source
            for request in job.early { job.add(request) }
            job.early = []
            state.jobs[number] = job
          }
          pump(number)
          return
        case .neverSent: throw FetchFailure.neverSent
        case .pending(let version):
          // The saving device made the item known before its content was up.
          if let obstacle = remote.obstacle { throw obstacle }
          hasTold = try waitForUpload(of: version, number, hasTold: hasTold)
        }
      } catch {
        finish(number, id, .failure(error))
        return
      }
      try? await Task.sleep(for: .milliseconds(100))
    }
  }

  /// Notes that a program waits for a content that is not uploaded, and says so after a moment.
  /// Throws when it has waited for long enough.
  private func waitForUpload(of version: VersionID, _ number: InodeNumber, hasTold: Bool)
    throws(FetchFailure) -> Bool
  {
    let now = monotonicNanoseconds()
    let (since, isNews) = state.withLock { state -> (UInt64, Bool) in
      var wait = state.unsent[number] ?? UnsentWait(version: version, since: now)
      // A program that reads on after an error does not wait for the whole time again.
      if wait.version != version || now - wait.last > unsentMemory {
        wait = UnsentWait(version: version, since: now)
      }
      wait.last = now
      let isNews = !wait.isTold && now - wait.since >= UnsentWait.moment
      if isNews { wait.isTold = true }
      state.unsent[number] = wait
      if isNews || wait.isTold {
        state.errors[number] = FetchFailure.unsent(unsentError).description
      }
      return (wait.since, isNews)
    }
    if isNews { noteUnsent(number) }
    guard now - since < pendingLimit else { throw .unsent(unsentError) }
    // Each new job changed what the item's state is.
    let mustTell = !hasTold && now - since >= UnsentWait.moment
    if mustTell { coordinator.tellStatus(number) }
    return hasTold || mustTell
  }

  private enum Found {
    case local
    case pending(VersionID)
    case neverSent
    case ready(DownloadJob.Source)
  }

  private func source(of number: InodeNumber) throws(FetchFailure) -> Found {
    do throws(Errno) {
      let inode = try coordinator.catalog.inode(number)
      guard inode.kind == .file, inode.content == .remote else { return .local }
      guard let version = try coordinator.catalog.shownContent(of: number) else {
        throw Errno.ioError
      }
      guard let manifest = version.manifest else {
        // What is gone from the log is sent by nobody.
        return inode.isOrphan ? .neverSent : .pending(version.id)
      }
      let key = ContentKey(item: inode.item, generation: inode.generation)
      let partial = try coordinator.content.partial(key, size: manifest.size)
      var offsets: [UInt64] = []
      offsets.reserveCapacity(manifest.chunks.count)
      var offset: UInt64 = 0
      for chunk in manifest.chunks {
        offsets.append(offset)
        offset += UInt64(chunk.length)
      }
      return .ready(
        DownloadJob.Source(
          key: key, partial: partial, chunks: manifest.chunks, offsets: offsets,
          blocks: manifest.size > DownloadJob.Source.largeSize ? LargeBlockUse() : nil))
    } catch {
      throw error == .noSpace ? FetchFailure.noSpace : FetchFailure.system(error)
    }
  }

  /// Sends the next requests, and ends the job when nothing is left to do.
  func pump(_ number: InodeNumber) {
    enum Step {
      case none
      case satisfied([DownloadJob.Waiter])
      case whole(DownloadJob.Source, UInt64)
      case batch([Int], DownloadJob.Source, UInt64, isAwaited: Bool)
    }
    while true {
      let step: Step = state.withLock { state in
        guard var job = state.jobs[number], let source = job.source, !job.isFinishing else {
          return .none
        }
        defer { state.jobs[number] = job }
        let done = job.satisfied(isWhole: false)
        if !done.isEmpty { return .satisfied(done) }
        if job.requestsInFlight == 0,
          source.partial.isComplete || PlantedMistake.endsDownloadsEarly.isPlanted
        {
          job.isFinishing = true
          return .whole(source, job.id)
        }
        guard job.requestsInFlight < job.requestLimit else { return .none }
        let isAwaited = !job.urgent.isEmpty
        let batch = job.nextBatch()
        guard batch.isEmpty else {
          job.requestsInFlight += 1
          return .batch(batch, source, job.id, isAwaited: isAwaited)
        }
        return .none
      }
      switch step {
      case .none:
        retire(number)
        return
      case .satisfied(let waiters):
        for waiter in waiters { waiter.completion(.success(())) }
      case .batch(let batch, let source, let id, let isAwaited):
        Transfers.$isAwaited.withValue(isAwaited) {
          _ = Task { await self.load(batch, of: number, id, from: source) }
        }
      case .whole(let source, let id):
        settling.add { self.settle(number, id, source) }
        return
      }
    }
  }

  /// Drops a job for which nothing is wanted any more; its partial file stays for the next reader.
  private func retire(_ number: InodeNumber) {
    let over = state.withLock { state -> DownloadJob? in
      guard let job = state.jobs[number], job.source != nil, !job.isFinishing,
        job.requestsInFlight == 0, job.waiters.isEmpty, job.urgent.isEmpty, job.background.isEmpty
      else { return nil }
      state.jobs[number] = nil
      return job
    }
    guard let over else { return }
    if over.source?.blocks != nil { coordinator.catalog.giveBackMemoryLater() }
    coordinator.tellStatus(number)
  }

  private func load(
    _ batch: [Int], of number: InodeNumber, _ id: UInt64, from source: DownloadJob.Source
  ) async {
    var failure: FetchFailure?
    var isLarger = false
    do throws(FetchFailure) {
      let references = batch.map { source.chunks[$0] }
      let bytes = references.reduce(0) { $0 + UInt64($1.length) }
      let eager = state.withLock { $0.eagerRoom[number] }
      let room = await eager == nil ? coordinator.reserve(bytes) : nil
      defer { room?.end() }
      let start = monotonicNanoseconds()
      let contents: [OpenedBytes]
      do throws(FetchFailure) {
        contents = try await chunks(references)
      } catch {
        noteAnswer(0, of: number, id, since: start)
        throw error
      }
      // Before anything is stored: making room on a full disk says nothing of the backend.
      noteAnswer(bytes, of: number, id, since: start)
      for (index, bytes) in zip(batch, contents) {
        try await store(bytes, at: source.offsets[index], in: source.partial)
        isLarger = true
      }
      if source.blocks != nil, let first = batch.first, let last = batch.last {
        let part = source.offsets[first]..<source.offsets[last] + UInt64(source.chunks[last].length)
        settling.add { source.partial.startWriteback(part) }
      }
      eager?.spend(bytes)
    } catch {
      failure = error
    }
    let causes = state.withLock { state -> [DownloadCause: UInt64] in
      guard state.job(number, id) != nil else {
        return [DownloadCause(.other): batch.reduce(0) { $0 + UInt64(source.chunks[$1].length) }]
      }
      return state.jobs[number]?.takeCauses(of: batch) ?? [:]
    }
    if failure == nil {
      for (cause, bytes) in causes { coordinator.noteFetched(bytes, of: number, for: cause) }
    }
    // The file takes more blocks now, which the kernel is to know before its reader does: else the
    // reader gets for a second more those from before.
    if isLarger { await coordinator.invalidateAndWait([.attributes(number)]) }
    if failure == nil { coordinator.tellStatus(number) }
    let failed = state.withLock { state -> [DownloadJob.Waiter] in
      guard var job = state.job(number, id) else { return [] }
      defer { state.jobs[number] = job }
      job.requestsInFlight -= 1
      guard let failure else {
        state.errors[number] = nil
        for id in Array(job.waiters.keys) { job.waiters[id]?.missing.subtract(batch) }
        return []
      }
      state.errors[number] = failure.description
      // Whoever waits for one of these is told; the next request asks again.
      let lost = job.waiters.filter { !$0.value.missing.isDisjoint(with: batch) }
      for id in lost.keys { job.waiters[id] = nil }
      job.requested.subtract(batch)
      if !lost.isEmpty, job.waiters.isEmpty {
        job.requested.subtract(job.background + job.urgent)
        job.background = []
        job.urgent = []
      }
      return Array(lost.values)
    }
    if let failure {
      for waiter in failed { waiter.completion(.failure(failure)) }
    }
    pump(number)
  }

  /// `bytes`: of what came. What did not come in time may when it is less; what failed at once says
  /// nothing.
  private func noteAnswer(
    _ bytes: UInt64, of number: InodeNumber, _ id: UInt64, since start: UInt64
  ) {
    let time = Duration.nanoseconds(monotonicNanoseconds() - start)
    state.withLock { state in
      guard var job = state.job(number, id) else { return }
      job.noteAnswer(bytes, after: time)
      state.jobs[number] = job
      state.batchLimit = job.batchLimit
    }
  }

  /// On a full disk what can be evicted makes room first.
  private func store(
    _ bytes: OpenedBytes, at offset: UInt64, in partial: PartialContent
  ) async throws(FetchFailure) {
    var mayMakeRoom = true
    while true {
      do throws(Errno) {
        return try bytes.withUnsafeBytes { bytes throws(Errno) in
          try partial.write(bytes, at: offset)
        }
      } catch {
        guard error == .noSpace else { throw .system(error) }
        guard mayMakeRoom, await coordinator.makeRoom(for: UInt64(bytes.count)) else {
          throw .noSpace
        }
        mayMakeRoom = false
      }
    }
  }

  func chunks(_ references: [ChunkReference]) async throws(FetchFailure) -> [OpenedBytes] {
    if let obstacle = remote.obstacle {
      remote.wanted()
      throw obstacle
    }
    let wanted = try places(of: references)
    do throws(FetchFailure) {
      return try await remote.read(wanted, limit: answerLimit)
    } catch .missing(let text) {
      // The log may have more, and say where it was brought since.
      await remote.catchUp()
      let now = try places(of: references)
      guard now != wanted else { throw .damaged(text) }
      return try await remote.read(now, limit: answerLimit)
    }
  }

  private func places(of references: [ChunkReference]) throws(FetchFailure) -> [ChunkLocation] {
    let locations: [ChunkID: ChunkLocation]
    do throws(Errno) {
      locations = try coordinator.catalog.chunkLocations(references.map(\.id))
    } catch {
      throw .system(error)
    }
    var wanted: [ChunkLocation] = []
    for reference in references {
      guard let location = locations[reference.id], location.chunk == reference else {
        throw .damaged("the log has no location for chunk \(Hex.encode(reference.id.bytes))")
      }
      wanted.append(location)
    }
    return wanted
  }

  /// All bytes are there: makes them durable, and only then calls the content local. Where the
  /// inode has another content by now, whoever waits wants that one.
  private func settle(_ number: InodeNumber, _ id: UInt64, _ source: DownloadJob.Source) {
    // Who asked has been answered when the fetcher stops, and the catalog may be closed.
    guard state.withLock({ $0.job(number, id) != nil }) else { return }
    do throws(Errno) {
      try coordinator.content.synchronize(source.partial)
      FaultPoint.reach("download.durable")
      source.partial.endWriting()
      let isCurrent = try coordinator.catalog.markContentLocal(
        number, generation: source.key.generation, blocks: try? source.partial.blocks())
      FaultPoint.reach("download.local")
      coordinator.content.dropPartial(source.key)
      guard isCurrent else {
        let new = state.withLock { $0.job(number, id) == nil ? nil : $0.renew(number) }
        if let new { Task { await self.open(number, new) } }
        return
      }
      finish(number, id, .success(()))
      coordinator.invalidate([.attributes(number)])
      coordinator.tell(.downloaded, number)
      coordinator.noteUse(number)
    } catch {
      finish(number, id, .failure(error == .noSpace ? .noSpace : .system(error)))
    }
  }

  private func finish(
    _ number: InodeNumber, _ id: UInt64, _ result: Result<Void, FetchFailure>
  ) {
    let job = state.withLock { state -> DownloadJob? in
      guard state.job(number, id) != nil else { return nil }
      if case .failure(let failure) = result {
        state.errors[number] = failure.description
      } else {
        state.errors[number] = nil
      }
      return state.jobs.removeValue(forKey: number)
    }
    coordinator.tellStatus(number)
    guard let job else { return }
    if job.source?.blocks != nil { coordinator.catalog.giveBackMemoryLater() }
    for request in job.early { request.completion(result) }
    for waiter in job.waiters.values { waiter.completion(result) }
  }

  private static func fail(_ job: DownloadJob, _ failure: FetchFailure) {
    for request in job.early { request.completion(.failure(failure)) }
    for waiter in job.waiters.values { waiter.completion(.failure(failure)) }
  }

  /// How many files are being downloaded, or are to be.
  package var activeCount: Int { state.withLock { $0.jobs.count + $0.backlog.count } }

  /// Those that are under way.
  func running() -> [Transfer] {
    state.withLock { state in
      state.jobs.map { number, job in
        Transfer(
          number: number, isUpload: false, done: job.source?.partial.presentBytes ?? 0,
          total: job.source?.partial.size ?? 0)
      }
    }
  }

  func isActive(_ number: InodeNumber) -> Bool {
    state.withLock { $0.jobs[number] != nil || $0.queued[number] != nil }
  }

  func error(of number: InodeNumber) -> String? { state.withLock { $0.errors[number] } }
}
