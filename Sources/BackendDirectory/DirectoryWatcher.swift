internal import Dispatch
internal import Glibc
internal import Platform

/// Tells when something changes in one directory of a store, by inotify, whichever process changes
/// it. It also watches the directories above, so that it notices when the directory is made,
/// removed, or comes back.
///
/// A file system does not tell when a disk is mounted over a directory; while the directory is
/// missing, the watcher looks for it every two seconds. On a file system that other machines change
/// too, inotify tells only of this machine's changes.
final class DirectoryWatcher: @unchecked Sendable {
  // Everything below is used on `queue` only.
  private let queue = DispatchQueue(label: "ubiquityfs.backend.news")
  private let chain: [String]
  private let tell: @Sendable () -> Void
  private let descriptor: Int32
  private var source: (any DispatchSourceRead)?
  private var watches: [Int32?]
  private var isLooking = false
  private var isStopped = false

  private static let pause = DispatchTimeInterval.seconds(2)

  init(root: String, components: [String], tell: @escaping @Sendable () -> Void) {
    var chain = [DirectoryStore.parent(of: root), root]
    for component in components { chain.append(chain[chain.count - 1] + "/" + component) }
    self.chain = chain
    self.tell = tell
    watches = Array(repeating: nil, count: chain.count)
    descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
    if descriptor >= 0 {
      let source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
      source.setEventHandler { [weak self] in self?.drain() }
      source.setCancelHandler { [descriptor] in _ = close(descriptor) }
      self.source = source
      source.activate()
    }
    // Watching before the caller goes on: what it changes next must not go unnoticed.
    queue.sync { _ = arm() }
  }

  func stop() {
    queue.async { [self] in
      isStopped = true
      source?.cancel()
      source = nil
    }
  }

  /// Watches what is there of the chain; true when the directory itself is there and was not, or is
  /// another one than before.
  private func arm() -> Bool {
    let target = watches[chain.count - 1]
    var now: [Int32?] = Array(repeating: nil, count: chain.count)
    if descriptor >= 0 {
      let events =
        IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF
        | IN_ONLYDIR
      for (index, path) in chain.enumerated() {
        // Below the store's own directory no link is followed.
        let more = index > 1 ? IN_DONT_FOLLOW : 0
        let watch = inotify_add_watch(descriptor, path, UInt32(events | more))
        if watch >= 0 { now[index] = watch }
      }
      for case let old? in watches where !now.contains(old) { inotify_rm_watch(descriptor, old) }
    }
    watches = now
    let found = now[chain.count - 1]
    if found == nil { lookLater() }
    return found != nil && found != target
  }

  private func lookLater() {
    guard !isLooking, !isStopped else { return }
    isLooking = true
    queue.asyncAfter(deadline: .now() + Self.pause) { [weak self] in
      guard let self else { return }
      isLooking = false
      guard !isStopped else { return }
      // Without inotify every look is news: the consumer finds out whether there are any.
      if arm() || descriptor < 0 { tell() }
    }
  }

  private func drain() {
    let target = watches[chain.count - 1]
    var isNews = false
    withUnsafeTemporaryAllocation(byteCount: 16_384, alignment: 8) { buffer in
      while true {
        let count = Glibc.read(descriptor, buffer.baseAddress, buffer.count)
        guard count > 0 else { return }
        var offset = 0
        while offset + MemoryLayout<inotify_event>.size <= count {
          let event = buffer.loadUnaligned(fromByteOffset: offset, as: inotify_event.self)
          offset += MemoryLayout<inotify_event>.size + Int(event.len)
          // -1: the queue overflowed, and anything may have happened.
          if event.wd == target || event.wd == -1 { isNews = true }
        }
      }
    }
    if arm() { isNews = true }
    if isNews { tell() }
  }
}
