internal import Backend
internal import Catalog
internal import Coordination
internal import Model
internal import Platform
internal import RemoteStore

/// Which uploads may run at the same time. Each lane has one run, so that small files pass large
/// ones.
enum UploadLane: CaseIterable {
  /// A few small files that were saved while the lane of small files is busy.
  case express
  case small
  case medium
  case large

  private static let smallLimit = UInt64(8) << 20
  private static let mediumLimit = UInt64(256) << 20

  static func of(_ batch: UploadBatch) -> UploadLane {
    if batch.isSmall || batch.bytes <= smallLimit { return .small }
    return batch.bytes <= mediumLimit ? .medium : .large
  }

  /// How many packs of a run may be on their way at once. Each is in memory.
  var packs: Int {
    switch self {
    case .express: 1
    case .medium: 2
    case .small, .large: 4
    }
  }
}

/// Uploads the contents of one container beside its cycles.
///
/// A cycle hands over the files that its plan wants (`want`) and collects what was uploaded
/// (`takeResults`). Nothing here decides what the log is told: a content counts only if its file is
/// still what was read when the engine collects it. The lock is a leaf.
final class UploadQueue: Sendable {
  struct Results {
    var contents: [UploadRun.Content] = []
    /// Durable in the backend and named by no segment.
    var chunks: [ChunkLocation] = []
    /// The failure that stopped a run; the files in it and those that waited are to be wanted
    /// again.
    var failure: RemoteError?
  }

  private struct Run {
    let number: UInt64
    let files: Set<UploadIdentity>
    /// The device's clock, and the monotonic one, when its first batch began.
    let began: Timestamp
    var task: Task<Void, Never>?
    /// The files that are read or sent now, and since when.
    var current: UploadBatch?
    var currentSince: UInt64 = 0
  }

  private struct Skipped {
    var times = 0
    /// Monotonic nanoseconds.
    var until: UInt64 = 0

    mutating func note() {
      until = monotonicNanoseconds() + min(UInt64(20_000_000) << min(times, 7), 2_000_000_000)
      times += 1
    }
  }

  private struct State {
    var waiting: [UploadBatch] = []
    var remote: RemoteContainer?
    /// Chunks that need not be sent though the log does not have them.
    var known: Set<ChunkID> = []
    var runs: [UploadLane: Run] = [:]
    var results = Results()
    /// Files that could not be read, and when they are tried again: whoever writes to them may go on
    /// for hours, and nothing tells when that ends.
    var skipped: [UploadIdentity: Skipped] = [:]
    /// Files that changed during their upload, and when that was noticed last. For a while they go
    /// after all others: a file that is saved again and again would hold up the rest of its lane.
    var restless: [ItemID: UInt64] = [:]
    var listeners: [UInt64: AsyncStream<Void>.Continuation] = [:]
    var nextNumber: UInt64 = 0
    /// The uploads of runs up to this one count no more.
    var lastForgotten: UInt64 = 0
    var isWatched = false
    var isStopped = false
  }

  /// What one run sends at most before it is committed, so that others get it bit by bit and a
  /// device that stops has little to send again.
  private static let runBytes: UInt64 = 256 << 20
  private static let runFiles = 2_000
  /// More new files than this at once are no single save: they wait for the lane of small files.
  private static let expressFiles = 16
  /// How often running uploads are compared with their files.
  private static let watchPause = Duration.milliseconds(250)
  private static let restlessFor: UInt64 = 60_000_000_000
  /// How long a batch of small files may take before it is abandoned for one that changed.
  private static let batchPatience: UInt64 = 500_000_000

  private let coordinator: ContainerCoordinator
  private let transfers: TransferBoard
  private let quiet: QuietFiles
  private let failed: @Sendable (Catalog.Inode, String) -> Void
  private let wake: @Sendable () -> Void
  private let state = Lock(State())
  let packTimes = PackTimes()

  /// `wake` is called after each run; `failed` for a file that can't be read.
  init(
    coordinator: ContainerCoordinator, transfers: TransferBoard, quiet: QuietFiles,
    failed: @escaping @Sendable (Catalog.Inode, String) -> Void,
    wake: @escaping @Sendable () -> Void
  ) {
    self.coordinator = coordinator
    self.transfers = transfers
    self.quiet = quiet
    self.failed = failed
    self.wake = wake
  }

  // MARK: For the cycle

