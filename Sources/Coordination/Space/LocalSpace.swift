internal import Catalog
internal import ContentStore
package import Model
internal import Platform
internal import Synchronization

/// Keeps what contents take of the local disk within its limits, over all containers of an account.
///
/// A thread of its own evicts; nothing else does of itself. It looks when somebody needs room, when
/// something that was written is closed, every quarter of a second while something is open for
/// writing (what the kernel writes itself is told to nobody), and every few seconds where a part of
/// the disk is to stay free. What is counted is what catalogs and partial files say, so asking
/// costs little.
///
/// Any thread. Lock: a leaf, never held over a pass. Catalogs, claims and completions are called
/// without.
package final class LocalSpace: Sendable {
  /// A container, and what sends its changes.
  package struct Member: Sendable {
    package let coordinator: ContainerCoordinator
    /// Whether what is changed here is being sent, or will be soon.
    package let canSend: @Sendable () -> Bool
    /// Has it sent without waiting for programs to pause.
    package let sendNow: @Sendable () -> Void

    package init(
      _ coordinator: ContainerCoordinator, canSend: @escaping @Sendable () -> Bool = { false },
      sendNow: @escaping @Sendable () -> Void = {}
    ) {
      self.coordinator = coordinator
      self.canSend = canSend
      self.sendNow = sendNow
    }
  }

  /// Somebody who needs a pass: `bytes` of room whatever the limits say, 0 for what they say.
  struct Request {
    let bytes: UInt64
    let completion: @Sendable (Bool) -> Void
  }

  /// A close that waits.
  struct Close {
    let since: UInt64
    let completion: @Sendable () -> Void
  }

  /// The outcome of the last pass.
  struct LastPass {
    /// Monotonic nanoseconds.
    var began: UInt64 = 0
    /// When the first pass began of those that gave back all that could be, and less than was
    /// wanted, while nothing waited to be sent; nil: the last one was not of these.
    var fruitlessSince: UInt64?
  }

  struct State {
    var members: [ContainerID: Member] = [:]
    /// What is about to be stored.
    var reserved: UInt64 = 0
    var requests: [Request] = []
    var closes: [UInt64: Close] = [:]
    var lastTicket: UInt64 = 0
    /// What is written to open files and in no row, when it was last looked at.
    var unseen: UInt64 = 0
    /// What the last pass wanted and did not get.
    var shortfall: UInt64 = 0
    /// Until when another pass is not worth while, unless something is closed or kept no more: the
    /// last one found nothing. Monotonic nanoseconds.
    var nothingUntil: UInt64 = 0
    /// Until when there is none in any case: as long as the last one took.
    var restUntil: UInt64 = 0
    var lastPass = LastPass()
    /// Until when nobody waits at a close: the last ones waited in vain.
    var patienceOver: UInt64 = 0
    var evictedFiles: UInt64 = 0
    var evictedBytes: UInt64 = 0
    var isRunning = false
    var isStopped = false
  }

  package let limits: SpaceLimits
  /// On the disk that is meant.
  let directory: String
  /// Bytes that went to the backend: grows while something is sent.
  let sentBytes: @Sendable () -> UInt64
  let log: @Sendable (String) -> Void
  let state = Lock(State())
  let news = Gate()
  /// Closed during a pass.
  let isIdle = Gate(open: true)
  /// The thread looks again within a quarter of a second.
  let isWatching = Atomic(false)
  /// What the thread knows of those who wait at closes.
  let patience = Lock(Patience())

  /// Before each batch the store is asked whether it is sound, for so long, in milliseconds.
  let confirmationLimit: Int
  /// For so long passes find nothing more before closes go on, in milliseconds.
  let hopeLimit: UInt64

  package init(
    limits: SpaceLimits, directory: String, confirmationLimit: Int = 15_000,
    hopeLimit: UInt64 = 250, sentBytes: @escaping @Sendable () -> UInt64 = { 0 },
    log: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.limits = limits
    self.confirmationLimit = confirmationLimit
    self.hopeLimit = hopeLimit
    self.directory = directory
    self.sentBytes = sentBytes
    self.log = log
  }

  package var hasBudget: Bool { !limits.isEmpty }

  // MARK: Life

  package func add(_ member: Member) {
    state.withLock { state in
      state.members[member.coordinator.container] = member
      state.isStopped = false
    }
    if hasBudget { wake() }
  }

  /// When it returns nothing of the container is touched any more. Blocks for as long as a pass
  /// takes.
  package func remove(_ container: ContainerID) {
    state.withLock { $0.members[container] = nil }
    isIdle.wait()
  }

  /// Ends the thread; whoever waits goes on. The next container begins it anew.
  package func stop() {
    let (requests, closes) = state.withLock { state in
      state.isStopped = true
      defer {
        state.requests = []
        state.closes = [:]
      }
      return (state.requests, state.closes)
    }
    news.open()
    for request in requests { request.completion(false) }
    for close in closes.values { close.completion() }
    isIdle.wait()
  }

  func wake() {
    let mustStart = state.withLock { state in
      guard !state.isRunning, !state.isStopped else { return false }
      state.isRunning = true
      return true
    }
    news.open()
    if mustStart { _ = startThread { self.run() } }
  }

  private func run() {
    while true {
      if let delay = nextLook() {
        _ = news.wait(milliseconds: delay)
      } else {
        news.wait()
      }
      news.close()
      isIdle.close()
      defer { isIdle.open() }
      let isOver = state.withLock { state in
        if state.isStopped { state.isRunning = false }
        return state.isStopped
      }
      guard !isOver else { return }
      look()
    }
  }

  private static let watchInterval = 250

  /// In how many milliseconds to look again, if nobody calls before; nil for never.
  private func nextLook() -> Int? {
    let (isWaitedFor, isShort, members) = state.withLock {
      (!$0.closes.isEmpty, $0.shortfall > 0, Array($0.members.values))
    }
    if isWaitedFor { return patience.withLock { $0.interval } }
    guard hasBudget else { return nil }
    isWatching.store(false, ordering: .sequentiallyConsistent)
    if members.contains(where: { !$0.coordinator.writers.isEmpty }) {
      isWatching.store(true, ordering: .sequentiallyConsistent)
      return Self.watchInterval
    }
    if isShort { return 2000 }
    return limits.minimumFree == nil ? nil : 5000
  }

  // MARK: What is there

  package struct Measured: Sendable {
    /// What contents take, in bytes.
    package var used: UInt64
    /// What is free of the disk for a user's programs.
    package var free: UInt64
    package var marks: SpaceMarks
  }

  /// As rows and partial files say, with what was last seen of open files besides.
  package func measured() -> Measured? {
    guard let disk = try? DiskStatistics.of(directory) else { return nil }
    let (members, unseen) = state.withLock { (Array($0.members.values), $0.unseen) }
    var used = unseen
    for member in members { used &+= member.coordinator.heldBytes }
    return Measured(
      used: used, free: disk.blocksAvailable &* disk.blockSize, marks: limits.marks(on: disk))
  }

  /// What open files have grown by since their rows were written.
  func lookAtOpenFiles() {
    let members = state.withLock { Array($0.members.values) }
    var unseen: UInt64 = 0
    for member in members { unseen &+= member.coordinator.unseenBytes }
    state.withLock { $0.unseen = unseen }
  }

  // MARK: What is told

  package func noteGrowing() {
    guard hasBudget, !isWatching.load(ordering: .sequentiallyConsistent) else { return }
    wake()
  }

  package func noteStored() { noteGrowing() }

  /// Something may be given back that could not be before.
  func noteEvictable() {
    guard hasBudget else { return }
    state.withLock { $0.nothingUntil = 0 }
  }

  package func hasRoom(for bytes: UInt64) -> Bool {
    guard hasBudget, let now = measured() else { return true }
    let reserved = state.withLock { $0.reserved }
    return now.marks.fits(reserved &+ bytes, used: now.used, free: now.free)
  }
}

extension ContainerCoordinator {
  /// What local contents and partial ones take on the disk.
  var heldBytes: UInt64 {
    let partial = content.allPartials().reduce(UInt64(0)) { $0 &+ $1.heldBytes }
    return ((try? catalog.heldBytes()) ?? 0) &+ partial
  }

  /// What is written to files that are open for writing, and in no row yet.
  var unseenBytes: UInt64 {
    var blocks: UInt64 = 0
    for number in writers {
      guard let inode = try? catalog.inode(number), inode.kind == .file, inode.content == .local,
        let found = try? content.found(
          ContentKey(item: inode.item, generation: inode.generation))
      else { continue }
      let known = inode.blocks ?? 0
      if found.blocks > known { blocks &+= found.blocks - known }
    }
    return blocks &* 512
  }
}
