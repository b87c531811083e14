internal import CFuse3
internal import Glibc
package import Platform
internal import Synchronization
package import SystemPackage

/// Why a session did not start. `detail` is what libfuse said, if anything.
package struct FuseStartFailure: Error, Sendable {
  package let detail: String
  package let errno: Errno

  package init(detail: String, errno: Errno) {
    self.detail = detail
    self.errno = errno
  }
}

/// One mounted FUSE connection and the threads that serve it.
///
/// States, in order: made, mounted (`mount`), running (`run`), ended. It ends when the file system
/// is unmounted, by anyone, or by `abort`. The session's own thread takes everything apart, so that
/// nothing is freed under a request.
package final class FuseSession: @unchecked Sendable {
  let context: FuseContext
  let data: UnsafeMutablePointer<ubiquity_fuse_context>
  private let operations: UnsafeMutablePointer<fuse_lowlevel_ops>
  let session: OpaquePointer
  private let mountpoint: String
  private let threads: Int
  private let isEager: Bool
  let ended = Gate()
  /// Nothing is served any more, and the connection is another daemon's.
  let quiet = Gate()
  let isHandedOver = Atomic<Bool>(false)
  /// The connection is one that another daemon began: libfuse does not know its mount point.
  var isAdopted = false
  private let closing = Lock<(@Sendable () -> Void)?>(nil)
  let loop = Lock<FuseDeviceLoop?>(nil)
  let isAborted = Atomic<Bool>(false)
  private let isUnmounted = Atomic<Bool>(false)
  /// Of the device, while the session has it.
  let descriptor = Lock<Int32?>(nil)
  /// Set by `mount`; nil where the mount table did not tell it.
  package private(set) var connection: AbortableConnection?
  package var device: String? { connection?.mount.device }
  package let notifier: FuseNotifier
  private let backing = Lock<FuseBackingFiles?>(nil)

  /// Files that the kernel reads and writes itself; nil before the session is mounted. They can be
  /// registered once the handler has heard that passthrough was granted.
  package var backingFiles: FuseBackingFiles? { backing.withLock { $0 } }

  /// `options` are libfuse's and the kernel's mount options. `threads` bounds the requests that are
  /// handled at a time; few are enough, since none waits for anything but the local disk.
  package init(
    handler: any FuseHandler, mountpoint: String, options: [String], wishes: FuseWishes,
    threads: Int
  ) throws(FuseStartFailure) {
    context = FuseContext(handler)
    data = .allocate(capacity: 1)
    data.initialize(to: context.userData(wishes))
    operations = .allocate(capacity: 1)
    operations.initialize(to: FuseOperations.make())
    self.mountpoint = mountpoint
    self.threads = threads
    isEager = wishes.isEager
    var arguments = fuse_args()
    for argument in ["ubiquityfs", "-o", options.joined(separator: ",")] {
      fuse_opt_add_arg(&arguments, argument)
    }
    defer { fuse_opt_free_args(&arguments) }
    let log = FuseLog.collecting()
    let made = fuse_session_new(
      &arguments, operations, MemoryLayout<fuse_lowlevel_ops>.size, data)
    guard let made else {
      data.deallocate()
      operations.deallocate()
      throw FuseStartFailure(detail: log.taken(), errno: .invalidArgument)
    }
    session = made
    notifier = FuseNotifier(session: made)
  }

  deinit {
    data.deallocate()
    operations.deallocate()
  }

  /// Mounts. After a failure the session is of no further use.
  package func mount() throws(FuseStartFailure) {
    let log = FuseLog.collecting()
    errno = 0
    guard fuse_session_mount(session, mountpoint) == 0 else {
      let code = errno
      fuse_session_destroy(session)
      ended.open()
      throw FuseStartFailure(detail: log.taken(), errno: Errno(rawValue: code))
    }
    let code = ubiquity_fuse_install(session, fuse_session_fd(session))
    guard code == 0 else {
      fuse_session_unmount(session)
      fuse_session_destroy(session)
      ended.open()
      throw FuseStartFailure(detail: log.taken(), errno: Errno(rawValue: -code))
    }
    began()
  }

  func began() {
    connection = mountHere().map { AbortableConnection(device: $0.device, mountpoint: mountpoint) }
    let files = FuseBackingFiles(device: fuse_session_fd(session))
    backing.withLock { $0 = files }
    descriptor.withLock { $0 = fuse_session_fd(session) }
  }

  /// What is mounted at the mount point, if it is of ours. Asks the mount itself nothing.
  private func mountHere() -> MountedFileSystem? {
    let path = Array(mountpoint.utf8)
    guard let top = (try? MountTable.read())?.last(where: { $0.mountpoint == path }),
      top.type == MountedFileSystem.ubiquityType
    else { return nil }
    return top
  }

  /// Serves requests on threads of its own and returns at once. A connection that another daemon
  /// began needs `runResent`.
  package func run() {
    _ = startThread {
      self.serve()
      if self.isHandedOver.load(ordering: .sequentiallyConsistent) { return self.quiet.open() }
      self.finish()
    }
  }

  /// Called before the device is closed: whoever keeps a descriptor of it keeps the connection.
  package func beforeClosing(_ body: @escaping @Sendable () -> Void) {
    closing.withLock { $0 = body }
  }

  private func serve() {
    let made: FuseDeviceLoop
    do throws(Errno) {
      made = try FuseDeviceLoop(session: session, threads: threads, isEager: isEager)
    } catch {
      // No descriptor is left for it: what uses the mount gets ENOTCONN.
      connection?.abort()
      return
    }
    loop.withLock { $0 = made }
    if isAborted.load(ordering: .sequentiallyConsistent) { made.stop() }
    made.run()
    loop.withLock { $0 = nil }
  }

  /// After the loop: no request is being served, and none comes.
  private func finish() {
    context.lot.drain()
    // Closing the device would free what a notification waits for in the kernel, if that were not
    // in a write to the same device, which keeps it open.
    let mustAbort = !notifier.stop(milliseconds: 1000)
    // A mount whose path leads to something else by now: libfuse would unmount that.
    // And closing it does not end the connection while somebody else keeps it.
    let mustEnd = mustAbort || isUnmounted.load(ordering: .sequentiallyConsistent)
    let isThere = !hasLostConnection
    closing.withLock { $0 }?()
    if mustEnd || isThere { connection?.abort() }
    descriptor.withLock { $0 = nil }
    fuse_session_unmount(session)
    // libfuse takes an aborted connection for one that was unmounted.
    if mustAbort || isThere, let device, mountHere()?.device == device {
      try? MountTable.detach(mountpoint)
    }
    notifier.waitUntilIdle()
    backingFiles?.end()
    fuse_session_destroy(session)
    context.handler.ended()
    ended.open()
  }

  /// Waits until no WRITE request has come for `quiet` milliseconds and none is being served, but
  /// only `limit` milliseconds; gives whether it is so. syncfs(2) on FUSE starts writing what the
  /// kernel holds back and does not wait for it.
  package func waitUntilWritesEnd(quiet: Int, limit: Int) -> Bool {
    let start = monotonicNanoseconds()
    var quietSince = start
    var count: UInt64?
    while true {
      // In this order: what ended was counted as begun before.
      let done = context.writesEnded.load(ordering: .sequentiallyConsistent)
      let begun = context.writesBegun.load(ordering: .sequentiallyConsistent)
      let now = monotonicNanoseconds()
      if begun != count || begun != done || context.lot.hasWrites {
        quietSince = now
        count = begun
      }
      if now - quietSince >= UInt64(quiet) * 1_000_000 { return true }
      if now - start >= UInt64(limit) * 1_000_000 { return false }
      if ended.wait(milliseconds: 10) { return true }
    }
  }

  /// Whether the kernel has ended the connection: nothing has the mount any more, and the session
  /// ends in a moment. Tells more than the mount table: the kernel gives the number of a mount that
  /// is gone to the next one.
  package var hasLostConnection: Bool {
    descriptor.withLock { descriptor in
      guard let descriptor else { return true }
      var entry = pollfd(fd: descriptor, events: 0, revents: 0)
      return poll(&entry, 1, 0) > 0 && Int32(entry.revents) & Int32(POLLERR) != 0
    }
  }

  /// Ends the session whatever uses the mount; it is detached from the tree and its users get
  /// ENOTCONN. `isUnmounted`: its path does not lead to it any more.
  package func abort(isUnmounted: Bool = false) {
    if isUnmounted { self.isUnmounted.store(true, ordering: .sequentiallyConsistent) }
    // A notification in the kernel may wait for a lock that a program holds until its request is
    // answered. So requests are served until no notification is left, and only then no more.
    context.lot.beginDraining()
    if !notifier.stop(milliseconds: 2000) { connection?.abort() }
    isAborted.store(true, ordering: .sequentiallyConsistent)
    loop.withLock { $0 }?.stop()
    ended.wait()
  }

  package func waitUntilEnded() { ended.wait() }

  package func waitUntilEnded(milliseconds: Int) -> Bool { ended.wait(milliseconds: milliseconds) }

  package var hasEnded: Bool { ended.wait(milliseconds: 0) }
}
