internal import CFuse3
internal import Glibc
internal import Platform
internal import Synchronization
internal import SystemPackage

/// The threads that read requests from the device and handle them (see `FuseReaderRole`).
///
/// libfuse's own loop has each thread wait in the kernel: every request then wakes a thread on
/// another processor, which sleeps. Here the reader looks for the next request for a moment before
/// it goes to sleep, and while requests come one after the other processors are kept awake.
/// `docs/performance.md` has what each of that gives.
final class FuseDeviceLoop: @unchecked Sendable {
  /// How long the reader looks for a request before it sleeps, in nanoseconds.
  private static let window: UInt64 = 50_000
  /// Requests that come within this of each other, in nanoseconds, keep processors awake: a program
  /// that does something between them would wait for its processor each time.
  private static let stretch: UInt64 = 1_000_000
  /// So long after the last request processors may sleep again, in milliseconds.
  private static let calm: Int32 = 3
  private static let tick = 2
  /// Up to this many nanoseconds others wait for the disk as well as they would for another thread
  /// to wake. If for once it takes longer the watch sees to it.
  private static let shortDiskTime: UInt64 = 200_000

  private let session: OpaquePointer
  private let device: Int32
  private let wakeup: Wakeup
  private let role: FuseReaderRole
  private let threads: Int
  private let isEager: Bool
  private let latency: ProcessorLatency?
  private let left: Lock<Int>
  private let ended = Gate()
  /// Closed while there was no request for some ticks: the watch sleeps.
  private let activity = Gate()
  private let isWatched = Atomic<Bool>(false)
  /// What requests that wait for the disk took lately, in nanoseconds. A disk counts as slow at
  /// first.
  private let diskTime = Atomic<UInt64>(4_000_000)
  /// How often requests came within the window lately, 0...8. The reader's alone, as is `burst`.
  private var eagerness = 4
  /// Requests since processors were last allowed to sleep.
  private var burst = 0

  /// `isEager`: requests are looked for, and processors kept awake. Not where requests come
  /// elsewhere.
  init(session: OpaquePointer, threads: Int, isEager: Bool) throws(Errno) {
    self.session = session
    self.threads = min(max(2, threads), FuseReaderRole.mostThreads)
    self.isEager = isEager
    device = fuse_session_fd(session)
    wakeup = try Wakeup()
    role = FuseReaderRole(threads: self.threads)
    latency = isEager ? ProcessorLatency() : nil
    left = Lock(self.threads + 1)
  }

  /// Returns when the file system is unmounted, or after `stop`, and no request is being handled.
  func run() {
    _ = fcntl(device, F_SETFL, fcntl(device, F_GETFL) | O_NONBLOCK)
    for thread in 1..<threads { _ = startThread { self.serve(thread) } }
    _ = startThread { self.watch() }
    serve(0)
    ended.wait()
    latency?.release()
  }

  /// From any thread.
  func stop() {
    role.stop()
    activity.open()
    wakeup.wake()
  }

  private func serve(_ thread: Int) {
    var buffer = fuse_buf()
    while role.wait(thread) {
      repeat {
        guard receive(&buffer) else {
          stop()
          break
        }
        role.begin(thread)
        if !isWatched.load(ordering: .relaxed) { beWatched() }
        handle(&buffer)
      } while role.finish(thread)
    }
    free(buffer.mem)
    leave()
  }

  private func handle(_ buffer: inout fuse_buf) {
    switch FuseRequestCost(buffer) {
    case .short: fuse_session_process_buf(session, &buffer)
    case .long:
      role.pass(role.seen)
      fuse_session_process_buf(session, &buffer)
    case .disk:
      let usual = diskTime.load(ordering: .relaxed)
      if usual > Self.shortDiskTime { role.pass(role.seen) }
      let start = monotonicNanoseconds()
      fuse_session_process_buf(session, &buffer)
      // Threads may overwrite each other's: it is an estimate.
      diskTime.store((usual * 7 + monotonicNanoseconds() - start) / 8, ordering: .relaxed)
    }
  }

