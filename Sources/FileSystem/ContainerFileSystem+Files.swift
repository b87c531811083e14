package import Catalog
internal import ContentStore
package import Coordination
internal import Model
package import Platform
package import SystemPackage

/// What a call on an open file works with.
package struct FileRange: Sendable {
  /// Nil when there is nothing to read.
  package let file: OpenFile?
  package let offset: UInt64
  package let count: Int
}

package struct OpenResult: Sendable {
  package let handle: UInt64
  /// What the kernel has in its page cache of this inode is this content.
  package let keepsCache: Bool
  /// Its close is to be told by `flush`. Not of what is opened for reading alone: there the changes
  /// that a program can make, of attributes, are committed as they are made.
  package let needsFlush: Bool
  /// The file that the kernel is to read and write itself, as `ContentPassthrough` numbered it; nil
  /// when it is to ask.
  package let backing: Int32?
  /// Reads and writes are asked for nevertheless; only mappings are the backing file's.
  package let asks: Bool
}

/// How a file is opened: the flags of open(2) that matter here.
package struct OpenMode: Sendable {
  package var canRead: Bool
  package var canWrite: Bool
  package var truncates: Bool
  /// The file must not be there yet; for `create`.
  package var isExclusive: Bool
  /// O_APPEND or O_DIRECT, which fcntl(2) can take back. The kernel would go on as it began in the
  /// backing file: appending, or refusing what is not aligned.
  package var canBeTakenBack: Bool

  /// O_TRUNC changes the file in an open for reading too.
  package var writes: Bool { canWrite || truncates }

  package init(
    canRead: Bool = true, canWrite: Bool = false, truncates: Bool = false,
    isExclusive: Bool = false, canBeTakenBack: Bool = false
  ) {
    self.canRead = canRead
    self.canWrite = canWrite
    self.truncates = truncates
    self.isExclusive = isExclusive
    self.canBeTakenBack = canBeTakenBack
  }
}

extension ContainerFileSystem {
  // MARK: Opening and closing

  /// Opens a file. Nothing is downloaded, O_TRUNC of a placeholder included.
  package func open(_ number: InodeNumber, _ mode: OpenMode, caller: Caller) throws(Errno)
    -> OpenResult
  {
    if let result = openedBefore(caller.request) { return result }
    if mode.truncates, !mode.canWrite {
      // The kernel asked for permission to write. A change of the length is a write of its own
      // here.
      _ = try resize(number, to: 0, caller: caller, isOpen: false)
    }
    let handle = try acquire(
      number, canRead: mode.canRead, canWrite: mode.canWrite, needsFlush: mode.canWrite,
      by: caller.process)
    do throws(Errno) {
      if mode.truncates, mode.canWrite {
        try handle.content.truncateToNothing(at: now())
        try dropPrivileges(number, caller: caller)
        removeCapabilities(number)
      }
      return try begin(handle, mode, caller.request)
    } catch {
      close(handle)
      throw error
    }
  }

  /// Creates and opens a file; one that is there already is opened unless `isExclusive`.
  package func create(
    _ name: [UInt8], in parent: InodeNumber, permissions: UInt16, _ mode: OpenMode, caller: Caller
  ) throws(Errno) -> (FileStatus, OpenResult) {
    if let found = try createdBefore(caller.request) { return found }
    let itemName = try meaning(of: name, in: parent)
    let access = try initialAccess(
      of: .file, mode: permissions, umask: caller.umask, in: parent)
    let new = NewItem(
      kind: .file, mode: access.mode, owner: caller.user, group: caller.group)
    do throws(Errno) {
      let made = try make(itemName, in: parent, new, mode, caller)
      FaultPoint.reach("create.made")
      do throws(Errno) {
        try storeInitialAccess(access, of: made.number)
        let result = try opened(made, mode, caller, isNoted: true)
        coordinator.tell(.created, itemName, in: parent)
        return result
      } catch {
        takeBack(itemName, in: parent, made)
        throw error
      }
    } catch .fileExists where !mode.isExclusive {
      guard let found = try catalog.lookup(itemName, in: parent) else {
        throw Errno.noSuchFileOrDirectory
      }
      guard found.kind == .file else {
        throw found.kind == .directory ? Errno.isDirectory : Errno.fileExists
      }
      let result = try open(found.number, mode, caller: caller)
      let moment = moment
      return (remembered(try inode(found.number), readAt: moment), result)
    }
  }

