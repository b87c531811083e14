import Coordination
import Platform
import TestWaiting
import Testing

/// Waits for the kernel to hear of something, while it may itself wait for us.
@Suite struct KernelWaitsTests {
  private typealias Heard = @Sendable () -> Void

  /// Longer than any test waits.
  private static let hour = Duration.seconds(3600)

  @Test func aWaitEndsWhenTheKernelHasHeard() async throws {
    let waits = KernelWaits()
    let heard = Lock<Heard?>(nil)
    let hasEnded = Lock(false)
    let waiting = Task {
      await waits.wait(limit: Self.hour) { body in heard.withLock { $0 = body } }
      hasEnded.withLock { $0 = true }
    }
    try await eventually("the wait begins") { heard.withLock { $0 != nil } }
    #expect(!hasEnded.withLock { $0 })
    heard.withLock { $0.take() }?()
    await waiting.value
    #expect(hasEnded.withLock { $0 })
  }

  @Test func theKernelMayHearAtOnce() async {
    await KernelWaits().wait(limit: Self.hour) { heard in heard() }
  }

  @Test("after a wait that was given up none begins until the kernel has caught up")
  func oneLimitInAll() async throws {
    let waits = KernelWaits()
    let heard = Lock<[Heard]>([])
    // Given up.
    await waits.wait(limit: .milliseconds(10)) { body in heard.withLock { $0.append(body) } }
    // None of these waits, for that would be for an hour.
    for _ in 0..<3 {
      await waits.wait(limit: Self.hour) { body in heard.withLock { $0.append(body) } }
    }
    for body in heard.withLock({ $0 }) { body() }
    // From here on the kernel is waited for again.
    let last = Lock<Heard?>(nil)
    let waiting = Task {
      await waits.wait(limit: Self.hour) { body in last.withLock { $0 = body } }
      return last.withLock { $0 == nil }
    }
    try await eventually("the last wait begins") { last.withLock { $0 != nil } }
    last.withLock { $0.take() }?()
    #expect(await waiting.value)
  }
}
