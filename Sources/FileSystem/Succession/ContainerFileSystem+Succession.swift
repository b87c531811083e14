package import Catalog
internal import Coordination
package import Model
package import Platform
package import SystemPackage

/// What an earlier daemon had done when it died, or was replaced, before it answered.
struct ResentRequests {
  /// Changes of names, and the inodes that their answers tell of.
  var done: [UInt64: InodeNumber] = [:]
  var opens: [UInt64: RecordedOpen] = [:]
}

extension ContainerFileSystem {
  /// Goes on with what an earlier daemon left in the record; gives how many opens could not be
  /// restored. Before the kernel's requests are served, and before anything else changes the
  /// container. `start` is a time before `recover` looked at the content files.
  package func restore(_ record: MountRecord, start: Timestamp) throws(Errno) -> Int {
    let orphans = try catalog.orphans().map(\.number)
    nodes.inherit(try record.knownInodes(), orphans: orphans)
    let service = passthrough.withLock { $0 }
    handles.begin(at: record.firstHandleOfSuccessor())
    let done = inheritDone(record)
    var opens: [UInt64: RecordedOpen] = [:]
    var lost = 0
    // Versions are restored by `VersionsDirectory`.
    for (slot, open) in record.openings.all() where open.version == nil {
      do throws(Errno) {
        try restore(open, slot, service, start)
        if open.request != 0 { opens[open.request] = open }
      } catch {
        lost += 1
      }
    }
    resent.withLock { $0 = ResentRequests(done: done, opens: opens) }
    for number in orphans where !nodes.isUsed(number) { coordinator.reclaim(number) }
    // As at the first open for writing: bytes may be durable before the mark is.
    if opens.values.contains(where: { $0.canWrite && $0.backing != nil }) {
      try catalog.commit(durable: true)
    }
    return lost
  }

  /// Puts the requests that only the catalog has into the record. This daemon may be killed, too,
  /// before it answers them, and the catalog does not keep them.
  private func inheritDone(_ record: MountRecord) -> [UInt64: InodeNumber] {
    var done = record.doneRequests()
    for entry in catalog.doneRequests.suffix(DoneRequest.mostUnanswered)
    where done[entry.request] == nil {
      record.addDone(entry.request, entry.number)
    }
    for entry in catalog.doneRequests { done[entry.request] = entry.number }
    return done
  }

  private func restore(
    _ open: RecordedOpen, _ slot: Int, _ service: (any ContentPassthrough)?, _ start: Timestamp
  ) throws(Errno) {
    if open.backing != nil, service == nil { throw .notSupported }
    let size = try inode(open.number).size
    // The kernel may have pages of all of it.
    let handle = try acquire(
      open.number, canRead: open.canRead, canWrite: open.canWrite, needsFlush: open.needsFlush,
      isOpen: true, by: open.process, cachedUpTo: MappedTail.pages(upTo: size))
    do throws(Errno) {
      try handle.content.restoreKernelOpen(
        writing: open.canWrite, backing: open.backing, through: service, start: start)
    } catch {
      close(handle)
      throw error
    }
    handle.began(open.backing == nil ? .daemon : .kernel)
    handle.isRecorded(in: slot)
    handles.restore(handle, as: open.handle)
  }

  /// Writes an open to the record, before the kernel hears of it.
  func note(
    _ result: OpenResult, _ handle: OpenFileHandle, _ request: RequestIdentity
  ) throws(Errno) {
    guard let record else { return }
    let slot = try record.openings.add(
      RecordedOpen(
        handle: result.handle, request: record.number(of: request), number: handle.number,
        canRead: handle.canRead, canWrite: handle.canWrite, needsFlush: handle.needsFlush,
        tellsFlush: result.needsFlush, asks: result.asks, backing: result.backing,
        process: handle.process))
    handle.isRecorded(in: slot)
  }

  // MARK: Requests that came before

  /// The inode of a change of names that an earlier daemon made for the request.
  func doneBefore(_ request: RequestIdentity) -> InodeNumber? {
    guard request.isResent, let record else { return nil }
    return resent.withLock { $0.done[record.number(of: request)] }
  }

  /// What to note a request by; 0 where nobody would go on with the mount.
  func mark(of request: RequestIdentity) -> UInt64 { record?.number(of: request) ?? 0 }

  /// The open that an earlier daemon made for the request.
  func openedBefore(_ request: RequestIdentity) -> OpenResult? {
    guard request.isResent, let record,
      let open = resent.withLock({ $0.opens[record.number(of: request)] })
    else { return nil }
    return OpenResult(
      handle: open.handle, keepsCache: false, needsFlush: open.tellsFlush, backing: open.backing,
      asks: open.asks)
  }

  func createdBefore(
    _ request: RequestIdentity
  ) throws(Errno) -> (FileStatus, OpenResult)? {
    guard let result = openedBefore(request) else { return nil }
    let moment = moment
    let number = try handles.get(result.handle).number
    return (remembered(try inode(number), readAt: moment), result)
  }

  /// The inodes that the kernel knows from an earlier daemon.
  package func inheritedInodes() -> [InodeNumber] { nodes.inherited() }
}