  /// Uploads these files, and of those that were wanted before only what is under way. `known`:
  /// chunks that are in the backend and that no segment names. `open`: files that programs have
  /// open and that are uploaded as they are.
  func want(
    _ files: [Catalog.Inode], open: [Catalog.Inode] = [], to remote: RemoteContainer,
    known: Set<ChunkID>
  ) {
    let now = coordinator.catalog.now
    let time = monotonicNanoseconds()
    let wanted = Set((files + open).map(UploadIdentity.init))
    state.withLock { state in
      guard !state.isStopped else { return }
      state.skipped = state.skipped.filter { wanted.contains($0.key) }
      state.restless = state.restless.filter { time &- $0.value <= Self.restlessFor }
      let skipped = state.skipped.filter { $0.value.until > time }
      let running = state.runs.values.reduce(into: Set<UploadIdentity>()) {
        $0.formUnion($1.files)
      }
      func isNew(_ file: Catalog.Inode) -> Bool {
        let identity = UploadIdentity(file)
        return !running.contains(identity) && skipped[identity] == nil
      }
      state.waiting =
        UploadOrder.batches(files.filter(isNew), at: now, last: Set(state.restless.keys))
        + open.filter(isNew).map { UploadBatch($0, isSnapshot: true) }
      state.remote = remote
      state.known = known.union(state.results.chunks.map(\.chunk.id))
      startRuns(&state, at: now)
    }
  }

  /// The uploads that ended since the last call.
  func takeResults() -> Results {
    state.withLock { state in
      defer { state.results = Results() }
      return state.results
    }
  }

  var isBusy: Bool { state.withLock { !$0.runs.isEmpty } }

  /// Whether small files are being uploaded.
  var isBusyWithSmall: Bool {
    state.withLock { $0.runs[.small] != nil || $0.runs[.express] != nil }
  }

  /// Returns when a run in one of the lanes ends, at once if there is none, and after `limit` at
  /// the latest.
  func waitForEnd(in lanes: [UploadLane] = UploadLane.allCases, atMost limit: Duration) async {
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    let id = state.withLock { state -> UInt64? in
      guard lanes.contains(where: { state.runs[$0] != nil }) else { return nil }
      state.nextNumber += 1
      state.listeners[state.nextNumber] = continuation
      return state.nextNumber
    }
    guard let id else { return }
    let timer = Task {
      try? await Task.sleep(for: limit)
      continuation.finish()
    }
    for await _ in stream { break }
    timer.cancel()
    state.withLock { $0.listeners[id] = nil }
  }

  /// Ends all uploads. What of them is in the backend stays there and is collected.
  func cancelAll() {
    let tasks = state.withLock { state in
      state.waiting = []
      return state.runs.values.compactMap(\.task)
    }
    for task in tasks { task.cancel() }
  }

  /// Ends all uploads, and forgets their packs in the backend: its state has changed, and may lack
  /// them.
  func forgetAll() {
    let tasks = state.withLock { state in
      state.waiting = []
      state.known = []
      state.results = Results()
      state.lastForgotten = state.nextNumber
      return state.runs.values.compactMap(\.task)
    }
    for task in tasks { task.cancel() }
  }

  /// Like `cancelAll`, for good; returns when no file is open any more.
  func stop() async {
    let tasks = state.withLock { state in
      state.isStopped = true
      state.waiting = []
      return UploadLane.allCases.compactMap { state.runs[$0]?.task }
    }
    for task in tasks { task.cancel() }
    for task in tasks { await task.value }
  }

  // MARK: Runs

  private func startRuns(_ state: inout State, at now: Timestamp) {
    guard let remote = state.remote, !state.isStopped else { return }
    let wasBusy = state.runs[.small] != nil
    for lane in [UploadLane.small, .medium, .large] where state.runs[lane] == nil {
      start(take(for: lane, &state), in: lane, to: remote, &state, at: now)
    }
    guard wasBusy, state.runs[.express] == nil, let busy = state.runs[.small] else { return }
    let late = state.waiting.filter { !$0.isSnapshot }.flatMap(\.files).filter {
      $0.size <= ContentUploader.smallFile && $0.changed > busy.began
    }
    guard !late.isEmpty, late.count <= Self.expressFiles else { return }
    let taken = Set(late.map(UploadIdentity.init))
    let rest = state.waiting.filter { !$0.isSnapshot }.flatMap(\.files)
      .filter { !taken.contains(UploadIdentity($0)) }
    let snapshots = state.waiting.filter(\.isSnapshot)
    let restless = Set(state.restless.keys)
    state.waiting = UploadOrder.batches(rest, at: now, last: restless) + snapshots
    let batches = UploadOrder.batches(late, at: now, last: restless)
    start(batches, in: .express, to: remote, &state, at: now)
  }

  /// Takes the next run's batches out of those that wait.
  private func take(for lane: UploadLane, _ state: inout State) -> [UploadBatch] {
    let all = state.waiting.filter { UploadLane.of($0) == lane }
    // Of very many a part: after each run all that is left is looked at again.
    let most = max(Self.runFiles, all.reduce(0) { $0 + $1.files.count } / 4)
    var taken: [UploadBatch] = []
    var (files, bytes) = (0, UInt64(0))
    for batch in all {
      if !taken.isEmpty, lane == .large || bytes + batch.bytes > Self.runBytes || files >= most {
        break
      }
      taken.append(batch)
      files += batch.files.count
      bytes += batch.bytes
    }
    var left = taken.count
    state.waiting.removeAll { batch in
      guard left > 0, UploadLane.of(batch) == lane else { return false }
      left -= 1
      return true
    }
    return taken
  }

