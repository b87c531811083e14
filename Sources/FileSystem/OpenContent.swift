internal import Catalog
internal import ContentStore
internal import Model
internal import Platform
internal import Synchronization
internal import SystemPackage

/// The content of an inode that is open, shared by all its handles.
///
/// The generation is that of the moment of the first open. Once anything of it could be read it
/// stays while anything has the inode open, because a remote change gives the path a new inode
/// then; only truncating a placeholder to nothing, which is a change of ours, starts a new one.
/// From remote it can become local.
///
/// Of content that the kernel reads and writes itself see `OpenContent+Kernel.swift`.
///
/// Lock order: this lock, then the catalog's, the content store's or the connection's to register a
/// file. Never held over a reply, over the node table's lock, or over a read or write of the file.
final class OpenContent: Sendable {
  /// Where the bytes come from.
  enum Bytes {
    /// The file, and whether it is open for writing.
    case file(OpenFile)
    /// The file is local and empty and there is nothing on the disk yet.
    case nothing
    /// Not here: only `range` of it would be needed.
    case missing(size: UInt64)
  }

  struct State {
    var key: ContentKey
    var isLocal: Bool
    /// Of a placeholder.
    var size: UInt64
    /// Some of it was there to be read.
    var wasRead = false
    /// Both may be closed at any time while they are not in use (`closeDescriptors`).
    var reader: OpenFile?
    var writer: OpenFile?
    /// `writer` was closed before the last handle that could write.
    var hasLostWriter = false
    /// Handles that can write.
    var writers = 0
    /// The catalog was told that the bytes may differ from the version of its row.
    var isMarked = false
    /// Handles whose close is not told, so that nothing can be committed then.
    var unflushed = 0
    /// Counts the changes that a close has to find committed, and says how many of them are.
    var changes: UInt64 = 0
    var committed: UInt64 = 0
    var isNameDurable = false
    /// Counts what may have changed the bytes, and says how many of that is durable; nil when what
    /// former opens wrote may not be.
    var writes: UInt64 = 0
    /// The bytes changed, which who listens is told when nobody writes any more.
    var isToBeTold = false
    var synchronized: UInt64?
    var kernel = KernelUse()
    /// What the row was last told that the file takes on the disk; nil before.
    var blocks: UInt64?
    /// The gap of a change of length, and up to where the kernel may have pages: see `MappedTail`.
    var tail: Range<UInt64>?
    var cachedUpTo: UInt64
  }

  let number: InodeNumber
  let catalog: ContainerCatalog
  let store: ContentFiles
  let state: Lock<State>
  /// When the bytes were last used, by `monotonicNanoseconds`.
  private let used = Atomic<UInt64>(0)

  /// `cachedUpTo`: up to where the kernel may have pages from earlier opens.
  init(
    _ inode: Inode, catalog: ContainerCatalog, store: ContentFiles, cachedUpTo: UInt64 = 0
  ) {
    number = inode.number
    self.catalog = catalog
    self.store = store
    state = Lock(
      State(
        key: ContentKey(item: inode.item, generation: inode.generation),
        isLocal: inode.content == .local, size: inode.size, cachedUpTo: cachedUpTo))
  }

  deinit { store.descriptors.forget(ObjectIdentifier(self)) }

  // MARK: Reading

  /// What holds `range`; with a placeholder, the partial file when all of it is there.
  /// `isForPages`: the kernel keeps what it gets in its cache.
  func bytes(for range: Range<UInt64>, isForPages: Bool) throws(Errno) -> Bytes {
    try state.withLock { (state) throws(Errno) in
      if isForPages {
        state.cachedUpTo = max(state.cachedUpTo, range.upperBound)
        if let tail = state.tail, MappedTail.page(of: tail).overlaps(range) { state.tail = nil }
      }
      if !state.isLocal {
        if let partial = store.existingPartial(state.key), partial.isPresent(range) {
          do throws(Errno) {
            let file = try partial.file()
            state.wasRead = true
            return .file(file)
          } catch .staleNFSFileHandle {}
        }
        guard try becameLocal(&state) else { return .missing(size: state.size) }
      }
      return try localBytes(&state)
    }
  }

  /// Whether the content is whole here.
  func isLocal() throws(Errno) -> Bool {
    try state.withLock { (state) throws(Errno) in
      if state.isLocal { return true }
      return try becameLocal(&state)
    }
  }

