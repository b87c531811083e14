internal import Platform
internal import SystemPackage

/// The lines that are to go to a client, in order. Any thread puts them in, and never blocks; one
/// thread sends them.
final class Outbox: Sendable {
  private struct Waiter {
    let line: [UInt8]
    let continuation: CheckedContinuation<Void, any Error>
  }

  private struct State {
    var lines: [ArraySlice<UInt8>] = []
    /// Bytes of `lines`.
    var size = 0
    /// Those that found it full, first come first.
    var waiters: [Waiter] = []
    var isClosed = false

    var hasRoom: Bool { size < Outbox.capacity }

    mutating func append(_ line: [UInt8]) {
      guard !line.isEmpty, !isClosed else { return }
      lines.append(line[...])
      size += line.count
    }
  }

  /// It takes a line while it holds less than this.
  private static let capacity = 1 << 18

  /// A leaf.
  private let state = Lock(State())

  /// Takes a line whether there is room or not.
  func append(_ line: [UInt8]) { state.withLock { $0.append(line) } }

  var hasRoom: Bool { state.withLock { $0.hasRoom && !$0.isClosed } }

  /// Takes a line if there is room; false if there is none.
  func offer(_ line: [UInt8]) -> Bool {
    state.withLock { state in
      guard state.hasRoom, state.waiters.isEmpty, !state.isClosed else { return false }
      state.append(line)
      return true
    }
  }

  /// Suspends until there is room, for as long as that takes. Throws when the task is cancelled or
  /// the client is gone.
  func post(_ line: [UInt8]) async throws {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation {
        (continuation: CheckedContinuation<Void, any Error>) in
        state.withLock { state in
          // A cancellation from here on finds the waiter: it has to wait for this lock.
          if state.isClosed || Task.isCancelled {
            continuation.resume(throwing: CancellationError())
          } else if state.hasRoom && state.waiters.isEmpty {
            state.append(line)
            continuation.resume()
          } else {
            state.waiters.append(Waiter(line: line, continuation: continuation))
          }
        }
      }
    } onCancel: {
      // The lines of a connection come from one task at a time: no other's waiters are here.
      dismissWaiters()
    }
  }

  /// Sends what `socket` has room for. False if something is left. For one thread.
  func drain(to socket: OpenFile) -> Bool {
    while let line = state.withLock({ $0.lines.first }) {
      do throws(Errno) {
        guard let count = try UnixSocket.sendAvailable(line, to: socket) else { return false }
        sent(count)
      } catch {
        UnixSocket.shutdown(socket)
        close()
      }
    }
    return true
  }

  private func sent(_ count: Int) {
    state.withLock { state in
      state.size -= count
      state.lines[0] = state.lines[0].dropFirst(count)
      if state.lines[0].isEmpty { state.lines.removeFirst() }
      while state.hasRoom, !state.waiters.isEmpty {
        let waiter = state.waiters.removeFirst()
        state.append(waiter.line)
        waiter.continuation.resume()
      }
    }
  }

  /// Nothing can be sent any more.
  private func close() {
    state.withLock { state in
      state.isClosed = true
      state.lines = []
      state.size = 0
    }
    dismissWaiters()
  }

  private func dismissWaiters() {
    let waiters = state.withLock { state in
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.continuation.resume(throwing: CancellationError()) }
  }
}
