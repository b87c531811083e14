internal import CFuse3
internal import Glibc
internal import Platform

/// Makes the kernel forget what it cached.
///
/// Notifications can wait for kernel locks that are held while a request of ours is pending; so
/// they are sent from one thread that holds no lock and serves no request, in the order given.
package final class FuseNotifier: @unchecked Sendable {
  package enum Notification: Sendable {
    /// A name of a directory now means something else, or nothing.
    case entry(parent: UInt64, name: [UInt8])
    /// A name may mean something else: the kernel asks before it uses it again.
    case doubt(parent: UInt64, name: [UInt8])
    /// A name is gone; a directory that is someone's current one is detached rather than kept.
    case deleted(parent: UInt64, child: UInt64, name: [UInt8])
    /// Attributes alone.
    case attributes(UInt64)
    /// Attributes and all pages; of a directory the cached entries.
    case contents(UInt64)
    /// The pages of a range of a file. What a mapping changed in them is written back first.
    case pages(UInt64, Range<UInt64>)
  }

  private let session: OpaquePointer
  private let queue = WorkQueue()
  private let isStopped = Lock(false)
  private let isIdle = Gate(open: true)

  /// Told before a notification goes to the kernel, with the thread that may get stuck there, and 0
  /// after. Set before there are notifications.
  private let mark = Lock<(@Sendable (Int32) -> Void)?>(nil)

  init(session: OpaquePointer) { self.session = session }

  package func setMark(_ body: @escaping @Sendable (Int32) -> Void) { mark.withLock { $0 = body } }

  /// Returns at once. What the kernel does not know is passed over.
  package func send(_ list: [Notification]) {
    queue.add { [self] in
      isIdle.close()
      let mark = mark.withLock { $0 }
      mark?(currentThreadNumber())
      for notification in list {
        if isStopped.withLock({ $0 }) { break }
        send(notification)
      }
      mark?(0)
      isIdle.open()
    }
  }

  /// Calls `body` on the notifier's thread when what was sent so far has reached the kernel; not
  /// when it stops before. Gives false when it has stopped already.
  package func afterwards(_ body: @escaping @Sendable () -> Void) -> Bool { queue.add(body) }

  /// Waits until what was sent so far has reached the kernel; gives up after the time, since the
  /// kernel may be waiting for the caller.
  @discardableResult
  package func flush(milliseconds: Int) -> Bool {
    let done = Gate()
    guard queue.add({ done.open() }) else { return true }
    return done.wait(milliseconds: milliseconds)
  }

  private func send(_ notification: Notification) {
    switch notification {
    case .entry(let parent, let name):
      name.withUnsafeBytes { bytes in
        _ = fuse_lowlevel_notify_inval_entry(
          session, parent, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
      }
    case .doubt(let parent, let name):
      name.withUnsafeBytes { bytes in
        ubiquity_fuse_doubt(
          fuse_session_fd(session), parent, bytes.baseAddress, UInt32(bytes.count))
      }
    case .deleted(let parent, let child, let name):
      name.withUnsafeBytes { bytes in
        _ = fuse_lowlevel_notify_delete(
          session, parent, child, bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
          bytes.count)
      }
    case .attributes(let node):
      fuse_lowlevel_notify_inval_inode(session, node, -1, 0)
    case .contents(let node):
      fuse_lowlevel_notify_inval_inode(session, node, 0, 0)
    case .pages(let node, let range):
      fuse_lowlevel_notify_inval_inode(
        session, node, off_t(clamping: range.lowerBound), off_t(range.count))
    }
  }

  /// No notification begins after this. Gives false when one is still in the kernel after the time.
  func stop(milliseconds: Int) -> Bool {
    isStopped.withLock { $0 = true }
    queue.stop()
    return isIdle.wait(milliseconds: milliseconds)
  }

  /// After the connection is gone, which frees what waits in the kernel.
  func waitUntilIdle() { isIdle.wait() }
}
