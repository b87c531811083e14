internal import Platform

/// Presenters that do not answer.
extension ClaimTable {
  func watch(_ state: inout State) {
    guard !state.isWatching else { return }
    state.isWatching = true
    Task.detached { [weak self] in
      while let wait = self?.timeToNextDeadline() { try? await Task.sleep(for: wait) }
    }
  }

  /// Gives up what is overdue. Nil when there is nothing to watch any more.
  private func timeToNextDeadline() -> Duration? {
    let now = monotonicNanoseconds()
    var wait: Duration?
    change { state in
      var effects: [ClaimEffect] = []
      var kept: [(time: UInt64, question: Question)] = []
      for deadline in state.deadlines {
        let question = deadline.question
        let listener = listener(of: question.presenter, state)
        if !state.queue.questions.contains(question) {
          state.pending.append { listener?.withdrawn(question) }
        } else if deadline.time > now {
          kept.append(deadline)
        } else {
          state.pending.append { listener?.passedOver(question) }
          effects += state.queue.answered(question)
        }
      }
      state.deadlines = kept
      state.isWatching = !kept.isEmpty
      wait = kept.first.map { .nanoseconds(Int64($0.time - now)) }
      return effects
    }
    return wait
  }
}

extension Duration {
  var nanoseconds: UInt64 {
    let (seconds, attoseconds) = components
    return UInt64(max(0, seconds)) * 1_000_000_000 + UInt64(max(0, attoseconds)) / 1_000_000_000
  }
}
