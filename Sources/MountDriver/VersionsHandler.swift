internal import Coordination
internal import FileSystem
internal import FuseKernel
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// Serves the hidden directory of versions and passes all else on, for the price of a comparison.
///
/// What would change something in it is EROFS; making something of its name is EEXIST. The kernel
/// caches of it only the pages of versions, which never change, and what a directory listed until
/// that directory's time is another (see `VersionsDirectory`).
final class VersionsHandler: Sendable {
  let ordinary: RequestHandler
  let versions: VersionsDirectory

  init(_ ordinary: RequestHandler) {
    self.ordinary = ordinary
    versions = VersionsDirectory(fileSystem: ordinary.fileSystem)
  }

  private static func type(isDirectory: Bool) -> UInt32 { isDirectory ? S_IFDIR : S_IFREG }

  private func attributes(_ status: VersionStatus) -> FuseAttributes {
    FuseAttributes(
      node: status.node, mode: Self.type(isDirectory: status.isDirectory) | UInt32(status.mode),
      linkCount: 1,
      user: status.owner, group: status.group, size: status.size,
      blocks: status.isDirectory ? 0 : (status.size + 511) / 512,
      accessed: timespec(status.modified), modified: timespec(status.modified),
      changed: timespec(status.changed))
  }

  private func entry(_ status: VersionStatus) -> FuseEntry {
    FuseEntry(
      node: status.node, attributes: attributes(status), attributeTimeout: 0, nameTimeout: 0)
  }

  /// What making `name` in `parent` fails with; nil where it is none of ours.
  func refusal(_ parent: UInt64, _ name: [UInt8]) -> Errno? {
    if parent >= VersionNode.first { return .readOnlyFileSystem }
    return VersionsDirectory.isHidden(name, in: parent) ? .fileExists : nil
  }
}

// MARK: Looking

extension VersionsHandler: FuseHandler {
  func initialized(_ connection: FuseConnection) { ordinary.initialized(connection) }

  func ended() {
    versions.reset()
    ordinary.ended()
  }

  func lookup(parent: UInt64, name: [UInt8], reply: consuming FuseReply<EntryAnswer>) {
    let isHidden = VersionsDirectory.isHidden(name, in: parent)
    guard isHidden || parent >= VersionNode.first else {
      return ordinary.lookup(parent: parent, name: name, reply: reply)
    }
    let found: VersionStatus?
    do throws(Errno) {
      if let node = VersionNode(parent), name == [0x2E] {
        // For a file handle.
        found = try versions.lookup(itself: node)
      } else if let node = VersionNode(parent) {
        found = try versions.lookup(name, in: node)
      } else {
        found = try versions.hidden()
      }
    } catch {
      return reply.fail(error)
    }
    if let found { reply.entry(entry(found)) } else { reply.noEntry(timeout: 0) }
  }

  func forget(node: UInt64, count: UInt64) {
    guard let ours = VersionNode(node) else { return ordinary.forget(node: node, count: count) }
    versions.forget(ours, count: count)
  }

  func attributes(node: UInt64, handle: UInt64?, reply: consuming FuseReply<AttributesAnswer>) {
    guard let ours = VersionNode(node) else {
      return ordinary.attributes(node: node, handle: handle, reply: reply)
    }
    let status: VersionStatus
    do throws(Errno) { status = try versions.status(ours) } catch { return reply.fail(error) }
    reply.attributes(attributes(status), timeout: 0)
  }

  func extendedStatus(node: UInt64, reply: consuming FuseReply<ExtendedStatusAnswer>) {
    guard let ours = VersionNode(node) else {
      return ordinary.extendedStatus(node: node, reply: reply)
    }
    let status: VersionStatus
    do throws(Errno) { status = try versions.status(ours) } catch { return reply.fail(error) }
    reply.attributes(attributes(status), timeout: 0)
  }

  func readLink(node: UInt64, reply: consuming FuseReply<LinkTargetAnswer>) {
    guard node < VersionNode.first else { return reply.fail(.invalidArgument) }
    ordinary.readLink(node: node, reply: reply)
  }

  func openDirectory(node: UInt64, reply: consuming FuseReply<OpenAnswer>) {
    // The first answer is for the whole mount.
    ordinary.openDirectory(node: node, reply: reply)
  }

  func readDirectory(
    node: UInt64, handle: UInt64, offset: UInt64, size: Int, withEntries: Bool,
    reply: consuming FuseReply<DirectoryAnswer>
  ) {
    guard let ours = VersionNode(node) else {
      return ordinary.readDirectory(
        node: node, handle: handle, offset: offset, size: size, withEntries: withEntries,
        reply: reply)
    }
    var buffer = FuseDirectoryBuffer(capacity: size)
    let names: [VersionName]
    do throws(Errno) {
      names = try versions.list(ours, from: offset, limit: size / 160 + 1)
    } catch {
      return reply.fail(error)
    }
    for name in names {
      let attributes = FuseAttributes(
        node: name.node, mode: Self.type(isDirectory: name.isDirectory))
      // Node 0: for the kernel this is no lookup.
      let entry = FuseEntry(node: 0, attributes: attributes, attributeTimeout: 0, nameTimeout: 0)
      let fits =
        withEntries
        ? buffer.add(name.name, entry: entry, offset: name.offset)
        : buffer.add(name.name, attributes: attributes, offset: name.offset)
      guard fits else { break }
    }
    reply.entries(buffer)
  }