  /// Makes a file that counts as open from its first moment: else the sync engine could come in
  /// between, take it for one that is empty, and send that.
  private func make(
    _ name: ItemName, in parent: InodeNumber, _ new: NewItem, _ mode: OpenMode, _ caller: Caller
  ) throws(Errno) -> Inode {
    if let number = doneBefore(caller.request) {
      coordinator.opened(number, forWriting: mode.canWrite, by: caller.process)
      return try inode(number)
    }
    var noted: InodeNumber?
    do throws(Errno) {
      return try catalog.create(name, in: parent, new, request: mark(of: caller.request)) {
        number in
        noted = number
        coordinator.opened(number, forWriting: mode.canWrite, by: caller.process)
      }
    } catch {
      if let noted { coordinator.closed(noted, forWriting: mode.canWrite, by: caller.process) }
      throw error
    }
  }

  /// A creation that failed, as where the disk has no room for the content file, leaves no name.
  private func takeBack(_ name: ItemName, in parent: InodeNumber, _ made: Inode) {
    guard let found = try? catalog.lookup(name, in: parent), found.number == made.number,
      let removed = try? catalog.remove(name, in: parent, directory: false), removed.isOrphan
    else { return }
    becameOrphan(removed.number)
  }

  /// Creates and opens a file that has no name. It goes when nothing uses it any more, unless
  /// `link` gave it one meanwhile.
  package func createUnnamed(
    in parent: InodeNumber, permissions: UInt16, _ mode: OpenMode, caller: Caller
  ) throws(Errno) -> (FileStatus, OpenResult) {
    if let found = try createdBefore(caller.request) { return found }
    let access = try initialAccess(
      of: .file, mode: permissions, umask: caller.umask, in: parent)
    let new = NewItem(
      kind: .file, mode: access.mode, owner: caller.user, group: caller.group)
    let made: Inode
    if let done = doneBefore(caller.request) {
      made = try inode(done)
    } else {
      made = try catalog.createUnnamed(in: parent, new, request: mark(of: caller.request))
    }
    do throws(Errno) {
      try storeInitialAccess(access, of: made.number)
      return try opened(made, mode, caller)
    } catch {
      becameOrphan(made.number)
      throw error
    }
  }

  /// Opens what was just made.
  private func opened(
    _ made: Inode, _ mode: OpenMode, _ caller: Caller, isNoted: Bool = false
  ) throws(Errno) -> (FileStatus, OpenResult) {
    let moment = moment
    let handle = try acquire(
      made.number, canRead: mode.canRead, canWrite: mode.canWrite, needsFlush: true,
      isNoted: isNoted, by: caller.process)
    do throws(Errno) {
      // close must not return before the file's being there is committed.
      try handle.content.noteChange()
      let result = try begin(handle, mode, caller.request, isNew: true)
      return (remembered(made, readAt: moment), result)
    } catch {
      close(handle)
      throw error
    }
  }

  /// Makes an open known to the kernel: decides how its I/O is done.
  private func begin(
    _ handle: OpenFileHandle, _ mode: OpenMode, _ request: RequestIdentity, isNew: Bool = false
  ) throws(Errno) -> OpenResult {
    let backing = try handle.content.beginKernelOpen(
      writing: handle.canWrite, through: passthrough.withLock { $0 }, now: now(),
      isWrittenUnseen: coordinator.lookAtDetachedWriter(handle.number))
    handle.began(backing == nil ? .daemon : .kernel)
    let keepsCache: Bool
    if backing == nil {
      keepsCache = try noteCached(handle.number)
    } else {
      // It reads past its pages of the inode, and may write past them.
      nodes.update(handle.number) { $0.cached = nil }
      keepsCache = false
      // What it believes of the file was to hold for good; of a new one it is told with the answer.
      if handle.canWrite, !isNew { coordinator.invalidate([.attributes(handle.number)]) }
    }
    let asks = backing != nil && mode.canBeTakenBack
    // A new file's making is committed, it counts as changed and as open until its release, and
    // what the kernel wrote is read back from the file itself at a start after a crash: closing it
    // has nothing left to do. One that has a version becomes known to be changed when its close
    // looks at it. Where there is a budget, who writes more than is sent is to wait at the close.
    let isTold = isNew && backing != nil && !asks && !coordinator.hasBudget
    let result = OpenResult(
      handle: handles.add(handle), keepsCache: keepsCache,
      needsFlush: handle.needsFlush && !isTold, backing: backing, asks: asks)
    do throws(Errno) {
      try note(result, handle, request)
    } catch {
      _ = handles.remove(result.handle)
      throw error
    }
    FaultPoint.reach("open.recorded")
    return result
  }

