/// Asks nothing of a backend that is known to be away: calls fail at once with `.unreachable`,
/// until it is found to be back. Stands above the retries.
package final class ReachableStore: PassingStore {
  package let store: any ObjectStore
  package let reachability: Reachability
  private let sleep: @Sendable (Duration) async throws -> Void

  /// `sleep` is for tests.
  package init(
    _ store: any ObjectStore, _ reachability: Reachability,
    sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
  ) {
    self.store = store
    self.reachability = reachability
    self.sleep = sleep
  }

  package func pass<Answer: Sendable>(
    _ call: StoreCall, received: @Sendable (Answer) -> Int,
    _ body: @Sendable (any ObjectStore) async throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    if let outage = reachability.outage {
      throw .unreachable(outage.reason)
    }
    let start = reachability.now
    do throws(StoreError) {
      let answer = try await body(store)
      reachability.answered()
      return answer
    } catch {
      switch error {
      case .busy(_, let asked):
        reachability.leaveAlone(asked)
        await reachability.failed(since: start)
      case .unavailable: await reachability.failed(since: start)
      case .notFound, .notPermitted, .noSpace: reachability.answered()
      case .offline, .unreachable, .invalid, .cancelled: break
      }
      throw error
    }
  }

  /// Also told when the backend is back. News of a store that is away say that it may be back.
  package func news(prefix: String) -> AsyncStream<Void> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    let back = reachability.hub.listen()
    let (store, reachability, sleep) = (store, reachability, sleep)
    let first = store.news(prefix: prefix)
    let tasks = [
      Task {
        var pause = Duration.seconds(1)
        var news = first
        while true {
          for await _ in news {
            pause = .seconds(1)
            if reachability.isReachable { continuation.yield() } else { reachability.hint() }
          }
          // It could not be opened, or it is another one now.
          guard !Task.isCancelled, (try? await sleep(pause)) != nil else { return }
          pause = min(pause * 2, .seconds(30))
          news = store.news(prefix: prefix)
        }
      },
      Task { for await _ in back { continuation.yield() } },
    ]
    continuation.onTermination = { _ in for task in tasks { task.cancel() } }
    return stream
  }
}
