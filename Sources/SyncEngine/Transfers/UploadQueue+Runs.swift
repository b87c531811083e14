internal import Backend
internal import Catalog
internal import Model
internal import Platform
internal import RemoteStore

/// One run of a lane: files that share packs and are in the log together.
struct UploadQueueRun {
  let number: UInt64
  let lane: UploadLane
  /// The device's clock when it was begun.
  let began: Timestamp
  /// Somebody works on its files: its packs pass others, though no caller waits.
  let isUrgent: Bool
  let turn = UploadTurn()
  /// Batches of which no file was opened yet.
  var rest: [UploadBatch]
  /// All files that are, or were, or will be sent.
  var files: Set<UploadIdentity>
  /// The items of the batches that were begun.
  var begun: Set<ItemID> = []
  var task: Task<Void, Never>?
  /// The batches that are read or sent now, by their places in the run.
  var current: [Int: Current] = [:]

  struct Current {
    let batch: UploadBatch
    /// By the monotonic clock.
    let since: UInt64
  }
}

/// Begins runs and takes over what they uploaded.
extension UploadQueue {
  /// The most that one run sends before it is committed, so that others get it bit by bit and a
  /// device that stops has little to send again.
  private static let runBytes: UInt64 = 256 << 20
  private static let runFiles = 2_000
  /// More new files than this at once are no single save: they wait for the lane of small files.
  private static let expressFiles = 16

  func startRuns(_ state: inout State, at now: Timestamp) {
    defer { state.arrangeTurns() }
    guard let remote = state.remote, !state.isStopped else { return }
    let busySince = state.runs(in: .small).first?.began
    for lane in [UploadLane.small, .medium, .large] where state.mayBegin(in: lane) {
      start(take(for: lane, &state), in: lane, to: remote, &state, at: now)
    }
    guard let busySince, !state.isBusy(in: [.express]) else { return }
    let late = state.waiting.filter { !$0.isSnapshot }.flatMap(\.files).filter {
      $0.size <= ContentUploader.smallFile && $0.changed > busySince
    }
    guard !late.isEmpty, late.count <= Self.expressFiles else { return }
    let taken = Set(late.map(UploadIdentity.init))
    state.removeWaiting(taken, at: now)
    let batches = UploadOrder.batches(
      late, at: now, last: Set(state.restless.keys), awaited: state.awaited)
    start(batches, in: .express, to: remote, &state, at: now)
  }

  /// Takes the next run's batches out of those that wait. A run has only awaited files or none.
  private func take(for lane: UploadLane, _ state: inout State) -> [UploadBatch] {
    let inLane = state.waiting.filter { UploadLane.of($0) == lane }
    guard let first = inLane.first else { return [] }
    let all = inLane.prefix { $0.isAwaited == first.isAwaited }
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
    var run = UploadQueueRun(
      number: number, lane: lane, began: now, isUrgent: isUrgent, rest: batches,
      files: Set(files.map(UploadIdentity.init)))
    let turn = run.turn
    // The run begins by asking for the lock, so it is noted before it can end.
    run.task = Task { await self.perform(number, lane, turn, to: remote, known) }
    state.runs[number] = run
    guard !state.isWatched else { return }
    state.isWatched = true
    Task { await self.watch() }
  }

  /// The batch before it in that place has ended.
  private func beginNext(_ number: UInt64, in place: Int) -> UploadBatch? {
    state.withLock { state in
      state.runs[number]?.current[place] = nil
      guard let batch = state.runs[number]?.rest.first else { return nil }
      state.runs[number]?.rest.removeFirst()
      state.runs[number]?.begun.formUnion(batch.files.map(\.item))
      state.runs[number]?.current[place] = UploadQueueRun.Current(
        batch: batch, since: monotonicNanoseconds())
      return batch
    }
  }

  private func perform(
    _ number: UInt64, _ lane: UploadLane, _ turn: UploadTurn, to remote: RemoteContainer,
    _ known: Set<ChunkID>
  ) async {
    let run = UploadRun(
      coordinator: coordinator, transfers: transfers, quiet: quiet, remote: remote,
      packs: lane.packs, turn: turn, known: known, times: packTimes, failed: failed)
    let outcome = await run.send(batches: lane.batches) { self.beginNext(number, in: $0) }
    let now = coordinator.catalog.now
    let listeners = state.withLock { state in
      let isForgotten = number <= state.lastForgotten
      state.runs[number] = nil
      if !isForgotten {
        state.results.chunks += outcome.chunks
        state.known.formUnion(outcome.chunks.map(\.chunk.id))
        state.results.contents += outcome.contents
      }
      for file in outcome.skipped { state.skipped[file, default: Skipped()].note() }
      state.noteWithoutRoom(outcome.withoutRoom, at: monotonicNanoseconds())
      if let failure = outcome.failure {
        state.waiting = []
        state.results.failure = state.results.failure ?? failure
        state.arrangeTurns()
      } else {
        startRuns(&state, at: now)
      }
      return Array(state.listeners.values)
    }
    for listener in listeners { listener.yield() }
    wake()
  }
}
