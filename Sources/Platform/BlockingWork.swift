internal import Dispatch

/// Where work that blocks on the disk or the processor is done: a task that blocked would hold a
/// thread of which there are as few as processors.
package enum BlockingWork {
  private static let queue = DispatchQueue(
    label: "ubiquityfs.work", qos: .utility, attributes: .concurrent)

  package static func run<Answer: Sendable, Failure: Error>(
    _ body: @escaping @Sendable () throws(Failure) -> Answer
  ) async throws(Failure) -> Answer {
    let result: Result<Answer, Failure> = await withCheckedContinuation { continuation in
      queue.async {
        let result: Result<Answer, Failure>
        do throws(Failure) {
          result = .success(try body())
        } catch {
          result = .failure(error)
        }
        continuation.resume(returning: result)
      }
    }
    return try result.get()
  }
}

/// `body` of 0..<count, on all processors. Blocks: not for a task's thread.
package func concurrently<Answer>(_ count: Int, _ body: @Sendable (Int) -> Answer) -> [Answer] {
  [Answer](unsafeUninitializedCapacity: count) { buffer, filled in
    if let start = buffer.baseAddress {
      // Each call initialises an element of its own.
      nonisolated(unsafe) let start = start
      DispatchQueue.concurrentPerform(iterations: count) { index in
        (start + index).initialize(to: body(index))
      }
    }
    filled = count
  }
}

/// Runs what it is given on a few threads of its own, for what waits for the disk. Of two works the
/// one that was added first begins first. `add` never waits.
package final class BlockingQueue: Sendable {
  private struct State {
    var work: [@Sendable () -> Void] = []
    var idle: [DispatchQueue]
  }

  private let state: Lock<State>

  /// A serial queue has a thread whatever the others wait for. A concurrent one has as many threads
  /// as there are processors.
  package init(threads: Int) {
    state = Lock(
      State(idle: (0..<threads).map { DispatchQueue(label: "ubiquityfs.blocking-\($0)") }))
  }

  package func add(_ work: @escaping @Sendable () -> Void) {
    let queue = state.withLock { state in
      state.work.append(work)
      return state.idle.popLast()
    }
    guard let queue else { return }
    queue.async { self.run(queue) }
  }

  /// `body` of 0..<count, as many at a time as there are threads.
  package func all<Answer: Sendable>(
    _ count: Int, _ body: @escaping @Sendable (Int) -> Answer
  ) async -> [Answer] {
    guard count > 0 else { return [] }
    let state = Lock((answers: [Answer?](repeating: nil, count: count), left: count))
    await withCheckedContinuation { continuation in
      for index in 0..<count {
        add {
          let answer = body(index)
          let isLast = state.withLock { state in
            state.answers[index] = answer
            state.left -= 1
            return state.left == 0
          }
          if isLast { continuation.resume() }
        }
      }
    }
    return state.withLock { $0.answers.compactMap(\.self) }
  }

  private func run(_ queue: DispatchQueue) {
    while let next = next(queue) { next() }
  }

  private func next(_ queue: DispatchQueue) -> (@Sendable () -> Void)? {
    state.withLock { state in
      guard !state.work.isEmpty else {
        state.idle.append(queue)
        return nil
      }
      return state.work.removeFirst()
    }
  }
}
