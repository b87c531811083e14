internal import CFuse3
internal import Glibc
internal import Platform
internal import Synchronization
internal import SystemPackage

/// FUSE over io_uring: requests and replies of a session in shared memory, one system call for
/// both.
///
/// The kernel keeps a queue for each processor, and asks on the one where the program runs. Each
/// queue has a few entries, each with a thread that does nothing but it (see `FuseUringServer`). A
/// request whose reply is parked keeps its entry, as the kernel wants the reply there: the thread
/// then makes another entry, up to a limit over all. FORGET, INTERRUPT and notifications stay with
/// the device.
///
/// States, in order: prepared, before INIT is answered, since the kernel keeps all programs waiting
/// from that answer on until the queues are there; then begun or given up; then stopped. When the
/// kernel refuses an entry before the queues are complete, it uses the device by itself.
final class FuseUring: @unchecked Sendable {
  private struct State {
    var entries = 0
    /// For each queue: entries that are not parked, how many there are to be, and the workers that
    /// have none.
    var live: [Int]
    var wanted: [Int]
    var hungry: [[FuseUringServer]]
    var failure: Errno?
  }

  /// Entries of a session. Beyond, a queue whose entries are all parked waits for one of them. As
  /// many as the kernel has requests in the background, and as many again for programs that wait.
  static let limit = 512
  /// With more there would be little left of that.
  static let mostProcessors = 128

  let session: OpaquePointer
  let device: Int32
  private let payloadSize: Int
  private let pool = FuseUringPool(limit: 4)
  private let table: UnsafeMutablePointer<Unmanaged<FuseUringEntry>>
  private let tableCount = Atomic<Int>(0)
  private let state: Lock<State>
  private var workers: [FuseUringServer] = []
  private var dispatcher: FuseUringServer?
  private let start = Gate()
  private let hasBegun = Atomic<Bool>(false)
  private let threads = Lock(0)
  private let noThreads = Gate(open: true)

  /// Makes everything that can fail, and none of it known to the kernel.
  init(session: OpaquePointer, payloadSize: Int, processors: Processors) throws(Errno) {
    self.session = session
    self.payloadSize = payloadSize
    device = fuse_session_fd(session)
    table = .allocate(capacity: Self.limit)
    let perQueue = Self.workers(processors: processors.online)
    let wanted = (0..<processors.possible).map { $0 < processors.online ? perQueue : 1 }
    state = Lock(
      State(
        live: wanted, wanted: wanted, hungry: Array(repeating: [], count: processors.possible)))
    let dispatcher = try FuseUringServer(.dispatcher, self)
    self.dispatcher = dispatcher
    for (queue, count) in wanted.enumerated() {
      for _ in 0..<count {
        let entry = try makeEntry(queue)
        if queue < processors.online {
          let worker = try FuseUringServer(.worker(queue: queue), self)
          worker.post(.register(entry))
          workers.append(worker)
        } else {
          dispatcher.post(.register(entry))
        }
      }
    }
    try startThreads()
  }

  deinit {
    for index in 0..<tableCount.load(ordering: .acquiring) { table[index].release() }
    table.deallocate()
  }

  /// A request that blocks keeps its thread; the kernel wakes the next one of the queue. Few do
  /// where there are many processors.
  private static func workers(processors: Int) -> Int { max(2, min(4, 8 / max(1, processors))) }

  private func makeEntry(_ queue: Int) throws(Errno) -> FuseUringEntry {
    let entry = try FuseUringEntry(queue: queue, capacity: payloadSize)
    state.withLock { state in
      table[state.entries] = Unmanaged.passRetained(entry)
      state.entries += 1
      tableCount.store(state.entries, ordering: .releasing)
    }
    return entry
  }

  private func startThreads() throws(Errno) {
    let servers = workers + [dispatcher].compactMap { $0 }
    let failure = Lock<Errno?>(nil)
    let waiting = Lock(servers.count)
    let arePrepared = Gate()
    noThreads.close()
    threads.withLock { $0 = servers.count }
    for server in servers {
      _ = startThread { [self] in
        server.run(
          prepared: { error in
            if let error { failure.withLock { $0 = error } }
            if waiting.withLock({
              $0 -= 1
              return $0 == 0
            }) {
              arePrepared.open()
            }
          }, start: start)
        let isLast = threads.withLock {
          $0 -= 1
          return $0 == 0
        }
        if isLast { noThreads.open() }
      }
    }
    arePrepared.wait()
    if let failure = failure.withLock({ $0 }) {
      stop()
      throw failure
    }
  }

  /// After INIT is answered: gives the kernel the entries.
  func begin() {
    hasBegun.store(true, ordering: .releasing)
    start.open()
  }

  var isBegun: Bool { hasBegun.load(ordering: .acquiring) }

  /// Why the kernel uses the device after all, if it is known to.
  var failure: Errno? { state.withLock { $0.failure } }

