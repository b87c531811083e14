internal import Catalog
internal import ContentStore
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// What `fstat` says of a content file that changes with its bytes.
struct FileStamp: Equatable {
  let size: UInt64
  let modified: Int64
  let changed: Int64
  /// Of 512 bytes. No part of what is compared: the local file system changes it by itself.
  let blocks: UInt64
  /// The file gets a second name and loses the first when it comes to stand for another item.
  let links: UInt64

  init(_ status: stat) {
    size = UInt64(max(0, status.st_size))
    modified = Int64(status.st_mtim.tv_sec) * 1_000_000_000 + Int64(status.st_mtim.tv_nsec)
    changed = Int64(status.st_ctim.tv_sec) * 1_000_000_000 + Int64(status.st_ctim.tv_nsec)
    blocks = UInt64(max(0, status.st_blocks))
    links = UInt64(status.st_nlink)
  }

  static func == (left: Self, right: Self) -> Bool {
    // Another number of names is a change too, and not one of the content, which shows in its own time.
    left.size == right.size && left.modified == right.modified
      && (left.changed == right.changed || left.links != right.links)
  }
}

/// The kernel's opens of an inode, and what it may do to the content unseen.
///
/// States: no open; opens that the daemon serves (`backing` is nil); opens that the kernel serves. An
/// inode goes from one of the latter two to the other only by way of the first. `watch` begins with
/// the first open for writing that the kernel serves and ends when nothing can write to the file any
/// more, which may be after the last close (`LingeringWriters`).
struct KernelUse {
  struct Backing {
    let id: Int32
    let file: OpenFile
    let service: any ContentPassthrough
  }

  struct Watch {
    /// Read-only, so that it does not count as a writer itself.
    let file: OpenFile
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
  /// The kernel's clock for file times ticks this often at the least.
  private static var tick: Int64 { 20_000_000 }

  /// Notes an open by the kernel and gives the number of the file that it is to use, or nil when it is
  /// to ask. To be balanced by `endKernelOpen`. `isChanging` begins with the first writer.
  func beginKernelOpen(
    writing: Bool, through service: (any ContentPassthrough)?, now: Timestamp
  ) throws(Errno) -> Int32? {
    try state.withLock { (state) throws(Errno) in
      if state.kernel.opens == 0, let service {
        state.kernel.backing = try makeBacking(&state, writing: writing, service)
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
            let stamp = FileStamp(try backing.file.status())
            state.kernel.watch = KernelUse.Watch(
              file: backing.file, seen: stamp,
              mayHaveMissed: abs(now.nanoseconds - stamp.modified) < Self.tick)
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

  /// A file up to this size that is opened for reading alone is left to the kernel's page cache: opening
  /// its content file and making it known costs more than the one READ, which later opens spare.
  private static var smallSize: UInt64 { 64 << 10 }

  /// Nil where the daemon is to serve: content that is not whole here, none at all, and what is small.
  private func makeBacking(
    _ state: inout State, writing: Bool, _ service: any ContentPassthrough
  ) throws(Errno) -> KernelUse.Backing? {
    if !state.isLocal { guard try becameLocal(&state) else { return nil } }
    // Pages would not follow a mapping that can still write to the content file.
    if !writing, state.kernel.watch == nil, try catalog.inode(number).size <= Self.smallSize {
      return nil
    }
    let file: OpenFile
    if let open = state.reader ?? state.kernel.watch?.file {
      file = open
    } else {
      _ = try renewKey(&state)
      // Only what is empty can have no content file yet.
      let isMade = writing ? try catalog.inode(number).size == 0 : false
      do {
        file = try store.open(state.key, writable: false, create: isMade)
      } catch .noSuchFileOrDirectory {
        return nil
      }
      if state.writer == nil { state.reader = file }
    }
    guard let id = try? service.register(file) else { return nil }
    return KernelUse.Backing(id: id, file: file, service: service)
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
      guard let watch = state.kernel.watch, state.kernel.writers == 0 else { return true }
      // Ours would count as one.
      state.writer = nil
      do throws(Errno) {
        // In this order: what was written before there was no writer is seen.
        let isWritten = try watch.file.hasWriter()
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

  /// The mount ends while something can still write to the file. The row counts as changed, so that the
  /// content is uploaded when that is over.
  func abandonWriting() {
    state.withLock { state in
      guard let watch = state.kernel.watch, state.kernel.writers == 0 else { return }
      state.kernel.watch = nil
      guard let stamp = try? FileStamp(watch.file.status()) else { return }
      try? note(stamp, &state)
      // They go on changing, and nobody is there to see it.
      try? catalog.noteBlocks(state.key, of: number, nil)
    }
  }

  // MARK: The row

  /// The inode as it is now, given as its row was a moment ago; the 512-byte blocks of what is here; and
  /// whether the kernel may change both any moment.
  func current(_ inode: Inode) -> (inode: Inode, blocks: UInt64, isChanging: Bool) {
    let (now, seen, isChanging) = state.withLock { state in
      let isChanging = state.kernel.watch != nil
      let stamp = isChanging ? try? look(&state) : nil
      // Read again in every case: as it was given it may be from before somebody else looked.
      return ((try? catalog.inode(number)) ?? inode, stamp?.blocks, isChanging)
    }
    return (now, seen ?? blocks(), isChanging)
  }

  /// Brings the row up to date with what the kernel wrote. Set-user-ID bits are none of it: before a
  /// write by one who may not keep them the kernel says so (`setStatus` with no change).
  func look() throws(Errno) {
    try state.withLock { (state) throws(Errno) in _ = try look(&state) }
  }

  /// Gives the file as it is; nil when the kernel cannot have written to it.
  private func look(
    _ state: inout State, isLast: Bool = false
  ) throws(Errno) -> FileStamp? {
    guard let watch = state.kernel.watch else { return nil }
    let stamp = FileStamp(try watch.file.status())
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
    // The file's clock is the kernel's coarse one: it may be a little behind ours, and time is not to
    // go back because of that, nor stand still. A time that was set on purpose is further away.
    let known = before.modified.nanoseconds
    let isBehind = stamp.modified < known && known - stamp.modified < Self.tick
    try catalog.noteContentChange(
      number, size: stamp.size, blocks: stamp.blocks,
      modified: isBehind
        ? Timestamp(nanoseconds: known + 1) : Timestamp(nanoseconds: stamp.modified))
    state.blocks = stamp.blocks
    state.kernel.seen(stamp)
    state.changes += 1
  }
}
