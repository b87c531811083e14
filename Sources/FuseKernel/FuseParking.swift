internal import CFuse3
internal import Glibc
internal import Platform

/// A reply that waits for something: taken once, by whoever comes first - what it waited for, an
/// interrupt, or the end of the session.
///
/// Lock order: libfuse holds the request's own lock while it calls the interrupt callback, so that
/// callback only hands over to the interrupt thread, and nothing replies under it.
package class FuseParkedRequest: @unchecked Sendable {
  private struct State: @unchecked Sendable {
    var request: OpaquePointer?
    var isInterrupted = false
    var answer = EINTR
    var cancel: (@Sendable () -> Void)?
  }

  private let state: Lock<State>
  private unowned let lot: FuseParkingLot

  init(_ request: OpaquePointer, _ lot: FuseParkingLot) {
    state = Lock(State(request: request))
    self.lot = lot
    let isTooLate = !lot.add(self)
    // Balanced in `claim`: libfuse holds this pointer until then.
    let pointer = Unmanaged.passRetained(self).toOpaque()
    fuse_req_interrupt_func(
      request,
      { _, data in
        guard let data else { return }
        let parked = Unmanaged<FuseParkedRequest>.fromOpaque(data).takeUnretainedValue()
        parked.lot.interrupted(parked)
      }, pointer)
    if isTooLate { interrupt() }
  }

  /// Says what to do when the program that asked gives up; called at once if it did already.
  package func onInterrupt(_ cancel: @escaping @Sendable () -> Void) {
    let isTooLate = state.withLock { state in
      if state.request != nil { state.cancel = cancel }
      return state.isInterrupted
    }
    if isTooLate { cancel() }
  }

  /// Who gives up is told that it is done: of what has happened already and is only waited for.
  package func succeedWhenInterrupted() { state.withLock { $0.answer = 0 } }

  /// The request, for the first who asks; `body` answers it.
  func claim(_ body: (OpaquePointer) -> Void) -> Bool {
    // It is another daemon's to answer.
    if lot.isFrozen { return false }
    let request = state.withLock { state in
      state.cancel = nil
      return state.request.take()
    }
    guard let request else { return false }
    // Waits for a callback that runs; after it none can, so the reference can go.
    fuse_req_interrupt_func(request, nil, nil)
    Unmanaged.passUnretained(self).release()
    body(request)
    lot.remove(self)
    return true
  }

  /// On the interrupt thread, or at the end of the session.
  func interrupt() {
    let (cancel, answer) = state.withLock { state in
      state.isInterrupted = true
      return (state.cancel, state.answer)
    }
    if claim({ fuse_reply_err($0, answer) }) { cancel?() }
  }
}

package final class FuseParked<Answer>: FuseParkedRequest, @unchecked Sendable {
  /// Gives the reply back, unless it was interrupted: then false, and `body` is not called.
  @discardableResult
  package func resume(_ body: (consuming FuseReply<Answer>) -> Void) -> Bool {
    claim { body(FuseReply($0)) }
  }
}

extension FuseReply {
  /// Puts the reply aside so that the thread can go on. The reply is given through what this
  /// returns, or is EINTR when the program that asked is interrupted or killed.
  package consuming func park() -> FuseParked<Answer> {
    let request = take()
    return FuseParked(request, FuseContext.of(request).lot)
  }
}

/// The parked requests of a session, and the thread that interrupts them.
final class FuseParkingLot: @unchecked Sendable {
  private struct State {
    var parked: [ObjectIdentifier: FuseParkedRequest] = [:]
    var isDraining = false
    var isFrozen = false
  }

  private let state = Lock(State())
  private let interrupts = WorkQueue()
  private let isEmpty = Gate(open: true)

  /// Gives false when the session is ending: the caller interrupts the request at once.
  func add(_ request: FuseParkedRequest) -> Bool {
    state.withLock {
      $0.parked[ObjectIdentifier(request)] = request
      isEmpty.close()
      return !$0.isDraining
    }
  }

  func remove(_ request: FuseParkedRequest) {
    state.withLock {
      $0.parked[ObjectIdentifier(request)] = nil
      if $0.parked.isEmpty { isEmpty.open() }
    }
  }

  /// Whether a write waits for its file's content.
  var hasWrites: Bool {
    state.withLock { $0.parked.values.contains { $0 is FuseParked<WriteAnswer> } }
  }

  var isFrozen: Bool { state.withLock { $0.isFrozen } }

  /// None of them is answered any more: the kernel will ask another daemon.
  func freeze() { state.withLock { $0.isFrozen = true } }

  func interrupted(_ request: FuseParkedRequest) {
    interrupts.add { request.interrupt() }
  }

  /// Answers all that wait with EINTR, and from now on whatever is put aside too.
  func beginDraining() {
    let all = state.withLock { state in
      state.isDraining = true
      return Array(state.parked.values)
    }
    for request in all { request.interrupt() }
  }

  /// `beginDraining`, and returns when all are answered. After the loop's end: nothing comes that
  /// could be put aside but by resumed replies.
  func drain() {
    beginDraining()
    isEmpty.wait()
    interrupts.stop()
  }
}
