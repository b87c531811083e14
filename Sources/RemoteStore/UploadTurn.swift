internal import Backend
internal import Platform

/// Whether packs of an uploader may begin to be stored, and whether a caller waits for them.
///
/// While the turn is closed no pack begins. A pack whose bytes are being sent is sent to its end. A
/// pack that still waits for bandwidth or for a place gives that up, and tries again when the turn
/// opens. The same happens when the priority changes, so that each wait has the priority of now.
///
/// Any thread. The lock is held across no wait, but may be taken with the upload queue's lock held.
package final class UploadTurn: Sendable {
  private struct Attempt {
    let start: TransferStart
    let cancel: @Sendable () -> Void
  }

  private struct State {
    var isOpen = true
    var isAwaited: Bool
    var waiting: [UInt64: CheckedContinuation<Void, Never>] = [:]
    var attempts: [UInt64: Attempt] = [:]
    var nextID: UInt64 = 0
  }

  private let state: Lock<State>

  /// Until it is set, the turn has the priority of the task.
  package init() { state = Lock(State(isAwaited: Transfers.isAwaited)) }

  package func set(open isOpen: Bool, awaited isAwaited: Bool) {
    let (waiting, attempts) = state.withLock { state in
      let isSame = state.isAwaited == isAwaited && (isOpen || !state.isOpen)
      state.isOpen = isOpen
      state.isAwaited = isAwaited
      defer { if isOpen { state.waiting = [:] } }
      return (isOpen ? Array(state.waiting.values) : [], isSame ? [] : Array(state.attempts.values))
    }
    for attempt in attempts where attempt.start.giveUp() { attempt.cancel() }
    for waiter in waiting { waiter.resume() }
  }

  /// Runs a transfer when the turn is open. A transfer that gave up its wait is run again.
  func run<Value: Sendable>(
    _ body: @escaping @Sendable () async -> Result<Value, RemoteError>
  ) async -> Result<Value, RemoteError> {
    while true {
      await waitUntilOpen()
      guard !Task.isCancelled else { return .failure(.cancelled) }
      let start = TransferStart()
      let (id, task) = begin(start, body)
      let result = await withTaskCancellationHandler {
        await task.value
      } onCancel: {
        task.cancel()
      }
      state.withLock { $0.attempts[id] = nil }
      guard case .failure(.cancelled) = result, start.isGivenUp, !Task.isCancelled else {
        return result
      }
    }
  }

  /// The attempt is noted in the same step in which the priority is read: a change either is seen
  /// here or finds the attempt.
  private func begin<Value: Sendable>(
    _ start: TransferStart, _ body: @escaping @Sendable () async -> Result<Value, RemoteError>
  ) -> (UInt64, Task<Result<Value, RemoteError>, Never>) {
    state.withLock { state in
      state.nextID += 1
      let isAwaited = state.isAwaited
      let task = Transfers.$isAwaited.withValue(isAwaited) {
        Transfers.$start.withValue(start) { Task { await body() } }
      }
      state.attempts[state.nextID] = Attempt(start: start) { task.cancel() }
      // The turn closed since the wait for it ended.
      if !state.isOpen, start.giveUp() { task.cancel() }
      return (state.nextID, task)
    }
  }

  /// Returns at once in a cancelled task.
  private func waitUntilOpen() async {
    let id = state.withLock { state in
      state.nextID += 1
      return state.nextID
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let mayGo = state.withLock { state in
          if state.isOpen || Task.isCancelled { return true }
          state.waiting[id] = continuation
          return false
        }
        if mayGo { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
    }
  }
}
