internal import Backend
internal import Catalog
internal import Coordination
internal import Model
internal import Platform
internal import RemoteStore

/// Uploads the contents of one container beside its cycles.
///
/// A cycle hands over the files that its plan wants (`want`) and collects what was uploaded
/// (`takeResults`). Nothing here decides what the log is told: a content counts only if its file is
/// still what was read when the engine collects it. The lock is held across no wait; only the locks
/// of the runs' turns are taken with it held.
final class UploadQueue: Sendable {
  struct Results {
    var contents: [UploadRun.Content] = []
    /// Durable in the backend and named by no segment.
    var chunks: [ChunkLocation] = []
    /// The failure that stopped a run; the files in it and those that waited are to be wanted
    /// again.
    var failure: RemoteError?
  }

  struct Skipped {
    var times = 0
    /// Monotonic nanoseconds.
    var until: UInt64 = 0

    mutating func note() {
      until = monotonicNanoseconds() + min(UInt64(20_000_000) << min(times, 7), 2_000_000_000)
      times += 1
    }
  }

  struct State {
    var waiting: [UploadBatch] = []
    var remote: RemoteContainer?
    /// Chunks that need not be sent though the log does not have them.
    var known: Set<ChunkID> = []
    /// By their numbers: the one that began first has the lowest.
    var runs: [UInt64: UploadQueueRun] = [:]
    /// The files that each caller waits for.
    var callers: [UInt64: Set<ItemID>] = [:]
    /// The files that any caller waits for.
    var awaited: Set<ItemID> = []
    var results = Results()
    /// Files that could not be read, and when they are tried again: whoever writes to them may go
    /// on for hours, and nothing tells when that ends.
    var skipped: [UploadIdentity: Skipped] = [:]
    /// Open files of which the disk has no room for a copy, and until when none is tried. Monotonic
    /// nanoseconds.
    var withoutRoom: [ItemID: UInt64] = [:]
    /// Files that changed during their upload, and when that was noticed last. For a while they go
    /// after all others: a file that is saved again and again would hold up the rest of its lane.
    var restless: [ItemID: UInt64] = [:]
    var listeners: [UInt64: AsyncStream<Void>.Continuation] = [:]
    var nextNumber: UInt64 = 0
    /// The uploads of runs up to this one count no more.
    var lastForgotten: UInt64 = 0
    var isWatched = false
    var isStopped = false

    private static let restlessFor: UInt64 = 60_000_000_000
    private static let withoutRoomPause: UInt64 = 60_000_000_000

    /// Copies of these wait for a while. A file that is closed needs no copy, and waits no longer.
    mutating func noteWithoutRoom(_ items: [ItemID], at time: UInt64) {
      guard !items.isEmpty else { return }
      for item in items { withoutRoom[item] = time &+ Self.withoutRoomPause }
      let held = Set(items)
      waiting.removeAll { $0.isSnapshot && $0.files.contains { held.contains($0.item) } }
    }

    /// `time` may be from before some of them were noted: a caller waits for the lock.
    mutating func forgetRestless(at time: UInt64) {
      restless = restless.filter { time < $0.value || time - $0.value <= Self.restlessFor }
    }
  }

  let coordinator: ContainerCoordinator
  let transfers: TransferBoard
  let quiet: QuietFiles
  let failed: @Sendable (Catalog.Inode, String) -> Void
  let wake: @Sendable () -> Void
  let state = Lock(State())
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
    transfers.forgetWithoutRoom(except: Set(open.map(\.number)))
    state.withLock { state in
      guard !state.isStopped else { return }
      state.withoutRoom = state.withoutRoom.filter { $0.value > time }
      let withoutRoom = state.withoutRoom
      state.skipped = state.skipped.filter { wanted.contains($0.key) }
      state.forgetRestless(at: time)
      let skipped = state.skipped.filter { $0.value.until > time }
      let running = state.runs.values.reduce(into: Set<UploadIdentity>()) {
        $0.formUnion($1.files)
      }
      func isNew(_ file: Catalog.Inode) -> Bool {
        let identity = UploadIdentity(file)
        return !running.contains(identity) && skipped[identity] == nil
      }
      let snapshots = open.filter { isNew($0) && withoutRoom[$0.item] == nil }
      state.setWaiting(files.filter(isNew), snapshots: snapshots, at: now)
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
    state.withLock { $0.isBusy(in: [.small, .express]) }
  }

  /// Returns when a run in one of the lanes ends, at once if there is none, and after `limit` at
  /// the latest.
  func waitForEnd(in lanes: [UploadLane] = UploadLane.allCases, atMost limit: Duration) async {
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    let id = state.withLock { state -> UInt64? in
      guard state.isBusy(in: lanes) else { return nil }
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
    transfers.forgetWithoutRoom(except: [])
    let tasks = state.withLock { state in
      state.dropWaiting()
      return state.runs.values.compactMap(\.task)
    }
    for task in tasks { task.cancel() }
  }

  /// Ends all uploads, and forgets their packs in the backend: its state has changed, and may lack
  /// them.
  func forgetAll() {
    let tasks = state.withLock { state in
      state.dropWaiting()
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
      state.dropWaiting()
      return state.runs.values.compactMap(\.task)
    }
    for task in tasks { task.cancel() }
    for task in tasks { await task.value }
  }
}