  /// Notes an open, then reads the inode: in this order a remote change cannot come in between
  /// unseen. ESTALE when one came before, so that the name means another inode now, unless the
  /// inode `isOpen` already. `isNoted`: the coordinator knows of this open. `cachedUpTo`: of an
  /// inode of which nothing is known, up to where the kernel may have pages.
  func acquire(
    _ number: InodeNumber, canRead: Bool, canWrite: Bool, needsFlush: Bool, isOpen: Bool = false,
    isNoted: Bool = false, by process: Int32 = 0, cachedUpTo: UInt64 = 0
  ) throws(Errno) -> OpenFileHandle {
    if !isNoted { coordinator.opened(number, forWriting: canWrite, by: process) }
    if canWrite { coordinator.noteWriter(number) }
    do throws(Errno) {
      var inode = try inode(number)
      guard inode.kind == .file else {
        throw inode.kind == .directory ? Errno.isDirectory : Errno.noSuchAddressOrDevice
      }
      if !isOpen { try checkNotReplaced(inode) }
      if inode.content == .remote, inode.size == 0 {
        // The kernel asks for no bytes of an empty file: opening it is what brings it here.
        _ = try catalog.markContentLocal(number, generation: inode.generation)
        inode = try self.inode(number)
      }
      let content = nodes.update(number) { state in
        state.openings += 1
        let content =
          state.content
          ?? OpenContent(
            inode, catalog: catalog, store: store,
            cachedUpTo: state.cached == nil ? cachedUpTo : state.cachedUpTo)
        state.content = content
        return content
      }
      if canWrite {
        content.beginWriting()
        coordinator.noteGrowing()
      }
      coordinator.noteUse(number)
      if !needsFlush { content.beginUnflushed() }
      return OpenFileHandle(
        number: number, content: content, canRead: canRead, canWrite: canWrite,
        needsFlush: needsFlush, process: process)
    } catch {
      coordinator.closed(number, forWriting: canWrite, by: process)
      throw error
    }
  }

  /// The kernel may name an inode that a remote change has just taken out from under its name: an
  /// open through the name is to get the new one, since what would be written to the old one goes
  /// nowhere. On ESTALE the kernel looks the path up again. Removed files stay.
  private func checkNotReplaced(_ inode: Inode) throws(Errno) {
    guard inode.isOrphan, let current = try catalog.inodeNumber(of: inode.item) else { return }
    guard current == inode.number else { throw Errno.staleNFSFileHandle }
  }

  /// A close of one descriptor: what was changed through the file survives the daemon from here on.
  package func flush(_ handle: UInt64) throws(Errno) {
    let open = try handles.get(handle)
    try open.content.look()
    try open.content.commitChanges()
  }

  /// After `flush` of a file that was open for writing, with what the program is to wait for before
  /// its close returns: see `ContainerCoordinator.waitForRoom`.
  package func waitForRoom(
    _ handle: UInt64, _ completion: @escaping @Sendable () -> Void
  ) -> SpaceTicket? {
    guard coordinator.hasBudget, let open = try? handles.get(handle), open.canWrite,
      open.content.hasChanged
    else {
      return nil
    }
    return coordinator.waitForRoom(completion)
  }

  /// A change of an inode's row, which closing the file has to find committed if it is open.
  func noteChanged(_ number: InodeNumber) throws(Errno) {
    try nodes.state(number)?.content?.noteChange()
  }

  package func release(_ handle: UInt64) {
    guard let file = handles.remove(handle) else { return }
    // First: the number of the kernel's file is given back with the last close, and another daemon
    // must not answer an open with it. What else a close does that daemon finds out by itself.
    if let slot = file.slot { record?.openings.remove(slot) }
    FaultPoint.reach("release.unrecorded")
    close(file)
  }