  private func leave() {
    let isLast = left.withLock {
      $0 -= 1
      return $0 == 0
    }
    if isLast { ended.open() }
  }

  // MARK: Reading

  /// Reads a request, waiting for it; false when there will be none.
  private func receive(_ buffer: inout fuse_buf) -> Bool {
    var start: UInt64 = 0
    while !role.hasStopped, fuse_session_exited(session) == 0 {
      let count = fuse_session_receive_buf(session, &buffer)
      if count > 0 {
        arrived(after: start == 0 ? 0 : monotonicNanoseconds() - start)
        return true
      }
      guard count == -EAGAIN || count == -EINTR else { return false }
      let now = monotonicNanoseconds()
      if start == 0 { start = now }
      // Not at every turn of a long series of gaps: then it would cost programs their processor.
      if isEager, eagerness >= 4, now - start < Self.window {
        for _ in 0..<8 { ubiquity_fuse_pause() }
      } else {
        sleep()
      }
    }
    return false
  }

  private func arrived(after gap: UInt64) {
    eagerness = gap < Self.window ? min(8, eagerness + 1) : max(0, eagerness - 1)
    guard isEager else { return }
    burst = gap < Self.stretch ? burst + 1 : max(0, burst - 2)
    if burst == 8 { latency?.hold() }
    // Without a burst `sleep` does not look when it has to let processors sleep.
    if burst == 0 { latency?.release() }
  }

  private func sleep() {
    var sources = [
      pollfd(fd: device, events: Int16(POLLIN), revents: 0),
      pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0),
    ]
    if burst > 0 {
      guard poll(&sources, 2, Self.calm) == 0 else { return }
      burst = 0
      latency?.release()
    }
    poll(&sources, 2, -1)
  }

  // MARK: Watching

  private func beWatched() {
    isWatched.store(true, ordering: .relaxed)
    activity.open()
  }

  /// Replaces a reader that has been busy with one request since the last tick.
  private func watch() {
    var seen = role.seen
    var quiet = 0
    while !role.hasStopped {
      activity.wait()
      _ = ended.wait(milliseconds: Self.tick)
      let now = role.seen
      quiet = now == seen ? quiet + 1 : 0
      if now == seen { role.pass(now) }
      seen = now
      guard quiet > 25, !role.hasStopped else { continue }
      quiet = 0
      activity.close()
      isWatched.store(false, ordering: .relaxed)
      // One that came just before saw that it was watched.
      if role.seen != seen || role.hasStopped { beWatched() }
    }
    leave()
  }
}

/// What is known of a request before it is handled.
enum FuseRequestCost {
  case short
  /// It copies much: another thread is better woken to read meanwhile.
  case long
  /// It waits for the disk.
  case disk

  /// What a thread can copy while another is being woken.
  private static let most = 64 << 10

  init(_ buffer: fuse_buf) {
    guard buffer.flags.rawValue & FUSE_BUF_IS_FD.rawValue == 0, let memory = buffer.mem else {
      self = .long
      return
    }
    let header = memory.load(as: fuse_in_header.self)
    switch fuse_opcode(rawValue: header.opcode) {
    case FUSE_FSYNC, FUSE_FSYNCDIR: self = .disk
    case FUSE_COPY_FILE_RANGE, FUSE_FALLOCATE: self = .long
    case FUSE_WRITE: self = header.len > Self.most ? .long : .short
    case FUSE_READ:
      guard buffer.size >= MemoryLayout<fuse_in_header>.size + MemoryLayout<fuse_read_in>.size
      else {
        self = .short
        return
      }
      let read = memory.load(
        fromByteOffset: MemoryLayout<fuse_in_header>.size, as: fuse_read_in.self)
      self = read.size > Self.most ? .long : .short
    default: self = .short
    }
  }
}