  /// The partial content of a placeholder; nil when nothing of it is here, or all.
  func partial() -> PartialContent? {
    state.withLock { $0.isLocal ? nil : store.existingPartial($0.key) }
  }

  private func localBytes(_ state: inout State) throws(Errno) -> Bytes {
    used.store(monotonicNanoseconds(), ordering: .relaxed)
    if let file = state.writer ?? state.reader { return .file(file) }
    do {
      let file = try store.open(state.key, writable: false)
      keep(reader: file, &state)
      return .file(file)
    } catch .noSuchFileOrDirectory {
      if try renewKey(&state) { return try localBytes(&state) }
      // An empty file has no content file before its first write.
      guard try catalog.inode(number).size == 0 else { throw Errno.ioError }
      return .nothing
    }
  }

  /// The file stands for another item now: its content is under another key.
  func rekey(from old: ContentKey, to new: ContentKey) {
    state.withLock { if $0.key == old { $0.key = new } }
  }

  /// Of an open that came in between. Whether the key was another one.
  func renewKey(_ state: inout State) throws(Errno) -> Bool {
    let inode = try catalog.inode(number)
    guard inode.generation == state.key.generation, inode.item != state.key.item else {
      return false
    }
    state.key = ContentKey(item: inode.item, generation: inode.generation)
    return true
  }

  /// Asks the catalog whether a download made the content local since.
  func becameLocal(_ state: inout State) throws(Errno) -> Bool {
    let inode = try catalog.inode(number)
    if inode.generation != state.key.generation {
      // What was only announced gives way to what was sent, since nobody can have read any of it.
      guard !state.wasRead else { throw Errno.staleNFSFileHandle }
      state.key = ContentKey(item: inode.item, generation: inode.generation)
      state.size = inode.size
    }
    if inode.content == .remote {
      guard inode.size == 0 else { return false }
      // Nothing to fetch.
      guard try catalog.markContentLocal(number, generation: inode.generation) else {
        return false
      }
    }
    state.isLocal = true
    return true
  }

  // MARK: Writing

  /// The file to write to; nil while the content is not local.
  func writer() throws(Errno) -> OpenFile? {
    try state.withLock { (state) throws(Errno) in
      if !state.isLocal { guard try becameLocal(&state) else { return nil } }
      try beginChange(&state)
      state.writes += 1
      used.store(monotonicNanoseconds(), ordering: .relaxed)
      if let file = state.writer { return file }
      // Only what is empty can have no content file yet.
      _ = try renewKey(&state)
      let isEmpty = try catalog.inode(number).size == 0
      let file = try store.open(state.key, writable: true, create: isEmpty)
      keep(writer: file, &state)
      return file
    }
  }

  func beginChange(_ state: inout State) throws(Errno) {
    // What is no version has no mark: its size is read back at a start after a crash anyway.
    guard !state.isMarked, try catalog.inode(number).version != nil else { return }
    try catalog.noteWriteBegan(number)
    // Durably: bytes written in place may be on the disk after a power cut, and without the mark
    // they would pass for those of the version that the row names.
    try catalog.commit(durable: true)
    FaultPoint.reach("write.marked")
    state.isMarked = true
  }

  /// Up to where the kernel may have pages. An open that keeps the kernel's cache keeps this too.
  var cachedUpTo: UInt64 { state.withLock { $0.cachedUpTo } }

  /// The file grew past a page that the kernel is made to drop: from here on only later reads of it
  /// count.
  func noteGrowth(_ growth: Growth) {
    state.withLock { state in
      state.tail = growth.gap
      state.cachedUpTo = min(state.cachedUpTo, growth.page.lowerBound)
    }
  }

  /// The length changes: the gap has to read as zeros. The kernel drops the pages after it.
  func noteResize(to size: UInt64, tail: Range<UInt64>?) {
    state.withLock { state in
      state.tail = tail
      state.cachedUpTo = min(state.cachedUpTo, MappedTail.pages(upTo: size))
    }
  }

  /// A program wrote; nil: the kernel has none of the bytes. It keeps the whole pages among them.
  func noteProgramWrite(_ range: Range<UInt64>?) {
    state.withLock { state in
      guard let range else {
        state.tail = nil
        return
      }
      if let tail = state.tail, MappedTail.page(of: tail).overlaps(range) { state.tail = nil }
      guard let pages = MappedTail.wholePages(in: range) else { return }
      state.cachedUpTo = max(state.cachedUpTo, pages.upperBound)
    }
  }

