internal import Catalog
internal import ContentStore
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// The kernel's opens of an inode, and what it may do to the content unseen.
///
/// States: no open; opens that the daemon serves (`backing` is nil); opens that the kernel serves.
/// An inode goes from one of the latter two to the other only by way of the first. `watch` begins
/// with the first open for writing that the kernel serves and ends when nothing can write to the
/// file any more, which may be after the last close (`LingeringWriters`).
struct KernelUse {
  struct Backing {
    let id: Int32
    let service: any ContentPassthrough
  }

  struct Watch {
    /// The file when the row was last brought up to date.
    var seen: FileStamp
    /// A change in the first moment might not have moved the file's time.
    let mayHaveMissed: Bool
  }

  var opens = 0
  var backing: Backing?
  var watch: Watch?
  /// Opens for writing that the kernel serves.
  var writers = 0

  mutating func seen(_ stamp: FileStamp) { watch?.seen = stamp }
}

extension OpenContent {
  /// Notes an open by the kernel and gives the number of the file that it is to use, or nil when it
  /// is to ask. To be balanced by `endKernelOpen`. `isChanging` begins with the first writer.
  /// `isWrittenUnseen`: something outside of this mount writes to the content file.
  func beginKernelOpen(
    writing: Bool, through service: (any ContentPassthrough)?, now: Timestamp,
    isWrittenUnseen: Bool = false
  ) throws(Errno) -> Int32? {
    try state.withLock { (state) throws(Errno) in
      if state.kernel.opens == 0, let service {
        state.kernel.backing = try makeBacking(
          &state, mayBeCached: !writing && !isWrittenUnseen, creates: writing, service)
      }
      guard let backing = state.kernel.backing else {
        state.kernel.opens += 1
        return nil
      }
      if writing {
        do throws(Errno) {
          // Its writes pass unseen, so they count from here on.
          try beginChange(&state)
          if state.kernel.watch == nil {
            let stamp = FileStamp(try readOnlyFile(&state).status())
            state.kernel.watch = KernelUse.Watch(
              seen: stamp,
              mayHaveMissed: abs(now.nanoseconds(since: stamp.modified)) < FileStamp.tick)
          }
        } catch {
          dropBacking(&state)
          throw error
        }
        state.kernel.writers += 1
      }
      state.kernel.opens += 1
      return backing.id
    }
  }

  /// An open that an earlier daemon answered, with the number of the file that the kernel uses for
  /// it. `start` is a time before the rows were brought up to date with the files.
  func restoreKernelOpen(
    writing: Bool, backing: Int32?, through service: (any ContentPassthrough)?, start: Timestamp
  ) throws(Errno) {
    try state.withLock { (state) throws(Errno) in
      // Nothing tells what of a placeholder was read: it is not to become another one.
      state.wasRead = true
      if let backing, let service {
        state.kernel.backing = KernelUse.Backing(id: backing, service: service)
        if writing {
          if state.kernel.watch == nil { try restoreWatch(&state, start) }
          state.kernel.writers += 1
        }
      }
      state.kernel.opens += 1
    }
  }

  private func restoreWatch(_ state: inout State, _ start: Timestamp) throws(Errno) {
    let row = try catalog.inode(number)
    if row.version != nil {
      // The caller makes it durable.
      try catalog.noteWriteBegan(number)
      state.isMarked = true
    }
    let stamp = FileStamp(try readOnlyFile(&state).status())
    state.kernel.watch = KernelUse.Watch(seen: stamp, mayHaveMissed: true)
    let isLater = stamp.modified.nanoseconds(since: start) > -1_000_000_000
    if stamp.size != row.size || isLater { try note(stamp, &state) }
  }

  /// A file up to this size that is opened for reading alone is left to the kernel's page cache:
  /// opening its content file and making it known costs more than the one READ, which later opens
  /// spare.
  private static var smallSize: UInt64 { 64 << 10 }

