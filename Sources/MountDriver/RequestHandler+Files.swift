internal import Catalog
internal import Coordination
internal import FileSystem
internal import FuseKernel
internal import Glibc
internal import Platform
internal import SystemPackage

extension RequestHandler {
  private static func mode(_ flags: Int32) -> OpenMode {
    let access = flags & O_ACCMODE
    return OpenMode(
      canRead: access != O_WRONLY, canWrite: access != O_RDONLY,
      truncates: flags & O_TRUNC != 0, isExclusive: flags & O_EXCL != 0,
      canBeTakenBack: flags & (O_APPEND | OpenFile.directFlag) != 0)
  }

  private static func opened(_ result: OpenResult) -> FuseOpened {
    var opened = FuseOpened(handle: result.handle)
    opened.keepsCache = result.keepsCache
    opened.needsNoFlush = !result.needsFlush
    opened.backing = result.backing
    opened.asksForIO = result.asks
    return opened
  }

  func create(
    parent: UInt64, name: [UInt8], mode: UInt32, flags: Int32,
    reply: consuming FuseReply<CreateAnswer>
  ) {
    createNow(
      parent: parent, name: name, mode: mode, flags: flags, mayMakeRoom: true, reply: reply)
  }

  private func createNow(
    parent: UInt64, name: [UInt8], mode: UInt32, flags: Int32, mayMakeRoom: Bool,
    reply: consuming FuseReply<CreateAnswer>
  ) {
    let openMode = Self.mode(flags)
    let status: FileStatus
    let result: OpenResult
    do throws(Errno) {
      (status, result) = try fileSystem.create(
        name, in: InodeNumber(parent), permissions: UInt16(mode & 0o7777), openMode,
        caller: Caller(reply.caller))
    } catch {
      guard error == .noSpace, mayMakeRoom else { return reply.fail(error) }
      return reply.afterRoom(0, on: fileSystem) { reply in
        self.createNow(
          parent: parent, name: name, mode: mode, flags: flags, mayMakeRoom: false, reply: reply)
      }
    }
    if !reply.created(newEntry(status), Self.opened(result)) {
      fileSystem.release(result.handle)
    }
  }

  /// Of a file that is made and opened at once. The kernel looks at it again before it lets the
  /// program have it; nothing can have changed by then. Whatever it writes itself drops what it
  /// believes.
  private func newEntry(_ status: FileStatus) -> FuseEntry {
    var result = entry(status)
    if status.isChanging { result.attributeTimeout = 0.02 }
    return result
  }

  func createUnnamed(
    parent: UInt64, mode: UInt32, flags: Int32, reply: consuming FuseReply<CreateAnswer>
  ) {
    let status: FileStatus
    let result: OpenResult
    do throws(Errno) {
      (status, result) = try fileSystem.createUnnamed(
        in: InodeNumber(parent), permissions: UInt16(mode & 0o7777), Self.mode(flags),
        caller: Caller(reply.caller))
    } catch {
      return reply.fail(error)
    }
    if !reply.created(newEntry(status), Self.opened(result)) {
      fileSystem.release(result.handle)
    }
  }

  func open(node: UInt64, flags: Int32, reply: consuming FuseReply<OpenAnswer>) {
    if echo.isOurs(reply.caller) { return openEcho(node, reply: reply) }
    guard options.waitsForClaims else { return openNow(node: node, flags: flags, reply: reply) }
    let coordinator = fileSystem.coordinator
    let number = InodeNumber(node)
    let process = Caller(reply.caller).process
    let writes = Self.mode(flags).writes
    let announced = writes ? coordinator.announceOpen(number, by: process) : nil
    guard let wait = coordinator.mustWait(toOpen: number, forWriting: writes, by: process) else {
      return openNow(node: node, flags: flags, announced: announced, reply: reply)
    }
    announced?.end()
    guard flags & O_NONBLOCK == 0 else {
      coordinator.giveUp(wait)
      return reply.fail(.resourceTemporarilyUnavailable)
    }
    // The kernel holds no lock while it waits for this (with FUSE_WRITEBACK_CACHE, which is off, it
    // would hold the inode's for O_TRUNC), so the claimant can go on.
    let parked = reply.park()
    let claim = coordinator.waitToOpen(wait) { isGiven in
      // The claim may end before the file is open, where room has to be made first.
      let announced = isGiven && writes ? coordinator.announceOpen(number, by: process) : nil
      let isResumed = parked.resume { reply in
        isGiven
          ? self.openNow(node: node, flags: flags, announced: announced, reply: reply)
          : reply.fail(.interrupted)
      }
      if !isResumed { announced?.abandon() }
    }
    parked.onInterrupt { coordinator.claims.release(claim) }
  }