  func close(_ file: OpenFileHandle) {
    if let service = file.service {
      file.content.endKernelOpen(writing: file.canWrite)
      if service == .kernel, file.canWrite, !file.content.endsUnseenWriting() {
        let isTaken = lingering.add(file) { [weak self] file in
          guard file.content.endsUnseenWriting() else { return false }
          self?.finishClosing(file)
          return true
        }
        return isTaken ? () : abandon(file)
      }
    }
    finishClosing(file)
  }

  /// The mount is gone, and something may write to the file for ever.
  func abandon(_ file: OpenFileHandle) {
    if let (content, seen) = file.content.abandonWriting() {
      coordinator.followDetachedWriter(file.number, content, seen: seen)
    }
    finishClosing(file)
  }

  private func finishClosing(_ file: OpenFileHandle) {
    var isChanged = false
    if file.canWrite {
      isChanged = file.content.endWriting()
      writingCloses.add(1, ordering: .acquiringAndReleasing)
    }
    if !file.needsFlush { file.content.endUnflushed() }
    // Before the coordinator hears of it: it then reclaims only if nothing else has it open.
    let isLast = nodes.update(file.number) { state in
      state.openings -= 1
      if state.openings == 0 {
        state.cachedUpTo = file.content.cachedUpTo
        state.content = nil
      }
      return state.openings == 0
    }
    // While it counts as open: what is told of it knows who wrote under which claim.
    if isChanged { coordinator.tell(.changed, file.number) }
    coordinator.noteUse(file.number)
    if file.canWrite { coordinator.noteStored() }
    coordinator.closed(file.number, forWriting: file.canWrite, by: file.process)
    coordinator.noteEvictable()
    guard isLast, let inode = try? catalog.inode(file.number), inode.isOrphan else { return }
    becameOrphan(file.number)
  }

  /// Whether the kernel's pages are of what is opened now. They are dropped when another generation
  /// came, or when the content was evicted: a reader is to wait for the download, not to be lucky.
  private func noteCached(_ number: InodeNumber) throws(Errno) -> Bool {
    let inode = try inode(number)
    let new = CachedContent(generation: inode.generation, isLocal: inode.content == .local)
    return nodes.update(number) { state in
      defer { state.cached = new }
      guard let old = state.cached else { return false }
      return old.generation == new.generation && (new.isLocal || !old.isLocal)
    }
  }

  // MARK: Reading

  /// Where the bytes of a read are.
  package func read(
    _ handle: UInt64, offset: UInt64, count: Int, caller: Caller = Caller(user: 0, group: 0),
    isForPages: Bool = true
  ) throws(Errno) -> Step<FileRange> {
    let open = try handles.get(handle)
    let range = offset..<(offset &+ UInt64(max(0, count)))
    guard range.upperBound >= offset else { throw Errno.invalidArgument }
    switch try open.content.bytes(for: range, isForPages: isForPages) {
    case .file(let file):
      if let partial = open.content.partial(),
        let ahead = open.readAhead(after: range, size: partial.size, isMissing: false)
      {
        fetchAhead(ahead, of: open.number, for: caller)
      }
      return .done(FileRange(file: file, offset: offset, count: count))
    case .nothing:
      return .done(FileRange(file: nil, offset: offset, count: 0))
    case .missing(let size):
      let needed = min(range.lowerBound, size)..<min(range.upperBound, size)
      guard !needed.isEmpty else {
        return .done(FileRange(file: nil, offset: offset, count: 0))
      }
      let ahead = open.readAhead(after: needed, size: size, isMissing: true)
      return .wait(ContentWait(number: open.number, range: needed, ahead: ahead, kind: .read))
    }
  }

  // MARK: Writing

  /// The file to write to. After writing, call `noteWritten`.
  package func prepareWrite(_ handle: UInt64, caller: Caller) throws(Errno) -> Step<OpenFile> {
    let open = try handles.get(handle)
    guard open.canWrite else { throw Errno.badFileDescriptor }
    guard let file = try open.content.writer() else { return .wait(try whole(open.number)) }
    if open.beginsWriting() { removeCapabilities(open.number) }
    try dropPrivileges(open.number, caller: caller)
    return .done(file)
  }

