internal import CFuse3
internal import Glibc
internal import Platform
internal import SystemPackage

/// A thread with a ring of its own, and the entries whose commands it has submitted.
///
/// A *worker* serves one processor's queue: it has one entry, and handles that one's requests
/// itself, so that a request costs one system call. While it is busy the kernel has no entry of its
/// to fill, and wakes another. The *dispatcher* has the entries that are over, after their requests
/// were parked: it hands their requests to a pool, so that none waits behind another.
final class FuseUringServer: @unchecked Sendable {
  enum Kind: Sendable {
    case worker(queue: Int)
    case dispatcher
  }

  enum Order: Sendable {
    case register(FuseUringEntry)
    case commit(FuseUringEntry)
  }

  private struct Inbox {
    var orders: [Order] = []
    var isStopped = false
  }

  /// Above it, the payload of an entry that is over is given back to the system.
  private static let kept = 64 << 10

  let kind: Kind
  private let wakeup: Wakeup
  private let inbox = Lock(Inbox())
  private unowned let uring: FuseUring
  /// Of the thread alone from here on.
  private let wakeBuffer = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
  private var isStopped = false
  private var committed: [FuseUringEntry] = []

  init(_ kind: Kind, _ uring: FuseUring) throws(Errno) {
    self.kind = kind
    self.uring = uring
    wakeup = try Wakeup()
  }

  deinit { wakeBuffer.deallocate() }

  /// Has the thread do it. Dropped once it is stopped: the connection is ending.
  func post(_ order: Order) {
    let isFirst = inbox.withLock { inbox in
      inbox.orders.append(order)
      return inbox.orders.count == 1
    }
    if isFirst { wakeup.wake() }
  }

  /// The thread ends when it has finished what it does.
  func stop() {
    inbox.withLock { $0.isStopped = true }
    wakeup.wake()
  }

  /// The thread's body. `prepared` is told whether there is a ring; then it waits at `start`.
  func run(prepared: (Errno?) -> Void, start: Gate) {
    var ring: CommandRing
    do throws(Errno) {
      switch kind {
      case .worker: ring = try CommandRing(submissions: 4, completions: 16)
      case .dispatcher: ring = try CommandRing(submissions: 64, completions: 1024)
      }
    } catch {
      prepared(error)
      return
    }
    prepared(nil)
    start.wait()
    // Stopped before: the kernel must not hear of it.
    guard uring.isBegun else { return }
    if case .worker(let queue) = kind { pinThread(toProcessor: queue) }
    do throws(Errno) {
      try serve(&ring)
    } catch {
      uring.failed(error)
    }
  }

  private func serve(_ ring: inout CommandRing) throws(Errno) {
    try listen(&ring)
    try obey(&ring)
    while !isStopped {
      try ring.submit(waitingFor: 1)
      while let completion = ring.next() {
        if completion.tag == 0 {
          try listen(&ring)
          try obey(&ring)
        } else if let pointer = UnsafeRawPointer(bitPattern: UInt(completion.tag)) {
          let entry = Unmanaged<FuseUringEntry>.fromOpaque(pointer).takeUnretainedValue()
          entry.isWithKernel = false
          try completed(entry, completion.result, &ring)
        }
      }
      trim()
    }
    // What was answered last.
    try ring.submit(waitingFor: 0)
  }

  private func listen(_ ring: inout CommandRing) throws(Errno) {
    try ring.read(
      wakeup.descriptor,
      into: UnsafeMutableRawBufferPointer(start: wakeBuffer, count: MemoryLayout<UInt64>.size),
      tag: 0)
  }

  private func obey(_ ring: inout CommandRing) throws(Errno) {
    let orders = inbox.withLock { inbox in
      isStopped = inbox.isStopped
      defer { inbox.orders = [] }
      return inbox.orders
    }
    for order in orders {
      switch order {
      case .register(let entry), .commit(let entry): try submit(entry, &ring)
      }
    }
  }

  private func submit(_ entry: FuseUringEntry, _ ring: inout CommandRing) throws(Errno) {
    entry.isWithKernel = true
    if case .dispatcher = kind, entry.touched > Self.kept { committed.append(entry) }
    try ring.command(
      entry.operation, of: uring.device, argument: entry.command,
      buffers: entry.operation == ubiquity_uring_register ? entry.registration : nil,
      count: entry.operation == ubiquity_uring_register ? 2 : 0,
      tag: UInt64(UInt(bitPattern: Unmanaged.passUnretained(entry).toOpaque())))
  }

  private func completed(
    _ entry: FuseUringEntry, _ result: Int32, _ ring: inout CommandRing
  ) throws(Errno) {
    switch -result {
    case 0:
      switch kind {
      case .worker:
        var asker = FuseUringAsker()
        if entry.run(uring.session, asker: &asker) {
          try submit(entry, &ring)
        } else if let next = uring.parked(asker, queue: entry.queue, by: self) {
          try submit(next, &ring)
        }
      case .dispatcher:
        uring.dispatch(entry)
      }
    case EAGAIN, EINTR:
      try submit(entry, &ring)
    default:
      uring.refused(entry, Errno(rawValue: -result))
    }
  }

  /// The kernel writes into an entry only within this thread's `submit`, so what has not come back
  /// is empty.
  private func trim() {
    for entry in committed where entry.isWithKernel { entry.trim() }
    committed.removeAll(keepingCapacity: true)
  }
}