  /// After a page was written back over `range`: takes out of the file what a mapping had stored
  /// past the former end of it.
  func clearTail(of file: OpenFile, in range: Range<UInt64>) throws(Errno) {
    let found = state.withLock { state -> Range<UInt64>? in
      guard let tail = state.tail, tail.overlaps(range) else { return nil }
      state.tail = nil
      return tail.clamped(to: range)
    }
    guard let found else { return }
    try file.write([UInt8](repeating: 0, count: found.count), at: found.lowerBound)
  }

  /// Tells the catalog the file's length after a change. The length is asked of the file itself,
  /// under the lock, so that of changes side by side the last to be noted is right.
  func noteChange(of file: OpenFile, at time: Timestamp) throws(Errno) {
    try state.withLock { (state) throws(Errno) in
      // Once more: a synchronisation may have begun before the bytes were there.
      state.writes += 1
      let stamp = FileStamp(try file.status())
      try catalog.noteContentChange(
        number, size: stamp.size, blocks: stamp.blocks, modified: time)
      state.blocks = stamp.blocks
      state.kernel.seen(stamp)
      state.changes += 1
      state.isToBeTold = true
    }
  }

  /// Makes the content empty. A placeholder's is dropped unseen, for a new generation.
  func truncateToNothing(at time: Timestamp) throws(Errno) {
    try state.withLock { (state) throws(Errno) in
      if !state.isLocal { _ = try becameLocal(&state) }
      try beginChange(&state)
      state.writes += 1
      // The kernel drops all pages.
      (state.tail, state.cachedUpTo) = (nil, 0)
      if state.isLocal {
        let file = try existingWriter(&state)
        try file?.truncate(to: 0)
        FaultPoint.reach("truncate.emptied")
        let stamp = try file.map { (file) throws(Errno) in FileStamp(try file.status()) }
        try catalog.noteContentChange(
          number, size: 0, blocks: stamp?.blocks ?? 0, modified: time)
        state.blocks = stamp?.blocks ?? 0
        if let stamp { state.kernel.seen(stamp) }
      } else {
        let old = state.key
        let made = try catalog.replaceContent(number).inode
        FaultPoint.reach("truncate.replaced")
        state.key = ContentKey(item: made.item, generation: made.generation)
        state.isLocal = true
        state.reader = nil
        state.writer = nil
        state.blocks = 0
        state.isNameDurable = false
        state.synchronized = nil
        catalog.afterDurableCommit { [store] in try? store.remove(old) }
      }
      state.changes += 1
      state.isToBeTold = true
    }
  }

  /// Like `writer` for local content, but an empty file that has no content file is left so.
  private func existingWriter(_ state: inout State) throws(Errno) -> OpenFile? {
    if let file = state.writer { return file }
    do {
      let file = try store.open(state.key, writable: true)
      keep(writer: file, &state)
      return file
    } catch .noSuchFileOrDirectory {
      return nil
    }
  }

  func beginWriting() { state.withLock { $0.writers += 1 } }

  /// Since something last wrote to it and nothing did any more.
  var hasChanged: Bool { state.withLock { $0.isToBeTold } }

  /// With the last handle that could write the descriptor goes, so that the sync engine can see
  /// whether anything else still writes to the file. Whether that ends a change.
  func endWriting() -> Bool {
    state.withLock { state in
      state.writers -= 1
      guard state.writers == 0 else { return false }
      defer { state.isToBeTold = false }
      if let file = state.writer {
        noteBlocks(try? file.blocks(), &state)
      } else if state.hasLostWriter {
        noteBlocks(try? store.blocks(state.key), &state)
      }
      state.hasLostWriter = false
      state.writer = nil
      guard state.isMarked else { return state.isToBeTold }
      state.isMarked = false
      // A mark that stays only makes the next start look at the file.
      try? catalog.noteWriteEnded(number)
      return state.isToBeTold
    }
  }

  /// At the end of all writing the row has to say what the file takes on the disk, for from then on
  /// the row is what is asked. A write that failed half-way may have changed it unnoted, and so may
  /// the local file system by itself.
  func noteBlocks(_ blocks: UInt64?, _ state: inout State) {
    if let blocks, blocks == state.blocks { return }
    try? catalog.noteBlocks(state.key, of: number, blocks)
    state.blocks = blocks
  }

