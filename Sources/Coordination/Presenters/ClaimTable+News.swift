internal import Catalog
internal import Platform
internal import Synchronization

/// Telling presenters what has happened.
extension ClaimTable {
  /// Whether anybody presents anything.
  package var isPresenting: Bool { newest.load(ordering: .sequentiallyConsistent) > 0 }

  /// What is told of something that happens now is for presenters up to this one.
  var newestPresenter: UInt64 { newest.load(ordering: .sequentiallyConsistent) }

  /// After what was told to them before, requests included. `newest` and `speakers` are as when it
  /// happened.
  func tell(
    upTo newest: UInt64, except speakers: Set<PresenterID>,
    _ body: (ClaimQueue) -> [PresenterNews]
  ) {
    change { state in
      var lists: [PartyID: [PresenterNews]] = [:]
      for news in body(state.queue)
      where news.presenter.rawValue <= newest && !speakers.contains(news.presenter) {
        guard let party = state.queue.presenters[news.presenter]?.party else { continue }
        lists[party, default: []].append(news)
      }
      for (party, list) in lists {
        guard let listener = state.parties[party]?.listener else { continue }
        state.pending.append { listener.told(list) }
      }
      return []
    }
  }

  /// Where the presenter's item is now.
  package func path(of presenter: PresenterID) -> ClaimPath? {
    state.withLock { $0.queue.presenters[presenter]?.path }
  }

  /// Those of the places at or below which somebody claims or presents something.
  func concerned(_ places: [Place]) -> Set<Place> {
    state.withLock { state in Set(places.filter { state.queue.concerns($0) }) }
  }

  // MARK: Who speaks for a presenter

  /// Whether a claim is held or waits whose claimant speaks for a presenter, or was just released.
  var isSpeaking: Bool { speaking.load(ordering: .sequentiallyConsistent) }

  /// The presenters for which somebody writes to what is at the path: they know what changes there.
  func speakers(at path: ClaimPath) -> Set<PresenterID> {
    state.withLock { state in
      var result: Set<PresenterID> = []
      for id in state.speaking {
        guard let claim = state.queue.claims[id], claim.state == .held,
          let presenter = claim.presenter,
          claim.accesses.contains(where: { $0.mode.isWriting && $0.path.covers(path) })
        else { continue }
        result.insert(presenter)
      }
      return result
    }
  }

  /// The presenter that the claim's holder speaks for, and what it writes to.
  func speech(_ id: ClaimID) -> (presenter: PresenterID, paths: [ClaimPath])? {
    state.withLock { state in
      guard let claim = state.queue.claims[id], claim.state == .held,
        let presenter = claim.presenter
      else { return nil }
      return (presenter, claim.accesses.filter(\.mode.isWriting).map(\.path))
    }
  }

  /// The file is open for writing while a claim ends that it was written under: the kernel tells of
  /// a close after close(2) has returned. Its change, when it comes, is still one of that claim.
  func outlasts(_ file: WrittenFile, _ presenter: PresenterID) {
    change { state in
      state.outlasting[file, default: []].insert(presenter)
      return []
    }
  }

  func speakers(of file: WrittenFile) -> Set<PresenterID> {
    state.withLock { $0.outlasting[file] ?? [] }
  }

  func settled(_ file: WrittenFile) {
    change { state in
      state.outlasting[file] = nil
      return []
    }
  }
}
