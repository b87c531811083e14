internal import Dispatch
internal import Platform

/// Runs calls that block on a few threads of their own: a disk that takes its time must not hold up
/// the tasks of the whole process.
final class BlockingPool: Sendable {
  private struct State {
    var running = 0
    var waiting: [@Sendable () -> Void] = []
  }

  private let width: Int
  private let state = Lock(State())
  private let queue = DispatchQueue(label: "ubiquityfs.backend.directory", attributes: .concurrent)

  init(width: Int) { self.width = width }

  func run<Answer: Sendable, Failure: Error>(
    _ body: @escaping @Sendable () throws(Failure) -> Answer
  ) async throws(Failure) -> Answer {
    let result: Result<Answer, Failure> = await withCheckedContinuation { continuation in
      start {
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

  private func start(_ job: @escaping @Sendable () -> Void) {
    let isFree = state.withLock { state in
      guard state.running < width else {
        state.waiting.append(job)
        return false
      }
      state.running += 1
      return true
    }
    guard isFree else { return }
    queue.async { self.work(job) }
  }

  private func work(_ first: @escaping @Sendable () -> Void) {
    var job: (@Sendable () -> Void)? = first
    while let current = job {
      current()
      job = state.withLock { state in
        guard !state.waiting.isEmpty else {
          state.running -= 1
          return nil
        }
        return state.waiting.removeFirst()
      }
    }
  }
}
