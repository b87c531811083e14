package import ControlProtocol
internal import Dispatch
package import Platform
package import SystemPackage

/// One client. Its thread alone reads from it and writes to it; what other threads have to say they
/// leave in the outbox and wake it, so that a client that does not read keeps nobody but its own
/// thread.
package final class ClientConnection: Sendable {
  let socket: OpenFile
  private let buffer = Lock(LineBuffer())
  private let outbox = Outbox()
  /// What there is to say when the client has read what is in the outbox.
  private let source = Lock<(any LineSource)?>(nil)
  /// There is something in the outbox, or what the thread waits for is done.
  private let wake: Wakeup
  private struct Endings {
    var isOver = false
    var actions: [@Sendable () -> Void] = []
  }
  private let endings = Lock(Endings())
  /// Since when the thread waits for the next request; nil while it answers one.
  private let waiting = Lock<UInt64?>(monotonicNanoseconds())

  package init(_ socket: OpenFile) throws(Errno) {
    self.socket = socket
    wake = try Wakeup()
  }

  package var isClosed: Bool { UnixSocket.isClosedByPeer(socket) }

  package func shutdown() { UnixSocket.shutdown(socket) }

  /// Who is at the other end, as the kernel has it from the moment of the connection.
  package var peer: UnixSocket.Peer? { try? UnixSocket.peer(of: socket) }

  /// Since when the client has asked for nothing, of `monotonicNanoseconds`. Nil while it is
  /// answered, and of one that holds something or is told of something until its connection ends.
  var idleSince: UInt64? {
    guard let since = waiting.withLock({ $0 }), source.withLock({ $0 == nil }),
      endings.withLock({ $0.actions.isEmpty && !$0.isOver })
    else { return nil }
    return since
  }

  // MARK: The end

  /// Runs `action` when the connection ends, at once if it has. On the connection's thread.
  package func onEnd(_ action: @escaping @Sendable () -> Void) {
    let isOver = endings.withLock { endings in
      if !endings.isOver { endings.actions.append(action) }
      return endings.isOver
    }
    if isOver { action() }
  }

  func ended() {
    let actions = endings.withLock { endings in
      endings.isOver = true
      defer { endings.actions = [] }
      return endings.actions
    }
    for action in actions { action() }
  }

  // MARK: Reading

  /// Nil at the end of the stream. Sends meanwhile what others put into the outbox.
  func nextLine() throws -> [UInt8]? {
    let now = monotonicNanoseconds()
    waiting.withLock { $0 = now }
    while true {
      if let line = try buffer.withLock({ try $0.next() }) {
        waiting.withLock { $0 = nil }
        return line
      }
      guard waitForInput() else { continue }
      let piece = try UnixSocket.receive(socket, upTo: 1 << 16)
      guard !piece.isEmpty else { return nil }
      buffer.withLock { $0.append(piece) }
    }
  }

  /// True when there is something to read, the end included. From a client that does not read
  /// nothing more is taken: what it asks for would only be kept for it.
  private func waitForInput() -> Bool {
    let isSent = drain()
    let events = UnixSocket.wait(socket, orFor: wake, for: isSent ? .input : .room)
    if events.isWoken { wake.reset() }
    return events.isReadable
  }

  // MARK: Writing

  /// Sends a line after all that is in the outbox, and returns when it is sent, however long the
  /// client takes, or cannot be. Only for the connection's thread.
  package func send(_ line: [UInt8]) {
    outbox.append(line)
    while !drain() { UnixSocket.waitUntilWritable(socket, milliseconds: 1000) }
  }

  /// For any thread; never blocks, and nothing is left out: for what there is a bounded number of.
  package func sendLater(_ line: [UInt8]) {
    if let source = source.withLock({ $0 }) { return source.append(line) }
    outbox.append(line)
    wake.wake()
  }

  /// From here on the source's lines are sent as the client reads, and what is sent later goes into
  /// it, so that all of it is in one order. On the connection's thread.
  func setSource(_ source: any LineSource) { self.source.withLock { $0 = source } }

  /// The source has something.
  func wakeUp() { wake.wake() }

  /// Sends what the client takes now. False if something is left.
  private func drain() -> Bool {
    while outbox.drain(to: socket) {
      guard let source = source.withLock({ $0 }) else { return true }
      var isEmpty = true
      while outbox.hasRoom, let line = source.nextLine() {
        outbox.append(line)
        isEmpty = false
      }
      if isEmpty { return true }
    }
    return false
  }

  /// For any thread; never blocks. A client that does not read misses it: false then.
  @discardableResult
  package func notify(_ method: String, _ parameters: some Encodable) -> Bool {
    guard let line = try? Message.notification(method: method, parameters) else { return false }
    let isTaken = outbox.offer(line)
    wake.wake()
    return isTaken
  }

  /// Sends `progress` notifications, at most ten a second. For any task; never blocks.
  func progressReporter(unit: String) -> @Sendable (_ done: UInt64, _ total: UInt64) -> Void {
    let last = Lock<UInt64>(0)
    return { done, total in
      let now = monotonicNanoseconds()
      let isDue = last.withLock { last in
        guard now - last > 100_000_000 else { return false }
        last = now
        return true
      }
      guard isDue else { return }
      self.notify(Notifications.progress, Progress(done: done, total: total, unit: unit))
    }
  }

  /// As `notify`, but nothing is left out: it suspends until the client has read enough of what was
  /// there before. Only within `wait`, from one task; throws when the client is gone.
  package func post(_ method: String, _ parameters: some Encodable) async throws {
    try await outbox.post(try Message.notification(method: method, parameters))
    wake.wake()
  }

  func fail(_ id: MessageID, _ error: ErrorObject) {
    if let line = try? Message.failure(id: id, error) { send(line) }
  }

  func fail(_ id: MessageID, _ error: ControlError) { fail(id, ErrorObject(error)) }

  // MARK: Work

  /// Runs `work` and blocks this thread until it is done, sending what comes into the outbox. When
  /// the client goes away the work is cancelled, and given the time that it takes to end.
  ///
  /// Only for threads of connections: a thread of the concurrency pool must not block.
  package func wait<Value: Sendable>(
    _ work: @escaping @Sendable () async throws -> Value
  ) throws(ControlError) -> Value {
    let pending = Blocking.Pending(work) { self.wake.wake() }
    while !pending.isDone {
      // A client that does not read must not keep the end of the work from being noticed: there may
      // be locks that the caller holds until then.
      if drain() {
        wake.wait(milliseconds: 200)
      } else {
        UnixSocket.waitUntilWritable(socket, milliseconds: 50)
      }
      if isClosed { pending.cancel() }
    }
    return try pending.value
  }
}

