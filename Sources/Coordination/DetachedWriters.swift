internal import Catalog
internal import ContentStore
internal import Model
internal import Platform
internal import Synchronization
internal import SystemPackage

/// Writers that outlived their mount.
///
/// The kernel serves opens and mappings of a local file without the daemon (`docs/passthrough.md`).
/// A program can therefore go on writing after its mount, or even the daemon that made the mount,
/// has ended. Invariant: such a file counts as open for writing until a lease says that nothing
/// writes to it any more, and its row follows the file until then. No upload, eviction or remote
/// change can use a row that is behind its file.
///
/// A thread of its own, which exists only while there is such a file, looks at the files. Lock
/// order: this lock, then the catalog's.
final class DetachedWriters: Sendable {
  private struct File {
    let generation: UInt64
    /// Read-only, so that it does not count as a writer itself.
    let file: OpenFile
    /// The file when its row was last brought up to date.
    var seen: FileStamp
    /// Closes the open that the coordinator counts.
    let end: @Sendable () -> Void
  }

  private struct State {
    var files: [InodeNumber: File] = [:]
    var isRunning = false
    var isStopped = false
  }

  private static let shortestDelay = 1
  private static let longestDelay = 200

  private let catalog: ContainerCatalog
  /// Called with no lock held after a row was changed.
  private let changed: @Sendable (InodeNumber) -> Void
  private let state = Lock(State())
  /// So that a request pays one load while there is none.
  private let count = Atomic<Int>(0)
  private let wakeup = Gate()
  private let isIdle = Gate(open: true)

  init(catalog: ContainerCatalog, changed: @escaping @Sendable (InodeNumber) -> Void) {
    self.catalog = catalog
    self.changed = changed
  }

  /// Follows a file until nothing writes to it. Calls `end` then, once; at once where the file is
  /// followed already or after `stop`. The caller has counted an open for writing.
  func follow(
    _ number: InodeNumber, generation: UInt64, _ file: OpenFile, seen: FileStamp,
    end: @escaping @Sendable () -> Void
  ) {
    let (isTaken, mustStart) = state.withLock { state in
      guard !state.isStopped, state.files[number] == nil else { return (false, false) }
      state.files[number] = File(generation: generation, file: file, seen: seen, end: end)
      count.store(state.files.count, ordering: .releasing)
      let mustStart = !state.isRunning
      state.isRunning = true
      if mustStart { isIdle.close() }
      return (true, mustStart)
    }
    guard isTaken else { return end() }
    wakeup.open()
    if mustStart { _ = startThread { self.run() } }
  }

  var numbers: [InodeNumber] {
    guard count.load(ordering: .acquiring) > 0 else { return [] }
    return state.withLock { $0.files.keys.sorted() }
  }

  /// Brings the row of a followed file up to date; false for any other file.
  func look(at number: InodeNumber) -> Bool {
    guard count.load(ordering: .acquiring) > 0 else { return false }
    let result = state.withLock { state -> (isFollowed: Bool, isChanged: Bool) in
      guard state.files[number] != nil else { return (false, false) }
      return (true, (try? bringUpToDate(number, &state)) ?? false)
    }
    if result.isChanged { changed(number) }
    return result.isFollowed
  }

  /// Ends the thread; gives the files that something still writes to. They go on counting as open.
  func stop() -> [InodeNumber] {
    state.withLock { $0.isStopped = true }
    wakeup.open()
    isIdle.wait()
    // A writer may have ended since the thread last looked.
    for number in numbers { _ = lookForEnd(number) }
    return numbers
  }

  private func run() {
    var delay = Self.shortestDelay
    while true {
      if wakeup.wait(milliseconds: delay) {
        wakeup.close()
        delay = Self.shortestDelay
      } else {
        delay = min(delay * 2, Self.longestDelay)
      }
      for number in state.withLock({ $0.isStopped ? [] : Array($0.files.keys) }) {
        _ = lookForEnd(number)
      }
      let isDone = state.withLock { state in
        guard state.files.isEmpty || state.isStopped else { return false }
        state.isRunning = false
        isIdle.open()
        return true
      }
      if isDone { return }
    }
  }

  /// Gives whether nothing writes to the file any more; then it is no longer followed.
  private func lookForEnd(_ number: InodeNumber) -> Bool {
    let (file, isChanged) = state.withLock { state -> (File?, Bool) in
      guard let file = state.files[number] else { return (nil, false) }
      do throws(Errno) {
        // In this order: the last look comes after the last write.
        let isWritten = try file.file.hasWriter()
        let isChanged = try bringUpToDate(number, &state)
        guard !isWritten else { return (nil, isChanged) }
        state.files[number] = nil
        count.store(state.files.count, ordering: .releasing)
        return (file, isChanged)
      } catch {
        // The next look tries again.
        return (nil, false)
      }
    }
    if isChanged { changed(number) }
    file?.end()
    return file != nil
  }

  /// Gives whether the row was behind its file.
  private func bringUpToDate(_ number: InodeNumber, _ state: inout State) throws(Errno) -> Bool {
    guard let file = state.files[number] else { return false }
    var isChanged = false
    // Again after a change: an open of a new mount may have noted a length of a moment before.
    for _ in 0..<8 {
      let stamp = FileStamp(try file.file.status())
      let inode: Catalog.Inode
      do throws(Errno) { inode = try catalog.inode(number) } catch .noSuchFileOrDirectory {
        return isChanged
      }
      guard inode.generation == file.generation, inode.content == .local,
        stamp != state.files[number]?.seen || stamp.size != inode.size
      else { break }
      try catalog.noteContentChange(
        number, size: stamp.size, blocks: stamp.blocks,
        modified: stamp.modified(after: inode.modified))
      state.files[number]?.seen = stamp
      isChanged = true
    }
    return isChanged
  }
}