  /// Finishes what is being handled and ends all threads. What is not answered by then is the
  /// connection's end to answer. Entries stay until this object goes.
  func stop() {
    for worker in workers { worker.stop() }
    // Also before they are begun.
    dispatcher?.stop()
    start.open()
    noThreads.wait()
    pool.stop()
  }

  // MARK: Replies

  /// Sends a reply of libfuse's. Gives nil when it is none to a request in an entry: it is the
  /// device's.
  func send(_ reply: UnsafeBufferPointer<iovec>) -> Int? {
    guard isBegun, let first = reply.first?.iov_base else {
      return nil
    }
    let out = first.loadUnaligned(as: fuse_out_header.self)
    // A notification.
    if out.unique == 0 { return nil }
    let size = reply.reduce(0) { $0 + $1.iov_len }
    if out.unique & 1 != 0 {
      retryInterrupt(of: out.unique & ~1)
      return size
    }
    guard let entry = entry(of: out.unique) else { return nil }
    if entry.answer(reply) { resume(entry) }
    return size
  }

  private func entry(of unique: UInt64) -> FuseUringEntry? {
    if let entry = FuseUringThread.entry, entry.holds(unique) { return entry }
    for index in 0..<tableCount.load(ordering: .acquiring) {
      let isFound = table[index]._withUnsafeGuaranteedRef { $0.holds(unique) }
      if isFound { return table[index].takeUnretainedValue() }
    }
    return nil
  }

  /// A reply to a parked request: someone has to tell the kernel.
  private func resume(_ entry: FuseUringEntry) {
    let worker = state.withLock { state in
      state.live[entry.queue] += 1
      return state.hungry[entry.queue].popLast()
    }
    (worker ?? dispatcher)?.post(.commit(entry))
  }

  // MARK: Requests

  /// A server's entry waits for its reply. Gives the one to go on with, unless the queue has
  /// enough, or there are too many.
  func parked(_ asker: FuseUringAsker, queue: Int, by server: FuseUringServer?) -> FuseUringEntry? {
    // A signal that comes after a request is given to an entry, but before the thread has it, tells
    // the kernel nothing (Linux 6.18): the program could not even be killed.
    if asker.thread != 0, PendingSignals.areThere(for: asker.thread) {
      retryInterrupt(of: asker.unique, attempts: 0)
    }
    let (mustMake, other): (Bool, FuseUringServer?) = state.withLock { state in
      state.live[queue] -= 1
      guard state.live[queue] < state.wanted[queue], state.entries < Self.limit else {
        if let server { state.hungry[queue].append(server) }
        return (false, nil)
      }
      state.live[queue] += 1
      return (true, server == nil ? state.hungry[queue].popLast() ?? dispatcher : nil)
    }
    guard mustMake else { return nil }
    let made: FuseUringEntry
    do throws(Errno) { made = try makeEntry(queue) } catch {
      state.withLock { state in
        state.live[queue] -= 1
        if let server { state.hungry[queue].append(server) }
      }
      return nil
    }
    guard let other else { return made }
    other.post(.register(made))
    return nil
  }

  /// Has the pool run a request that came in an entry of the dispatcher's.
  func dispatch(_ entry: FuseUringEntry) {
    pool.add { [self] in
      var asker = FuseUringAsker()
      if entry.run(session, asker: &asker) {
        dispatcher?.post(.commit(entry))
      } else {
        _ = parked(asker, queue: entry.queue, by: nil)
      }
    }
  }

  /// The kernel did not take an entry, or gave it up: at the connection's end, or because it will
  /// not use the ring at all.
  func refused(_ entry: FuseUringEntry, _ error: Errno) {
    switch error.rawValue {
    case ENOTCONN, ECONNABORTED, ECANCELED, ENOENT: break
    default: failed(error)
    }
  }

  func failed(_ error: Errno) { state.withLock { $0.failure = $0.failure ?? error } }

  // MARK: Interrupts

  /// libfuse had an interrupt for a request that it did not know yet: the kernel, told to try
  /// again, finds only the device's requests. It is given again until the request has it, or is
  /// answered.
  private func retryInterrupt(of unique: UInt64, attempts: Int = 10) {
    pool.add { [self] in
      usleep(1000)
      guard entry(of: unique) != nil else {
        // It may be on its way from the ring to its entry.
        if attempts > 0 { retryInterrupt(of: unique, attempts: attempts - 1) }
        return
      }
      var message = InterruptMessage(unique: unique)
      withUnsafeMutableBytes(of: &message) { bytes in
        var buffer = fuse_buf()
        buffer.size = bytes.count
        buffer.mem = bytes.baseAddress
        fuse_session_process_buf(session, &buffer)
      }
    }
  }

  private struct InterruptMessage {
    var header = fuse_in_header()
    var body = fuse_interrupt_in()

    init(unique: UInt64) {
      header.len = UInt32(MemoryLayout<InterruptMessage>.size)
      header.opcode = FUSE_INTERRUPT.rawValue
      header.unique = unique | 1
      body.unique = unique
    }
  }
}