  /// Ends the announcement when the file is open.
  private func openNow(
    node: UInt64, flags: Int32, announced: AnnouncedOpen? = nil, mayMakeRoom: Bool = true,
    reply: consuming FuseReply<OpenAnswer>
  ) {
    let mode = Self.mode(flags)
    let result: OpenResult
    do throws(Errno) {
      result = try fileSystem.open(InodeNumber(node), mode, caller: Caller(reply.caller))
    } catch {
      guard error == .noSpace, mayMakeRoom else {
        announced?.end()
        return reply.fail(error)
      }
      let abandon: @Sendable () -> Void = { announced?.abandon() }
      return reply.afterRoom(0, on: fileSystem, givenUp: abandon) { reply in
        self.openNow(
          node: node, flags: flags, announced: announced, mayMakeRoom: false, reply: reply)
      }
    }
    announced?.end()
    if !reply.opened(Self.opened(result)) { fileSystem.release(result.handle) }
  }

  func read(
    node: UInt64, handle: UInt64, offset: UInt64, count: Int,
    reply: consuming FuseReply<DataAnswer>
  ) {
    let fileSystem = fileSystem
    let caller = Caller(reply.caller)
    reply.answer(
      by: { () throws(Errno) in
        try fileSystem.read(handle, offset: offset, count: count, caller: caller)
      },
      on: fileSystem,
      with: { reply, range in
        guard let file = range.file, range.count > 0 else { return reply.bytes([]) }
        reply.data(descriptor: file.descriptor, offset: range.offset, count: range.count)
        // A release meanwhile must not close it before the reply is out.
        withExtendedLifetime(file) {}
      })
  }

  func write(
    node: UInt64, handle: UInt64, offset: UInt64, data: borrowing FuseWriteData, isFromCache: Bool,
    reply: consuming FuseReply<WriteAnswer>
  ) {
    let caller = Caller(reply.caller)
    let range = Self.range(offset, data.count)
    var written: Int?
    var needsRoom = false
    do throws(Errno) {
      switch try fileSystem.prepareWrite(handle, caller: caller) {
      case .done(let file):
        let growth = isFromCache ? nil : try fileSystem.growth(of: handle, to: offset)
        written = try data.copy(to: file.descriptor, at: offset)
        try fileSystem.noteWritten(handle, to: file, at: range, isFromCache: isFromCache)
        try drop(growth, node, handle, mayBeHeld: growth?.holds(offset) ?? false)
      case .wait:
        break
      }
    } catch {
      guard error == .noSpace else { return reply.fail(error) }
      // Nothing of it was written: what was is told as a short write.
      needsRoom = true
    }
    if let written { return reply.written(written) }
    let bytes: [UInt8]
    do throws(Errno) { bytes = try data.bytes() } catch { return reply.fail(error) }
    if needsRoom {
      return reply.afterRoom(bytes.count, on: fileSystem) { reply in
        self.writeLater(bytes, node, handle, offset: offset, caller: caller, reply: reply)
      }
    }
    writeLater(bytes, node, handle, offset: offset, caller: caller, reply: reply)
  }

  /// Nil for an empty range, and for one that no file can have.
  private static func range(_ offset: UInt64, _ count: Int) -> Range<UInt64>? {
    let (end, overflow) = offset.addingReportingOverflow(UInt64(count))
    return overflow || end == offset ? nil : offset..<end
  }

  /// Has the kernel drop the page that a change left a gap in, before the change is answered: see
  /// `MappedTail`. Waits for that, but not for long.
  ///
  /// During a write within the page (`mayBeHeld`) the kernel holds it until it has the answer,
  /// unless it has the page's content. A page without content has nothing of a mapping. A page that
  /// stays for longer since the machine is busy may be read until it goes, and is not stored.
  private func drop(
    _ growth: Growth?, _ node: UInt64, _ handle: UInt64, mayBeHeld: Bool
  ) throws(Errno) {
    guard let growth else { return }
    try fileSystem.noteGrowth(growth, of: handle)
    drop(growth.page, of: node, within: mayBeHeld ? 200 : 500)
  }

