internal import CFuse3
internal import Glibc
internal import Platform
internal import Synchronization
internal import SystemPackage

/// A place for one request at a time, in memory that is registered with a queue of the kernel.
///
/// States, in order and again: with the kernel; *running*, while a thread handles its request; then
/// *answered*, or *parked* and answered later by any thread. What is answered is committed to the
/// kernel by the thread that ran it, or, if that had left it parked, by the one it is posted to.
/// Whoever takes it from one state to the next owns the memory until then.
final class FuseUringEntry: @unchecked Sendable {
  private enum Phase {
    static let running: UInt8 = 1
    static let answered: UInt8 = 2
    static let parked: UInt8 = 3
  }

  /// The largest fixed part that a request has before its payload: fuse_in_header and the
  /// operation's.
  private static let frontSize = MemoryLayout<fuse_in_header>.size + 128

  let queue: Int
  /// The command that was last submitted for it, to be submitted again if it was not taken.
  var operation = ubiquity_uring_register
  /// How much of the payload may have been touched since it was last given back to the system.
  private(set) var touched = 0
  /// Whether its command is under way; its server's alone.
  var isWithKernel = false
  /// libfuse's name for the request that runs in it.
  var request: OpaquePointer?

  private let memory: UnsafeMutableRawPointer
  private let size: Int
  private let front: Int
  private let capacity: Int
  private let unique = Atomic<UInt64>(0)
  private let phase = Atomic<UInt8>(Phase.answered)

  init(queue: Int, capacity: Int) throws(Errno) {
    self.queue = queue
    self.capacity = capacity
    front = Int(getpagesize())
    size = front + capacity
    let mapped = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    guard let mapped, mapped != MAP_FAILED else { throw Errno(rawValue: errno) }
    memory = mapped
    vectors[0] = iovec(iov_base: memory, iov_len: MemoryLayout<ubiquity_uring_header>.size)
    vectors[1] = iovec(iov_base: payload, iov_len: capacity)
  }

  deinit { munmap(memory, size) }

  private var header: UnsafeMutablePointer<ubiquity_uring_header> {
    memory.assumingMemoryBound(to: ubiquity_uring_header.self)
  }

  /// What the kernel is told of the memory: the header and the payload.
  private var vectors: UnsafeMutablePointer<iovec> {
    (memory + 512).assumingMemoryBound(to: iovec.self)
  }

