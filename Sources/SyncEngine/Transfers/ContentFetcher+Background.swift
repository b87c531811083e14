package import Catalog
package import Coordination
internal import Model
internal import Platform

/// Downloads that nobody waits for: a few at a time, so that a directory of thousands of files
/// neither opens thousands of files at once nor is in a reader's way.
extension ContentFetcher {
  package func fetchInBackground(_ number: InodeNumber, cause: DownloadCause) {
    let rank = cause.kind == .greedy ? coordinator.eagerRank(of: number) : nil
    state.withLock { state in
      if cause.isAsked { state.unasked.remove(number) }
      // A job that only a read began ends with that read, so its file is queued like any other.
      guard !state.isStopped, state.jobs[number]?.hasBackground != true else { return }
      let known = state.queued[number]
      if known == nil { state.backlog.append(number, rank: rank) }
      // What somebody asked for stays asked for.
      if !(known?.isAsked ?? false) { state.setQueued(number, cause) }
    }
    coordinator.tellStatus(number)
    Task { self.startBacklog() }
  }

  /// Nothing of the backlog begins before `releaseBacklog`: where not all of it has room, the first
  /// that comes may not be the one to begin with.
  func holdBacklog() { state.withLock { $0.backlogHolds += 1 } }

  func releaseBacklog() {
    state.withLock { $0.backlogHolds -= 1 }
    Task { self.startBacklog() }
  }

  /// Begins with the next ones, if there is room for them. While nothing can come they stay where
  /// they are.
  func startBacklog() {
    while remote.isReachable {
      // Outside the lock: who finds out that it changed comes here.
      let isMetered = remote.isMetered
      let (next, cause) = state.withLock { state -> (InodeNumber?, DownloadCause?) in
        // Whoever admits one goes on with the next one.
        guard !state.isAdmitting, state.background.hasRoom, state.backlogHolds == 0,
          !state.backlog.isEmpty
        else { return (nil, nil) }
        // What nobody asked for waits until bytes cost nothing.
        state.backlog.sort()
        let first =
          isMetered
          ? state.asked == 0
            ? nil : state.backlog.first { state.queued[$0]?.isAsked ?? false }
          : state.backlog.first { _ in true }
        guard let next = first else { return (nil, nil) }
        state.backlog.remove(next)
        state.isAdmitting = true
        state.background.begin()
        let cause = state.setQueued(next, nil)
        if !(cause?.isAsked ?? false) { state.unasked.insert(next) }
        return (next, cause)
      }
      guard let next else { return }
      let found = try? coordinator.catalog.inode(next)
      let size = found?.size ?? 0
      state.withLock { $0.background.grow(by: size) }
      let room = admit(found, cause)
      if room == .unknown {
        // It is in its place again before another one is looked at.
        putBack(next, cause)
        endedOne(next, size)
      }
      state.withLock { $0.isAdmitting = false }
      switch room {
      case .given: break
      case .unknown:
        // The end of that one begins the next ones, unless it came in between.
        if state.withLock({ !$0.eagerRoom.isEmpty }) { return }
        continue
      case .refused:
        endedOne(next, size)
        coordinator.tellStatus(next)
        continue
      }
      let wanted = 0..<size
      _ = fetch(next, range: wanted, cause: cause ?? DownloadCause(.other), isBackground: true) {
        result in
        switch result {
        case .failure(.offline), .failure(.unreachable): self.putBack(next, cause)
        case .failure: self.missBackground()
        case .success: break
        }
        self.endedOne(next, size)
        self.startBacklog()
      }
    }
  }

  /// Whether a download may begin. One at a time is admitted: with two, a file could take the last
  /// room while a file with a higher rank was still being looked at.
  private func admit(_ inode: Catalog.Inode?, _ cause: DownloadCause?) -> Room {
    guard let inode, inode.kind == .file, inode.content == .remote else { return .refused }
    // A content that its device has not sent yet is fetched when it has: no place is held for it.
    guard let version = try? coordinator.catalog.shownContent(of: inode.number),
      version.manifest != nil
    else {
      missBackground()
      return .refused
    }
    // Without room it would be evicted at once, or another file for it.
    return cause?.kind == .greedy ? reserve(inode) : .given
  }

  private enum Room {
    case given, refused
    /// While another one is under way, some of it counts twice: it is known when that has ended.
    case unknown
  }

  /// Whether an eager download has room. What of it is here already has its room.
  private func reserve(_ inode: Catalog.Inode) -> Room {
    let isBusy = state.withLock { !$0.eagerRoom.isEmpty }
    switch coordinator.reserveEagerly(inode.size) {
    case .unlimited: return .given
    case .full: return isBusy ? .unknown : .refused
    case .reserved(let room):
      state.withLock { $0.eagerRoom[inode.number] = room }
      return .given
    }
  }

  /// It could not even be asked for: it comes when the backend can be reached.
  private func putBack(_ number: InodeNumber, _ cause: DownloadCause?) {
    state.withLock { state in
      guard !state.isStopped, state.queued[number] == nil else { return }
      state.backlog.putBack(number)
      state.setQueued(number, cause ?? DownloadCause(.other))
    }
  }

  func missBackground() { state.withLock { $0.missedBackground = true } }

  /// Whether something of the backlog did not come since this was last asked.
  func takeMissedBackground() -> Bool {
    state.withLock { state in
      defer { state.missedBackground = false }
      return state.missedBackground
    }
  }

  private func endedOne(_ number: InodeNumber, _ size: UInt64) {
    // Its room is given back before it ceases to count as busy: else the next file would be refused
    // for room that is counted twice.
    state.withLock { $0.eagerRoom[number] }?.end()
    state.withLock { state in
      state.background.end(size)
      state.unasked.remove(number)
      state.eagerRoom[number] = nil
    }
  }

  // MARK: While bytes cost money

  /// Begins to hold back what nobody asked for, or goes on with it.
  func meteredChanged() {
    guard remote.isMetered else { return startBacklog() }
    let running = state.withLock { $0.unasked }
    // They count as missed, and are asked for again when bytes cost nothing.
    for number in running { cancelBackgroundFetches(of: number) }
  }
}