  func releaseDirectory(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    reply.done()
  }

  func synchronizeDirectory(node: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    guard node < VersionNode.first else { return reply.done() }
    ordinary.synchronizeDirectory(node: node, reply: reply)
  }

  func statistics(node: UInt64, reply: consuming FuseReply<StatisticsAnswer>) {
    ordinary.statistics(node: node, reply: reply)
  }

  func attribute(
    node: UInt64, name: [UInt8], size: Int, reply: consuming FuseReply<AttributeAnswer>
  ) {
    guard node < VersionNode.first else { return reply.fail(.noData) }
    ordinary.attribute(node: node, name: name, size: size, reply: reply)
  }

  func attributeNames(node: UInt64, size: Int, reply: consuming FuseReply<AttributeAnswer>) {
    guard node < VersionNode.first else { return reply.value([], size: size) }
    ordinary.attributeNames(node: node, size: size, reply: reply)
  }
}

// MARK: Reading

extension VersionsHandler {
  func open(node: UInt64, flags: Int32, reply: consuming FuseReply<OpenAnswer>) {
    guard let ours = VersionNode(node) else {
      return ordinary.open(node: node, flags: flags, reply: reply)
    }
    guard flags & O_ACCMODE == O_RDONLY, flags & O_TRUNC == 0 else {
      return reply.fail(.readOnlyFileSystem)
    }
    let wait: OpenVersions.Wait
    let caller = Caller(reply.caller)
    do throws(Errno) {
      switch try versions.open(ours, for: caller) {
      case .opened(let handle): return opened(handle, reply)
      case .wait(let missing): wait = missing
      }
    } catch {
      return reply.fail(error)
    }
    let parked = reply.park()
    let ticket = versions.opens.open(wait, for: caller) { [self] result in
      let isAnswered = parked.resume { reply in
        switch result {
        case .success(let handle): opened(handle, reply)
        case .failure(let error): reply.fail(error)
        }
      }
      if !isAnswered, case .success(let handle) = result { versions.opens.release(handle) }
    }
    parked.onInterrupt { ticket.cancel() }
  }

  private func opened(_ handle: UInt64, _ reply: consuming FuseReply<OpenAnswer>) {
    var answer = FuseOpened(handle: handle)
    answer.keepsCache = true
    answer.needsNoFlush = true
    if !reply.opened(answer) { versions.opens.release(handle) }
  }

  func read(
    node: UInt64, handle: UInt64, offset: UInt64, count: Int,
    reply: consuming FuseReply<DataAnswer>
  ) {
    guard node >= VersionNode.first else {
      return ordinary.read(
        node: node, handle: handle, offset: offset, count: count, reply: reply)
    }
    let file: OpenFile?
    do throws(Errno) { file = try versions.opens.file(handle) } catch { return reply.fail(error) }
    if let file {
      reply.data(descriptor: file.descriptor, offset: offset, count: count)
      return withExtendedLifetime(file) {}
    }
    let caller = Caller(reply.caller)
    let parked = reply.park()
    do throws(Errno) {
      let ticket = try versions.opens.bring(handle, for: caller) { result in
        parked.resume { reply in
          switch result {
          case .success(let file):
            reply.data(descriptor: file.descriptor, offset: offset, count: count)
            withExtendedLifetime(file) {}
          case .failure(let error): reply.fail(error)
          }
        }
      }
      parked.onInterrupt { ticket.cancel() }
    } catch {
      parked.resume { $0.fail(error) }
    }
  }

  func release(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    guard node >= VersionNode.first else {
      return ordinary.release(node: node, handle: handle, reply: reply)
    }
    versions.opens.release(handle)
    reply.done()
  }

  func flush(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    guard node < VersionNode.first else { return reply.done() }
    ordinary.flush(node: node, handle: handle, reply: reply)
  }

  func synchronize(
    node: UInt64, handle: UInt64, dataOnly: Bool, reply: consuming FuseReply<EmptyAnswer>
  ) {
    guard node < VersionNode.first else { return reply.done() }
    ordinary.synchronize(node: node, handle: handle, dataOnly: dataOnly, reply: reply)
  }

  func seek(
    node: UInt64, handle: UInt64, offset: Int64, whence: Int32,
    reply: consuming FuseReply<SeekAnswer>
  ) {
    guard node >= VersionNode.first else {
      return ordinary.seek(
        node: node, handle: handle, offset: offset, whence: whence, reply: reply)
    }
    let size: Int64
    do throws(Errno) { size = Int64(clamping: try versions.opens.size(handle)) } catch {
      return reply.fail(error)
    }
    guard offset >= 0, offset < size else { return reply.fail(.noSuchAddressOrDevice) }
    // All data, to which SEEK_HOLE (4) knows the end alone.
    reply.offset(UInt64(whence == 4 ? size : offset))
  }

  func copyRange(
    from handle: UInt64, at offset: UInt64, to newHandle: UInt64, of newNode: UInt64,
    at newOffset: UInt64, count: Int, flags: Int32, reply: consuming FuseReply<WriteAnswer>
  ) {
    // The kernel then reads and writes.
    guard handle < VersionNode.first else { return reply.fail(.improperLink) }
    ordinary.copyRange(
      from: handle, at: offset, to: newHandle, of: newNode, at: newOffset, count: count,
      flags: flags, reply: reply)
  }
}
