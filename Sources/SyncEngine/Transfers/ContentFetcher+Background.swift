package import Catalog
package import Coordination
internal import Model
internal import Platform

/// Downloads that nobody waits for: a few at a time, so that a directory of thousands of files
/// neither opens thousands of files at once nor is in a reader's way.
extension ContentFetcher {
  package func fetchInBackground(_ number: InodeNumber, cause: DownloadCause) {
    state.withLock { state in
      if cause.isAsked { state.unasked.remove(number) }
      guard !state.isStopped, state.jobs[number] == nil else { return }
      let known = state.queued[number]
      if known == nil { state.backlog.append(number) }
      // What somebody asked for stays asked for.
      if !(known?.isAsked ?? false) { state.setQueued(number, cause) }
    }
    coordinator.tellStatus(number)
    Task { self.startBacklog() }
  }

  /// Begins with the next ones, if there is room for them. While nothing can come they stay where they are.
  func startBacklog() {
    while remote.isReachable {
      // Outside the lock: who finds out that it changed comes here.
      let isMetered = remote.isMetered
      let (next, cause) = state.withLock { state -> (InodeNumber?, DownloadCause?) in
        guard state.backgroundFetches < Self.backgroundLimit, !state.backlog.isEmpty else {
          return (nil, nil)
        }
        // What nobody asked for waits until bytes cost nothing.
        let place =
          isMetered
          ? state.asked == 0
            ? nil : state.backlog.firstIndex { state.queued[$0]?.isAsked ?? false }
          : state.backlog.startIndex
        guard let place else { return (nil, nil) }
        state.backgroundFetches += 1
        let next = state.backlog.remove(at: place)
        let cause = state.setQueued(next, nil)
        if !(cause?.isAsked ?? false) { state.unasked.insert(next) }
        return (next, cause)
      }
      guard let next else { return }
      guard let inode = try? coordinator.catalog.inode(next), inode.kind == .file,
        inode.content == .remote
      else {
        endedOne(next)
        coordinator.tellStatus(next)
        continue
      }
      // What its device has not sent yet is fetched when it has: a place is not held for it.
      guard let version = try? coordinator.catalog.shownContent(of: next), version.manifest != nil
      else {
        missBackground()
        endedOne(next)
        coordinator.tellStatus(next)
        continue
      }
      let wanted = 0..<inode.size
      _ = fetch(next, range: wanted, cause: cause ?? DownloadCause(.other), isBackground: true) {
        result in
        switch result {
        case .failure(.offline), .failure(.unreachable): self.putBack(next, cause)
        case .failure: self.missBackground()
        case .success: break
        }
        self.endedOne(next)
        self.startBacklog()
      }
    }
  }

  /// It could not even be asked for: it comes when the backend can be reached.
  private func putBack(_ number: InodeNumber, _ cause: DownloadCause?) {
    state.withLock { state in
      guard !state.isStopped, state.queued[number] == nil else { return }
      state.backlog.insert(number, at: 0)
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

  private func endedOne(_ number: InodeNumber) {
    state.withLock { state in
      state.backgroundFetches -= 1
      state.unasked.remove(number)
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