  /// Nil where the daemon is to serve: content that is not whole here, none at all, and what is
  /// small.
  private func makeBacking(
    _ state: inout State, mayBeCached: Bool, creates: Bool, _ service: any ContentPassthrough
  ) throws(Errno) -> KernelUse.Backing? {
    if !state.isLocal { guard try becameLocal(&state) else { return nil } }
    // Pages would not follow a mapping that can still write to the content file.
    if mayBeCached, state.kernel.watch == nil, try catalog.inode(number).size <= Self.smallSize {
      return nil
    }
    let file: OpenFile
    if let open = state.reader {
      file = open
    } else {
      _ = try renewKey(&state)
      // Only what is empty can have no content file yet.
      let isMade = creates ? try catalog.inode(number).size == 0 : false
      do {
        file = try store.open(state.key, writable: false, create: isMade)
      } catch .noSuchFileOrDirectory {
        return nil
      }
      if state.writer == nil { keep(reader: file, &state) }
    }
    guard let id = try? service.register(file) else { return nil }
    return KernelUse.Backing(id: id, service: service)
  }

  private func dropBacking(_ state: inout State) {
    guard state.kernel.opens == 0, let backing = state.kernel.backing else { return }
    backing.service.unregister(backing.id)
    state.kernel.backing = nil
  }

  func endKernelOpen(writing: Bool) {
    state.withLock { state in
      state.kernel.opens -= 1
      if writing, state.kernel.backing != nil { state.kernel.writers -= 1 }
      dropBacking(&state)
    }
  }

  /// After `endKernelOpen` of an open for writing that the kernel served: whether nothing can write
  /// to the file any more, or others have it open for writing. The row is up to date then.
  func endsUnseenWriting() -> Bool {
    state.withLock { state in
      guard state.kernel.watch != nil, state.kernel.writers == 0 else { return true }
      // Ours would count as one.
      state.writer = nil
      do throws(Errno) {
        // In this order: what was written before there was no writer is seen.
        let isWritten = try readOnlyFile(&state).hasWriter()
        let stamp = try look(&state, isLast: !isWritten)
        guard !isWritten else { return false }
        noteBlocks(stamp?.blocks, &state)
      } catch {
        return false
      }
      state.kernel.watch = nil
      return true
    }
  }

  /// The mount ends while something can still write to the file. The row counts as changed, so that
  /// the content is uploaded when that is over. Gives the file to follow until then.
  func abandonWriting() -> (file: OpenFile, seen: FileStamp)? {
    state.withLock { state in
      guard let watch = state.kernel.watch, state.kernel.writers == 0 else { return nil }
      guard let file = try? readOnlyFile(&state) else {
        state.kernel.watch = nil
        return nil
      }
      state.kernel.watch = nil
      let seen = (try? FileStamp(file.status())) ?? watch.seen
      try? note(seen, &state)
      return (file, seen)
    }
  }

  // MARK: The row

  /// The inode as it is now, given as its row was a moment ago; the 512-byte blocks of what is
  /// here; and whether the kernel may change both any moment.
  func current(_ inode: Inode) -> (inode: Inode, blocks: UInt64, isChanging: Bool) {
    let (now, seen, isChanging) = state.withLock { state in
      let isChanging = state.kernel.watch != nil
      let stamp = isChanging ? try? look(&state) : nil
      // Read again in every case: as it was given it may be from before somebody else looked.
      return ((try? catalog.inode(number)) ?? inode, stamp?.blocks, isChanging)
    }
    return (now, seen ?? blocks(), isChanging)
  }

  /// Brings the row up to date with what the kernel wrote. Set-user-ID bits are none of it: before
  /// a write by one who may not keep them the kernel says so (`setStatus` with no change).
  func look() throws(Errno) {
    try state.withLock { (state) throws(Errno) in _ = try look(&state) }
  }

  /// Gives the file as it is; nil when the kernel cannot have written to it.
  private func look(
    _ state: inout State, isLast: Bool = false
  ) throws(Errno) -> FileStamp? {
    guard let watch = state.kernel.watch else { return nil }
    let file: OpenFile
    if let writer = state.writer { file = writer } else { file = try readOnlyFile(&state) }
    let stamp = FileStamp(try file.status())
    if stamp == watch.seen {
      state.kernel.seen(stamp)
      guard isLast, watch.mayHaveMissed, try catalog.inode(number).version != nil else {
        return stamp
      }
    } else {
      state.isToBeTold = true
    }
    try note(stamp, &state)
    return stamp
  }

  private func note(
    _ stamp: FileStamp, _ state: inout State
  ) throws(Errno) {
    state.writes += 1
    let before = try catalog.inode(number)
    try catalog.noteContentChange(
      number, size: stamp.size, blocks: stamp.blocks,
      modified: stamp.modified(after: before.modified))
    state.blocks = stamp.blocks
    state.kernel.seen(stamp)
    state.changes += 1
  }
}
