internal import Model
internal import Synchronization

/// What a party hears of its presenters. Called one after the other, with no lock held; must not
/// block.
package protocol PresenterListening: Sendable {
  /// To be answered by `ClaimTable.answer`.
  func asked(_ question: Question)
  func reacquired(_ presenter: PresenterID)
  /// It did not answer in time, and was passed over.
  func passedOver(_ question: Question)
  /// It need not be answered: the claim was given up.
  func withdrawn(_ question: Question)
  /// What happened to the presented items of the party, in order.
  func told(_ news: [PresenterNews])
}

/// Who presents what, and what presenters answer.
extension ClaimTable {
  package func present(_ path: ClaimPath, by party: PartyID) -> PresenterID {
    state.withLock { state in
      let id = PresenterID(state.next())
      state.queue.addPresenter(id, of: party, at: path)
      newest.store(id.rawValue, ordering: .sequentiallyConsistent)
      return id
    }
  }

  /// Whose presenter it is, as long as there is one.
  package func owner(of id: PresenterID) -> PartyID? {
    state.withLock { $0.queue.presenters[id]?.party }
  }

  package func removePresenter(_ id: PresenterID) {
    change { $0.queue.removePresenter(id) }
  }

  package func answer(_ question: Question) {
    change { $0.queue.answered(question) }
  }

  /// A presenter could not do what it was asked: the claim is not given, and those that let go for
  /// it take up again.
  package func refuse(_ question: Question, because reason: String) {
    change { state in
      guard state.queue.questions.contains(question),
        let claimant = state.queue.claims[question.claim]?.claimant
      else { return [] }
      if state.parties[claimant.party]?.insists == true { return state.queue.answered(question) }
      let party = state.queue.presenters[question.presenter].flatMap { state.parties[$0.party] }
      if let completion = state.completions.removeValue(forKey: question.claim) {
        let failure = ClaimFailure.refused(by: party?.name ?? "a presenter", reason)
        state.pending.append { completion(question.claim, .failure(failure)) }
      }
      return state.queue.release(question.claim)
    }
  }
}