  /// `range` is nil where the kernel gave no bytes. `isFromCache`: it wrote a page back.
  package func noteWritten(
    _ handle: UInt64, to file: OpenFile, at range: Range<UInt64>? = nil, isFromCache: Bool = false
  ) throws(Errno) {
    FaultPoint.reach("write.done")
    let content = try handles.get(handle).content
    if let range, isFromCache {
      try content.clearTail(of: file, in: range)
    } else {
      content.noteProgramWrite(range)
    }
    try content.noteChange(of: file, at: now())
  }

  /// fallocate(2), with its mode bits.
  package func allocate(
    _ handle: UInt64, mode: Int32, offset: UInt64, length: UInt64, caller: Caller
  ) throws(Errno) -> Step<Void> {
    guard OpenFile.allocationModes.contains(mode) else { throw Errno.notSupported }
    switch try prepareWrite(handle, caller: caller) {
    case .wait(let wait):
      return .wait(wait)
    case .done(let file):
      try file.allocate(mode: mode, offset: offset, length: length)
      try noteWritten(handle, to: file)
      return .done(())
    }
  }

  /// copy_file_range(2); gives how many bytes were copied, 0 at the source's end.
  package func copyRange(
    from source: UInt64, at offset: UInt64, to target: UInt64, at targetOffset: UInt64, count: Int,
    caller: Caller
  ) throws(Errno) -> Step<Int> {
    let input: FileRange
    switch try read(source, offset: offset, count: count, caller: caller, isForPages: false) {
    case .wait(let wait): return .wait(wait)
    case .done(let range): input = range
    }
    guard let from = input.file else { return .done(0) }
    if try handles.get(source).number == handles.get(target).number {
      // Source: copy_file_range(2), EINVAL.
      let distance = offset > targetOffset ? offset - targetOffset : targetOffset - offset
      guard distance >= UInt64(count) else { throw Errno.invalidArgument }
    }
    switch try prepareWrite(target, caller: caller) {
    case .wait(let wait):
      return .wait(wait)
    case .done(let file):
      let size = try from.length()
      guard offset < size else { return .done(0) }
      let count = Int(min(UInt64(count), size - offset))
      let copied = try from.copy(at: offset, count: count, to: file, at: targetOffset)
      try noteWritten(target, to: file)
      return .done(copied)
    }
  }

  // MARK: Holes and durability

  package enum SeekKind: Sendable {
    case data
    case hole
  }

  /// lseek(2) with SEEK_DATA or SEEK_HOLE. Missing ranges are data: a program that copies would
  /// make zeros of a hole without reading it, and `mv` would then remove the only name of the rest.
  package func seek(
    _ handle: UInt64, _ kind: SeekKind, from offset: UInt64
  ) throws(Errno) -> UInt64 {
    let open = try handles.get(handle)
    try open.content.look()
    coordinator.lookAtDetachedWriter(open.number)
    let inode = try inode(open.number)
    guard offset < inode.size else { throw Errno.noSuchAddressOrDevice }
    guard try open.content.isLocal() else { return kind == .data ? offset : inode.size }
    let found: UInt64?
    switch try open.content.bytes(for: offset..<offset, isForPages: false) {
    case .file(let file):
      found = kind == .data ? try file.nextData(from: offset) : try file.nextHole(from: offset)
    case .nothing, .missing:
      found = kind == .data ? nil : inode.size
    }
    guard let found else { throw Errno.noSuchAddressOrDevice }
    return found
  }

  /// fsync(2) and fdatasync(2): the bytes first, then the row that names them, and whatever was
  /// done before. What is durable already costs nothing; `docs/catalog-format.md` says what the
  /// content file tells by itself.
  package func synchronize(_ handle: UInt64, dataOnly: Bool) throws(Errno) {
    let open = try handles.get(handle)
    try open.content.look()
    try open.content.synchronize(dataOnly: dataOnly)
    FaultPoint.reach("fsync.content")
    try catalog.commit(synchronized: open.number)
  }

  func whole(_ number: InodeNumber) throws(Errno) -> ContentWait {
    ContentWait(number: number, range: 0..<(try inode(number).size), kind: .write)
  }
}
