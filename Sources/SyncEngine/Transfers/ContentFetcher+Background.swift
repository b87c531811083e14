package import Catalog
internal import Coordination
internal import Model
internal import Platform

/// Downloads that nobody waits for: a few at a time, so that a directory of thousands of files
/// neither opens thousands of files at once nor is in a reader's way.
extension ContentFetcher {
  package func fetchInBackground(_ number: InodeNumber) {
    state.withLock { state in
      guard !state.isStopped, state.jobs[number] == nil else { return }
      state.backlog.append(number)
      state.queued.insert(number)
    }
    coordinator.tellStatus(number)
    Task { self.startBacklog() }
  }

  private func startBacklog() {
    while true {
      let next = state.withLock { state -> InodeNumber? in
        guard state.backgroundFetches < Self.backgroundLimit, !state.backlog.isEmpty else {
          return nil
        }
        state.backgroundFetches += 1
        let next = state.backlog.removeFirst()
        state.queued.remove(next)
        return next
      }
      guard let next else { return }
      guard let inode = try? coordinator.catalog.inode(next), inode.kind == .file,
        inode.content == .remote
      else {
        endedOne()
        coordinator.tellStatus(next)
        continue
      }
      // What its device has not sent yet is fetched when it has: a place is not held for it.
      guard let version = try? coordinator.catalog.shownContent(of: next), version.manifest != nil
      else {
        missBackground()
        endedOne()
        coordinator.tellStatus(next)
        continue
      }
      _ = fetch(next, range: 0..<inode.size, isBackground: true) { result in
        if case .failure = result { self.missBackground() }
        self.endedOne()
        self.startBacklog()
      }
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

  private func endedOne() { state.withLock { $0.backgroundFetches -= 1 } }
}
