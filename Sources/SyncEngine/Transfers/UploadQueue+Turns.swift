internal import Catalog
internal import Model
internal import Platform

/// Uploads that callers wait for.
///
/// The invariant: while a caller waits for a file that can be uploaded, nothing else of the file's
/// lane begins to be sent.
///
/// - Waiting files are in the order of `UploadOrder`, awaited ones first.
/// - A run gives back the batches that it has not begun when a caller waits for one of its files:
///   an awaited file starts in a run of its own, and a run that has begun one ends soon.
/// - A lane has a second run only for awaited files, while the first has none. Of the runs of a
///   lane the turn of one is open: of the first that has an awaited file, else of the first.
///   A run whose turn is closed sends the packs that it has begun to send, keeps its place in the
///   file, and goes on when the turn opens.
///
/// The priority ends with the call. A file that had it goes on in its turn.
extension UploadQueue {
  /// Uploads these before the rest of their lanes, until `endAwaiting` is called with the answer.
  func beginAwaiting(_ items: Set<ItemID>) -> UInt64? {
    guard !items.isEmpty else { return nil }
    let now = coordinator.catalog.now
    return state.withLock { state in
      state.nextNumber += 1
      state.callers[state.nextNumber] = items
      let number = state.nextNumber
      callersChanged(&state, at: now)
      return number
    }
  }

  /// May be called again.
  func endAwaiting(_ caller: UInt64?) {
    guard let caller else { return }
    let now = coordinator.catalog.now
    state.withLock { state in
      guard state.callers.removeValue(forKey: caller) != nil else { return }
      callersChanged(&state, at: now)
    }
  }

  private func callersChanged(_ state: inout State, at now: Timestamp) {
    state.awaited = state.callers.values.reduce(into: []) { $0.formUnion($1) }
    state.returnRests()
    state.removeWaiting([], at: now)
    startRuns(&state, at: now)
  }
}

extension UploadQueue.State {
  func isBusy(in lanes: [UploadLane]) -> Bool { runs.values.contains { lanes.contains($0.lane) } }

  /// In the order in which they began.
  func runs(in lane: UploadLane) -> [UploadQueueRun] {
    runs.values.filter { $0.lane == lane }.sorted { $0.number < $1.number }
  }

  func isAwaited(_ run: UploadQueueRun) -> Bool {
    !awaited.isDisjoint(with: run.begun)
      || run.rest.contains { $0.files.contains { awaited.contains($0.item) } }
  }

  // MARK: Waiting files

  /// Replaces the waiting files. Snapshots of open files go after other files that are as urgent.
  mutating func setWaiting(
    _ files: [Catalog.Inode], snapshots: [Catalog.Inode], at now: Timestamp
  ) {
    let all =
      UploadOrder.batches(files, at: now, last: Set(restless.keys), awaited: awaited)
      + snapshots.map {
        UploadBatch($0, isSnapshot: true, isAwaited: awaited.contains($0.item))
      }
    waiting = all.filter(\.isAwaited) + all.filter { !$0.isAwaited }
  }

  /// Orders the waiting files anew, without some of them.
  mutating func removeWaiting(_ gone: Set<UploadIdentity>, at now: Timestamp) {
    func left(_ batches: [UploadBatch]) -> [Catalog.Inode] {
      batches.flatMap(\.files).filter { !gone.contains(UploadIdentity($0)) }
    }
    setWaiting(
      left(waiting.filter { !$0.isSnapshot }), snapshots: left(waiting.filter(\.isSnapshot)),
      at: now)
  }

  /// Takes the batches that a run with an awaited file has not begun back to the waiting ones.
  mutating func returnRests() {
    for run in runs.values where run.lane != .express && isAwaited(run) {
      returnRest(of: run.number)
      // The awaited file is read, and counts only when the run ends: a long file is not to be
      // waited for. Chunks that are in the backend are not sent again.
      let current = run.current.values.flatMap(\.batch.files).map(\.item)
      if run.lane == .medium, awaited.isDisjoint(with: current),
        !awaited.isDisjoint(with: run.begun)
      {
        run.task?.cancel()
      }
    }
  }

  /// Takes the batches that the run has not begun back to the waiting ones, in no order.
  mutating func returnRest(of number: UInt64) {
    guard let rest = runs[number]?.rest else { return }
    waiting += rest
    runs[number]?.rest = []
    runs[number]?.files.subtract(rest.flatMap(\.files).map(UploadIdentity.init))
  }

  /// Nothing more is begun, by runs that have not ended either.
  mutating func dropWaiting() {
    waiting = []
    for number in runs.keys { runs[number]?.rest = [] }
  }

  // MARK: Whose turn it is

  /// Whether a further run may begin in the lane.
  ///
  /// Each run has its packs in memory, so there are at most two: a third is not begun before the
  /// second, which was awaited and is not any more, has ended.
  func mayBegin(in lane: UploadLane) -> Bool {
    let running = runs(in: lane)
    guard let first = running.first else { return true }
    guard !running.contains(where: { isAwaited($0) }),
      waiting.contains(where: { $0.isAwaited && UploadLane.of($0) == lane })
    else { return false }
    guard running.count > 1, let last = running.last, last.number != first.number else {
      return true
    }
    last.task?.cancel()
    return false
  }

  /// Opens the turn of one run in each lane, and closes those of the others.
  func arrangeTurns() {
    for lane in UploadLane.allCases {
      let running = runs(in: lane)
      let open = running.first(where: { isAwaited($0) }) ?? running.first
      for run in running {
        run.turn.set(
          open: run.number == open?.number, awaited: run.isUrgent || isAwaited(run))
      }
    }
  }
}