  /// A write to a placeholder: its content comes first.
  private func writeLater(
    _ bytes: [UInt8], _ node: UInt64, _ handle: UInt64, offset: UInt64, caller: Caller,
    reply: consuming FuseReply<WriteAnswer>
  ) {
    let fileSystem = fileSystem
    reply.answer(
      by: { () throws(Errno) -> Step<Int> in
        switch try fileSystem.prepareWrite(handle, caller: caller) {
        case .wait(let wait):
          return .wait(wait)
        case .done(let file):
          let growth = try fileSystem.growth(of: handle, to: offset)
          try file.write(bytes, at: offset)
          try fileSystem.noteWritten(handle, to: file, at: Self.range(offset, bytes.count))
          try self.drop(growth, node, handle, mayBeHeld: growth?.holds(offset) ?? false)
          return .done(bytes.count)
        }
      }, on: fileSystem, with: { reply, count in reply.written(count) })
  }

  func flush(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    if handle == EchoStage.handle { return reply.done() }
    do throws(Errno) { try fileSystem.flush(handle) } catch { return reply.fail(error) }
    guard fileSystem.coordinator.hasBudget else { return reply.done() }
    waitForRoom(handle, reply: reply)
  }

  /// The close of a file that was written returns when the budget has room for what it holds. It
  /// has been closed in any case: a signal ends the waiting, and nothing is refused. The kernel
  /// holds no lock meanwhile, and no other file waits.
  private func waitForRoom(_ handle: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    let parking = Lock(ClosePark())
    let ticket = fileSystem.waitForRoom(handle) {
      let parked = parking.withLock { state in
        state.isOver = true
        return state.parked
      }
      parked?.resume { $0.done() }
    }
    guard let ticket else { return reply.done() }
    let parked = reply.park()
    parked.succeedWhenInterrupted()
    let isOver = parking.withLock { state in
      state.parked = parked
      return state.isOver
    }
    // Resuming a second time does nothing.
    if isOver { parked.resume { $0.done() } }
    parked.onInterrupt { ticket.cancel() }
  }

  private struct ClosePark {
    var parked: FuseParked<EmptyAnswer>?
    var isOver = false
  }

  func release(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    if handle != EchoStage.handle { fileSystem.release(handle) }
    reply.done()
  }

  func synchronize(
    node: UInt64, handle: UInt64, dataOnly: Bool, reply: consuming FuseReply<EmptyAnswer>
  ) {
    do throws(Errno) { try fileSystem.synchronize(handle, dataOnly: dataOnly) } catch {
      return reply.fail(error)
    }
    reply.done()
  }

  func allocate(
    node: UInt64, handle: UInt64, mode: Int32, offset: UInt64, length: UInt64,
    reply: consuming FuseReply<EmptyAnswer>
  ) {
    let caller = Caller(reply.caller)
    let fileSystem = fileSystem
    // FALLOC_FL_KEEP_SIZE.
    let grows = mode & 1 == 0
    reply.answer(
      by: { () throws(Errno) in
        let growth = grows ? try fileSystem.growth(of: handle, to: offset &+ length) : nil
        let step = try fileSystem.allocate(
          handle, mode: mode, offset: offset, length: length, caller: caller)
        if case .done = step { try self.drop(growth, node, handle, mayBeHeld: false) }
        return step
      }, on: fileSystem, with: { reply, _ in reply.done() })
  }

  func seek(
    node: UInt64, handle: UInt64, offset: Int64, whence: Int32,
    reply: consuming FuseReply<SeekAnswer>
  ) {
    let kind: ContainerFileSystem.SeekKind
    // SEEK_DATA and SEEK_HOLE; the kernel does the others itself.
    switch whence {
    case 3: kind = .data
    case 4: kind = .hole
    default: return reply.fail(.invalidArgument)
    }
    guard offset >= 0 else { return reply.fail(.noSuchAddressOrDevice) }
    let found: UInt64
    do throws(Errno) {
      found = try fileSystem.seek(handle, kind, from: UInt64(offset))
    } catch {
      return reply.fail(error)
    }
    reply.offset(found)
  }

  func copyRange(
    from handle: UInt64, at offset: UInt64, to newHandle: UInt64, of newNode: UInt64,
    at newOffset: UInt64, count: Int, flags: Int32, reply: consuming FuseReply<WriteAnswer>
  ) {
    guard flags == 0 else { return reply.fail(.invalidArgument) }
    let caller = Caller(reply.caller)
    let fileSystem = fileSystem
    reply.answer(
      by: { () throws(Errno) in
        let growth = try fileSystem.growth(of: newHandle, to: newOffset)
        let step = try fileSystem.copyRange(
          from: handle, at: offset, to: newHandle, at: newOffset, count: count, caller: caller)
        if case .done(let copied) = step, copied > 0 {
          try self.drop(growth, newNode, newHandle, mayBeHeld: false)
        }
        return step
      }, on: fileSystem, with: { reply, count in reply.written(count) })
  }
}
