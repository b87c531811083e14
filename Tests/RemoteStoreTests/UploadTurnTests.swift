import Backend
import Platform
import TestWaiting
import Testing

@testable import RemoteStore

/// The turn of an uploader's packs.
@Suite struct UploadTurnTests {
  /// A transfer that waits for its place, or sends bytes, until it may end.
  private final class Transfer: Sendable {
    struct State {
      var attempts: [Bool] = []
      var isSending = false
      var mayBegin = false
      var mayEnd = false
    }
    let state = Lock(State())

    func run() async -> Result<Int, RemoteError> {
      state.withLock { $0.attempts.append(Transfers.isAwaited) }
      do {
        try await eventually("the transfer may begin") { state.withLock { $0.mayBegin } }
        guard Transfers.start?.begin() ?? true else { return .failure(.cancelled) }
        state.withLock { $0.isSending = true }
        try await eventually("the transfer may end") { state.withLock { $0.mayEnd } }
        return .success(7)
      } catch is CancellationError {
        return .failure(.cancelled)
      } catch {
        return .failure(.store(.unavailable("\(error)")))
      }
    }

    var attempts: [Bool] { state.withLock { $0.attempts } }
    var isSending: Bool { state.withLock { $0.isSending } }
    func letBegin() { state.withLock { $0.mayBegin = true } }
    func letEnd() { state.withLock { $0.mayEnd = true } }
  }

  @Test("a transfer whose bytes are on their way ends though its turn closes")
  func whatHasBegunEnds() async throws {
    let (turn, transfer) = (UploadTurn(), Transfer())
    let task = Task { await turn.run { await transfer.run() } }
    transfer.letBegin()
    try await eventually("it sends") { transfer.isSending }
    turn.set(open: false, awaited: false)
    transfer.letEnd()
    #expect(await task.value == .success(7))
    #expect(transfer.attempts == [false])
  }

  @Test("a transfer that waits for its place gives it up when its turn closes, and tries again")
  func whatWaitsGivesUp() async throws {
    let (turn, transfer) = (UploadTurn(), Transfer())
    let task = Task { await turn.run { await transfer.run() } }
    try await eventually("it waits") { transfer.attempts.count == 1 }
    turn.set(open: false, awaited: false)
    turn.set(open: true, awaited: true)
    try await eventually("it waits again, with the new priority") {
      transfer.attempts == [false, true]
    }
    transfer.letBegin()
    transfer.letEnd()
    #expect(await task.value == .success(7))
  }

  @Test("a transfer whose turn is closed begins when the turn opens")
  func whatIsClosedWaits() async throws {
    let (turn, transfer) = (UploadTurn(), Transfer())
    turn.set(open: false, awaited: false)
    transfer.letBegin()
    transfer.letEnd()
    let task = Task { await turn.run { await transfer.run() } }
    let other = UploadTurn()
    let passed = await other.run { () -> Result<Int, RemoteError> in .success(1) }
    #expect(passed == .success(1))
    #expect(transfer.attempts.isEmpty)
    turn.set(open: true, awaited: false)
    #expect(await task.value == .success(7))
  }

  @Test("a cancelled transfer ends at once though its turn is closed")
  func whatIsCancelledEnds() async throws {
    let turn = UploadTurn()
    turn.set(open: false, awaited: false)
    let task = Task { await turn.run { () -> Result<Int, RemoteError> in .success(1) } }
    task.cancel()
    #expect(await task.value == .failure(.cancelled))
  }
}