/// Lines for a client that come when there is room for them.
protocol LineSource: Sendable {
  /// Any thread; never blocks.
  func append(_ line: [UInt8])
  /// The next one, if there is any. On the connection's thread.
  func nextLine() -> [UInt8]?
}

/// Waiting for asynchronous work on a thread that may block.
package enum Blocking {
  /// Work that runs.
  final class Pending<Value: Sendable>: Sendable {
    private let result: Lock<Result<Value, any Error>?>
    private let task: Task<Void, Never>

    init(
      _ work: @escaping @Sendable () async throws -> Value,
      whenDone: @escaping @Sendable () -> Void
    ) {
      let result = Lock<Result<Value, any Error>?>(nil)
      self.result = result
      task = Task.detached {
        let ended: Result<Value, any Error>
        do { ended = .success(try await work()) } catch { ended = .failure(error) }
        result.withLock { $0 = ended }
        whenDone()
      }
    }

    var isDone: Bool { result.withLock { $0 != nil } }

    func cancel() { task.cancel() }

    /// Of work that is done.
    var value: Value {
      get throws(ControlError) {
        switch result.withLock({ $0 }) {
        case .success(let value): return value
        case .failure(let error): throw ControlError(mapping: error)
        case nil: throw ControlError(.failed, "the work ended without a result")
        }
      }
    }
  }

  package static func run<Value: Sendable>(
    _ work: @escaping @Sendable () async throws -> Value
  ) throws(ControlError) -> Value {
    let done = DispatchSemaphore(value: 0)
    let pending = Pending(work) { done.signal() }
    done.wait()
    return try pending.value
  }
}