  var registration: UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: vectors, count: 2 * MemoryLayout<iovec>.size)
  }

  /// The payload's page follows the first, whose end is free: a request is put together there
  /// without its payload being moved.
  private var payload: UnsafeMutableRawPointer { memory + front }

  var command: ubiquity_uring_command {
    ubiquity_uring_command(
      flags: 0, commit: operation == ubiquity_uring_register ? 0 : header.pointee.commit,
      queue: UInt16(queue), padding: (0, 0, 0, 0, 0, 0))
  }

  /// Whether it holds this request, and that is not answered yet.
  func holds(_ unique: UInt64) -> Bool { self.unique.load(ordering: .acquiring) == unique }

  /// The kernel has put a request into it: has libfuse call the handler. Gives whether it is
  /// answered; otherwise it is parked, and may be answered and gone by the time this returns.
  /// `asker` is who asked, which the entry may not know any more by then.
  func run(_ session: OpaquePointer, asker: inout FuseUringAsker) -> Bool {
    let payloadSize = Int(header.pointee.payload_size)
    let inHeader = memory.loadUnaligned(as: fuse_in_header.self)
    let fixedSize = Int(inHeader.len) - payloadSize
    touched = max(touched, payloadSize)
    operation = ubiquity_uring_commit_and_fetch
    request = nil
    asker = FuseUringAsker(thread: inHeader.pid, unique: inHeader.unique)
    phase.store(Phase.running, ordering: .relaxed)
    unique.store(inHeader.unique, ordering: .releasing)
    guard fixedSize >= MemoryLayout<fuse_in_header>.size, fixedSize <= Self.frontSize,
      payloadSize <= capacity
    else {
      answer(unique: inHeader.unique, error: -EIO)
      return true
    }
    let start = payload - fixedSize
    let headerSize = MemoryLayout<fuse_in_header>.size
    memcpy(start, memory, headerSize)
    memcpy(start + headerSize, memory + 128, fixedSize - headerSize)
    ubiquity_fuse_translate(start)
    var buffer = fuse_buf()
    buffer.size = fixedSize + payloadSize
    buffer.mem = start
    FuseUringThread.entry = self
    fuse_session_process_buf(session, &buffer)
    FuseUringThread.entry = nil
    return !phase.compareExchange(
      expected: Phase.running, desired: Phase.parked, ordering: .acquiringAndReleasing
    ).exchanged
  }

  /// Takes a reply. Gives whether the entry was parked, and so has to be committed by the caller.
  func answer(_ reply: UnsafeBufferPointer<iovec>) -> Bool {
    guard let first = reply.first?.iov_base else { return false }
    var out = first.loadUnaligned(as: fuse_out_header.self)
    var filled = 0
    for vector in reply.dropFirst() where vector.iov_len > 0 {
      guard filled + vector.iov_len <= capacity else {
        // No reply is longer than what the kernel asked for, and that has room.
        out.error = -EIO
        filled = 0
        break
      }
      // A handler may have put its bytes in place.
      if vector.iov_base != payload + filled {
        memmove(payload + filled, vector.iov_base, vector.iov_len)
      }
      filled += vector.iov_len
    }
    touched = max(touched, filled)
    memory.storeBytes(of: out, as: fuse_out_header.self)
    header.pointee.payload_size = UInt32(filled)
    return finishAnswer()
  }

  private func answer(unique: UInt64, error: Int32) {
    memory.storeBytes(
      of: fuse_out_header(len: 0, error: error, unique: unique), as: fuse_out_header.self)
    header.pointee.payload_size = 0
    _ = finishAnswer()
  }

  private func finishAnswer() -> Bool {
    unique.store(0, ordering: .relaxed)
    return phase.exchange(Phase.answered, ordering: .acquiringAndReleasing) == Phase.parked
  }

  /// Fills the payload from a file, for a reply of up to `count` bytes; gives them.
  func fill(from descriptor: Int32, at offset: UInt64, count: Int) throws(Errno)
    -> UnsafeRawBufferPointer
  {
    let count = min(count, capacity)
    var filled = 0
    while filled < count {
      let got = pread(
        descriptor, payload + filled, count - filled, off_t(clamping: offset + UInt64(filled)))
      if got < 0 && errno == EINTR { continue }
      guard got >= 0 else { throw Errno(rawValue: errno) }
      if got == 0 { break }
      filled += got
    }
    return UnsafeRawBufferPointer(start: payload, count: filled)
  }

  /// Gives the payload's memory back to the system. Its content is lost: only while nothing is in
  /// it.
  func trim() {
    madvise(payload, capacity, MADV_DONTNEED)
    touched = 0
  }
}

/// Who made a request, and the kernel's name for it.
struct FuseUringAsker {
  var thread: UInt32 = 0
  var unique: UInt64 = 0
}

/// What the calling thread is running.
enum FuseUringThread {
  private static let key: pthread_key_t = {
    var key = pthread_key_t()
    precondition(pthread_key_create(&key, nil) == 0, "no thread-specific data left")
    return key
  }()

  static var entry: FuseUringEntry? {
    get {
      pthread_getspecific(key).map {
        Unmanaged<FuseUringEntry>.fromOpaque($0).takeUnretainedValue()
      }
    }
    set { pthread_setspecific(key, newValue.map { Unmanaged.passUnretained($0).toOpaque() }) }
  }

  /// The entry whose request this is, if the thread is running it.
  static func entry(of request: OpaquePointer) -> FuseUringEntry? {
    guard let entry, entry.request == request else { return nil }
    return entry
  }
}