  private func start(
    _ batches: [UploadBatch], in lane: UploadLane, to remote: RemoteContainer,
    _ state: inout State, at now: Timestamp
  ) {
    guard !batches.isEmpty else { return }
    state.nextNumber += 1
    let number = state.nextNumber
    let files = batches.flatMap(\.files)
    let known = state.known
    let recent = UploadOrder.recent(at: now)
    // Someone works on it: it passes what lay there.
    let isUrgent =
      lane == .express
      || lane == .small && batches.count == 1 && files.allSatisfy { $0.changed >= recent }
    state.runs[lane] = Run(
      number: number, files: Set(files.map(UploadIdentity.init)), began: now)
    // The run begins by asking for the lock, so its task is noted before it can end.
    state.runs[lane]?.task = Transfers.$isAwaited.withValue(isUrgent) {
      Task { await self.perform(batches, in: lane, to: remote, known) }
    }
    guard !state.isWatched else { return }
    state.isWatched = true
    Task { await self.watch() }
  }

  private func perform(
    _ batches: [UploadBatch], in lane: UploadLane, to remote: RemoteContainer,
    _ known: Set<ChunkID>
  ) async {
    let run = UploadRun(
      coordinator: coordinator, transfers: transfers, quiet: quiet, remote: remote,
      packs: lane.packs, known: known, times: packTimes, failed: failed)
    let outcome = await run.send(batches) { batch in
      self.state.withLock { state in
        state.runs[lane]?.current = batch
        state.runs[lane]?.currentSince = monotonicNanoseconds()
      }
    }
    let now = coordinator.catalog.now
    let listeners = state.withLock { state in
      let isForgotten = state.runs[lane].map { $0.number <= state.lastForgotten } ?? true
      state.runs[lane] = nil
      if !isForgotten {
        state.results.chunks += outcome.chunks
        state.known.formUnion(outcome.chunks.map(\.chunk.id))
        state.results.contents += outcome.contents
      }
      for file in outcome.skipped { state.skipped[file, default: Skipped()].note() }
      if let failure = outcome.failure {
        state.waiting = []
        state.results.failure = state.results.failure ?? failure
      } else {
        startRuns(&state, at: now)
      }
      return Array(state.listeners.values)
    }
    for listener in listeners { listener.yield() }
    wake()
  }

  // MARK: Files that change

  /// Abandons uploads of files that were removed, replaced, written to or opened for it, as long as
  /// there are any uploads: they would be for nothing, and keep the blocks of what is gone.
  private func watch() async {
    while true {
      try? await Task.sleep(for: Self.watchPause)
      let runs = state.withLock { state -> [(lane: UploadLane, run: Run)] in
        state.isWatched = !state.runs.isEmpty && !state.isStopped
        guard state.isWatched else { return [] }
        return UploadLane.allCases.compactMap { lane in state.runs[lane].map { (lane, $0) } }
      }
      guard !runs.isEmpty else { return }
      let now = monotonicNanoseconds()
      for (lane, run) in runs {
        // A batch of small files is soon over by itself.
        let isShort = lane == .small || lane == .express
        if isShort, now - run.currentSince < Self.batchPatience { continue }
        guard let batch = run.current else { continue }
        let changed = batch.files.filter { hasChanged($0, isSnapshot: batch.isSnapshot) }
        guard !changed.isEmpty else { continue }
        state.withLock { state in
          for file in changed { state.restless[file.item] = now }
        }
        run.task?.cancel()
      }
    }
  }

  private func hasChanged(_ inode: Catalog.Inode, isSnapshot: Bool) -> Bool {
    if isSnapshot {
      guard let now = try? coordinator.catalog.inode(inode.number) else { return true }
      return now.isOrphan || now.item != inode.item || now.generation != inode.generation
        || now.size < inode.size
    }
    if coordinator.isOpenForWriting(inode.number) { return true }
    guard let now = try? coordinator.catalog.inode(inode.number) else { return true }
    return now.isOrphan || UploadIdentity(now) != UploadIdentity(inode)
  }
}

/// A content of a file, as far as it can be told without reading it.
struct UploadIdentity: Hashable {
  let item: ItemID
  let generation: UInt64
  let size: UInt64
  let modified: Timestamp
  let changed: Timestamp

  init(_ inode: Catalog.Inode) {
    item = inode.item
    generation = inode.generation
    size = inode.size
    modified = inode.modified
    changed = inode.changed
  }
}
