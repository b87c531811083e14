internal import CCurl
internal import Platform

/// The thread that runs all transfers of a client.
///
/// Tasks hand over transfers in `state`; everything else belongs to the thread, which holds no
/// reference to the client. The thread frees libcurl's handle after it has seen `isEnding`, so
/// `wake` is only called with the lock held and before that.
final class TransferLoop: Sendable {
  typealias Ending = @Sendable (Result<HTTPResponse, HTTPFailure>) -> Void

  private struct State {
    var added: [(transfer: HTTPTransfer, end: Ending)] = []
    /// Nil before the first transfer, and after the end.
    var multi: UnsafeMutableRawPointer?
    var isEnding = false
  }

  private let configuration: HTTPClient.Configuration
  private let state = Lock(State())

  init(_ configuration: HTTPClient.Configuration) { self.configuration = configuration }

  /// `end` is called once, on the thread, and must not block.
  func add(_ transfer: HTTPTransfer, end: @escaping Ending) {
    if let reason = ccurl_load() {
      end(
        .failure(
          .impossible("libcurl cannot be loaded (\(String(cString: reason))); install libcurl4")))
      return
    }
    let isStarted = state.withLock { state in
      if state.multi == nil {
        state.multi = ccurl_multi_new(configuration.connections)
        guard let multi = state.multi else { return false }
        let thread = TransferThread(multi, configuration)
        _ = startThread { [self] in run(thread) }
      }
      state.added.append((transfer, end))
      ccurl_wake(state.multi)
      return true
    }
    if !isStarted { end(.failure(.impossible("libcurl is out of memory"))) }
  }

  /// The thread looks at all transfers' marks whenever it wakes.
  func cancel(_ transfer: HTTPTransfer) {
    transfer.isCancelled.store(true, ordering: .relaxed)
    state.withLock { if let multi = $0.multi { ccurl_wake(multi) } }
  }

  /// Transfers that are still running end with `.cancelled`.
  func stop() {
    state.withLock { state in
      state.isEnding = true
      if let multi = state.multi { ccurl_wake(multi) }
    }
  }

  private func run(_ thread: TransferThread) {
    while true {
      let (added, isEnding) = state.withLock { state in
        defer { state.added = [] }
        if state.isEnding { state.multi = nil }
        return (state.added, state.isEnding)
      }
      for (transfer, end) in added { thread.add(transfer, end) }
      if isEnding {
        thread.end()
        return
      }
      thread.step()
    }
  }
}
