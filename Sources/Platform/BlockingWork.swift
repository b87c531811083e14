internal import Dispatch

/// Where work that blocks on the disk or the processor is done: a task that blocked would hold a thread
/// of which there are as few as processors.
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
