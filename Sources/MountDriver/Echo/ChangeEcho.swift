internal import Catalog
internal import FileSystem
internal import FuseKernel
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// Tells programs that watch the mount what other devices did to it.
///
/// The kernel tells of what is done through the mount, whoever does it, and has no other way to be
/// told. So what another device did is done once more: by a thread of its own, after the catalog
/// has the change and the kernel has forgotten what it believed. `EchoStage` makes that thread see
/// the names as they were before, and its operation be answered as done: nothing is changed by it.
/// Whatever the kernel learns from these answers it may believe for no time, so that it asks again.
///
/// Nothing of it is needed for anything else: where it does not work, the change is there all the
/// same, and goes untold. It does nothing where nobody watches.
final class ChangeEcho: Sendable {
  /// Of a batch with more changes in watched directories none is told: who watches has to look
  /// anyway.
  private static let limit = 1000
  /// Batches that wait. The thread may itself have to wait, for a program that keeps a directory
  /// locked.
  private static let queueLimit = 100
  private static let attempts = 4
  /// A batch of so many changes is told without a look where reading the watches would be too late.
  private static let blindLimit = 50
  /// For so many nanoseconds a batch waits for the watches to be read, at most.
  private static let watchesWait: UInt64 = 5_000_000_000

  private struct State {
    var waiting = 0
    var isPaused = false
    var watches = InodeWatches()
    /// When the last reading of the watches began. It has those that were there then.
    var watchesRead: UInt64 = 0
    var budget = WatchReadingBudget()
  }

  let stage: EchoStage
  private let fileSystem: ContainerFileSystem
  private let mountpoint: Mountpoint
  private let notifier: Lock<FuseNotifier?> = Lock(nil)
  private let queue = WorkQueue()
  private let state = Lock(State())
  private let isIdle = Gate(open: true)

  init(_ fileSystem: ContainerFileSystem, mountpoint: Mountpoint) {
    self.fileSystem = fileSystem
    self.mountpoint = mountpoint
    stage = EchoStage(record: fileSystem.record)
  }

  deinit { queue.stop() }

  func setNotifier(_ notifier: FuseNotifier) { self.notifier.withLock { $0 = notifier } }

  /// Returns at once. The invalidations that the changes need are under way already.
  func announce(_ changes: [ItemChange]) {
    let hasRoom = state.withLock { state in
      guard state.waiting < Self.queueLimit else { return false }
      state.waiting += 1
      return true
    }
    guard hasRoom else { return }
    let time = monotonicNanoseconds()
    queue.add { [self] in
      defer { state.withLock { $0.waiting -= 1 } }
      play(changes, announced: time)
    }
  }

  /// Nothing is done in the mount any more until `resume`: it would keep it from being unmounted.
  func pause() {
    state.withLock { $0.isPaused = true }
    _ = isIdle.wait(milliseconds: 2000)
  }

  func resume() { state.withLock { $0.isPaused = false } }

  private var isPaused: Bool { state.withLock { $0.isPaused } }

  // MARK: A batch

  private func play(_ changes: [ItemChange], announced: UInt64) {
    guard let mount = mountpoint.topMount(), mount.type == MountedFileSystem.ubiquityType else {
      return
    }
    let watches = watches(mount.device, for: changes.count, at: announced)
    guard !watches.isEmpty else { return }
    let told = changes.filter { Self.concerns($0, watches) }
    guard !told.isEmpty, told.count <= Self.limit, settle([]) else { return }
    isIdle.close()
    // What it holds open is closed when it returns, and an unmount may go on.
    play(told, of: changes)
    isIdle.open()
  }

  private func play(_ told: [ItemChange], of changes: [ItemChange]) {
    guard !isPaused, let thread = Self.thread else { return }
    stage.begin(thread: thread)
    defer { stage.end() }
    guard let root = try? OpenFile.open(mountpoint.path, flags: Self.path | O_DIRECTORY),
      isProven(root)
    else { return }
    let run = EchoRun(
      changes, told, root: root, stage: stage, catalog: fileSystem.coordinator.catalog,
      settle: { self.settle($0) })
    for change in told {
      guard !isPaused else { return }
      for _ in 0..<Self.attempts {
        if run.play(change) != .again { break }
      }
    }
  }

  private static func concerns(_ change: ItemChange, _ watches: InodeWatches) -> Bool {
    var numbers = [change.parent, change.number]
    if case .moved(let parent, _) = change.what { numbers.append(parent) }
    return numbers.contains { watches.contains($0.rawValue) }
  }

  /// The watches that there were when a batch was announced, or later ones.
  ///
  /// Reading them goes through all descriptors of all processes, so it has a budget. A batch waits
  /// until the next reading is allowed, which serves all batches that wait. If it would wait too
  /// long, or too many wait, a small batch is told without a look. A large one gets the result of
  /// the last reading, and a watch that was added since is not told.
  private func watches(_ device: String, for changes: Int, at announced: UInt64) -> InodeWatches {
    let time = monotonicNanoseconds()
    let (known, pause) = state.withLock { state -> (InodeWatches?, UInt64) in
      if state.watchesRead >= announced { return (state.watches, 0) }
      let pause = state.budget.pause(at: time)
      guard pause > 0 else { return (nil, 0) }
      let mayWait = pause <= Self.watchesWait && state.waiting <= Self.queueLimit / 2
      if mayWait { return (nil, pause) }
      return (changes <= Self.blindLimit ? .everything : state.watches, 0)
    }
    if let known { return known }
    if pause > 0 { usleep(UInt32(pause / 1000)) }
    let (began, before) = (monotonicNanoseconds(), threadProcessorNanoseconds())
    let read = InodeWatches.read(ofDevice: device)
    let processor = threadProcessorNanoseconds() - before
    state.withLock { state in
      state.watches = read
      state.watchesRead = began
      state.budget.note(began: began, processor: processor)
    }
    return read
  }

  /// Has the kernel forget the places; false when it does not in time.
  private func settle(_ places: [EchoPlace]) -> Bool {
    guard let notifier = notifier.withLock({ $0 }) else { return false }
    if !places.isEmpty {
      notifier.send(places.map { .entry(parent: $0.parent, name: $0.name) })
    }
    return notifier.flush(milliseconds: 2000)
  }

  /// Whether what is open is this mount, and its requests say which thread they are of: what the
  /// thread does would be done in earnest otherwise. They do not say it where the daemon's
  /// processes have numbers of their own, as in some containers.
  private func isProven(_ root: OpenFile) -> Bool {
    let name = ".ubiquityfs-echo-\(UInt64.random(in: 0 ... .max))"
    let place = EchoPlace(parent: InodeNumber.root.rawValue, name: Array(name.utf8))
    stage.expect(nil, where: [place: .absent])
    var status = Glibc.stat()
    _ = fstatat(root.descriptor, name, &status, EchoRun.noFollow)
    return stage.wasAsked
  }

  /// `O_PATH` of open(2), which needs `_GNU_SOURCE`.
  static let path: Int32 = 0x200000

  private static var thread: Int32? {
    Files.linkTarget("/proc/thread-self")?.split(separator: "/").last.flatMap { Int32($0) }
  }
}