  // MARK: Durability

  /// A handle whose close is not told.
  func beginUnflushed() { state.withLock { $0.unflushed += 1 } }
  func endUnflushed() { state.withLock { $0.unflushed -= 1 } }

  /// The inode was changed in the catalog other than through this object. A close has to find that
  /// committed; where a close may pass unseen, it is committed now.
  func noteChange() throws(Errno) {
    let isNow = state.withLock { state in
      state.changes += 1
      return state.unflushed > 0
    }
    if isNow { try commitChanges() }
  }

  /// Returns when every change that was noted before the call is committed, whoever did it.
  func commitChanges() throws(Errno) {
    let seen = state.withLock { $0.changes == $0.committed ? nil : $0.changes }
    guard let seen else { return }
    try catalog.commit(durable: false)
    // Not what was changed meanwhile; and after an error nothing.
    state.withLock { $0.committed = max($0.committed, seen) }
  }

  private struct Unsynchronized {
    let file: OpenFile
    let key: ContentKey
    let isNameDurable: Bool
    let writes: UInt64
  }

  /// Makes the bytes durable, where they may not be; the catalog is the caller's to commit.
  func synchronize(dataOnly: Bool) throws(Errno) {
    let found = try state.withLock { (state) throws(Errno) -> Unsynchronized? in
      guard state.isLocal, try mayBeVolatile(state), case .file(let file) = try localBytes(&state)
      else { return nil }
      return Unsynchronized(
        file: file, key: state.key, isNameDurable: state.isNameDurable, writes: state.writes)
    }
    guard let found else { return }
    if !found.isNameDurable {
      try store.synchronize(found.key, found.file)
    } else if dataOnly {
      try found.file.synchronizeData()
    } else {
      try found.file.synchronize()
    }
    state.withLock { state in
      guard state.key == found.key else { return }
      state.isNameDurable = true
      state.synchronized = max(state.synchronized ?? 0, found.writes)
    }
  }

  /// Whether a power cut may take bytes: not of what was synchronised and not written since, nor of
  /// what has a version, which is durable before it gets one. What the kernel writes nobody counts.
  private func mayBeVolatile(_ state: State) throws(Errno) -> Bool {
    if state.kernel.watch != nil { return true }
    if let synchronized = state.synchronized { return synchronized != state.writes }
    guard state.writes == 0, !state.isMarked else { return true }
    return try catalog.inode(number).version == nil
  }

  /// 512-byte blocks of what is here.
  func blocks() -> UInt64 {
    let (file, key, isLocal) = state.withLock { ($0.writer ?? $0.reader, $0.key, $0.isLocal) }
    if let file, let blocks = try? file.blocks() { return blocks }
    // A download that ended while this is open leaves no partial content, and a whole file.
    if !isLocal, let partial = store.existingPartial(key) {
      return (try? partial.blocks()) ?? 0
    }
    return (try? store.blocks(key)) ?? 0
  }
}

// MARK: Descriptors

extension OpenContent: DescriptorHolder {
  var lastUse: UInt64 { used.load(ordering: .relaxed) }

  func closeDescriptors() -> Bool {
    state.withLockIfFree { state in
      guard state.reader != nil || state.writer != nil else { return false }
      state.hasLostWriter = state.hasLostWriter || state.writer != nil
      state.reader = nil
      state.writer = nil
      return true
    } ?? false
  }

  func keep(reader file: OpenFile, _ state: inout State) {
    state.reader = file
    store.descriptors.opened(self)
  }

  private func keep(writer file: OpenFile, _ state: inout State) {
    state.writer = file
    // One descriptor serves both; readers in flight keep theirs.
    state.reader = nil
    store.descriptors.opened(self)
  }

  /// A read-only descriptor of local content, which does not count as a writer itself.
  func readOnlyFile(_ state: inout State) throws(Errno) -> OpenFile {
    used.store(monotonicNanoseconds(), ordering: .relaxed)
    if let file = state.reader { return file }
    do throws(Errno) {
      let file = try store.open(state.key, writable: false)
      keep(reader: file, &state)
      return file
    } catch .noSuchFileOrDirectory {
      guard try renewKey(&state) else { throw .noSuchFileOrDirectory }
      let file = try store.open(state.key, writable: false)
      keep(reader: file, &state)
      return file
    }
  }
}
