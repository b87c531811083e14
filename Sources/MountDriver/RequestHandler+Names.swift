internal import Catalog
internal import FileSystem
internal import FuseKernel
internal import Glibc
internal import Model
internal import SystemPackage

extension RequestHandler {
  func lookup(parent: UInt64, name: [UInt8], reply: consuming FuseReply<EntryAnswer>) {
    if echo.isOurs(reply.caller), let answer = echo.answer(parent, name) {
      return answerEcho(answer, reply: reply)
    }
    let found: FileStatus?
    do throws(Errno) {
      found =
        name.first == 0x2E && name.count <= 2
        ? try lookupWithDots(name, in: InodeNumber(parent))
        : try fileSystem.lookup(name, in: InodeNumber(parent))
    } catch {
      return reply.fail(error)
    }
    if let found {
      if found.inode.kind != .directory { habits.looked(reply.caller.process, in: parent) }
      reply.entry(entry(found))
    } else {
      // Of a name that comes, the kernel does not know which others it is like.
      reply.noEntry(timeout: fileSystem.foldsCase ? 0 : Self.timeout)
    }
  }

  /// A name like `.a`, or `.` or `..`, which only a file handle is looked up by.
  private func lookupWithDots(
    _ name: [UInt8], in parent: InodeNumber
  ) throws(Errno) -> FileStatus? {
    if let found = try fileSystem.lookup(dots: name, of: parent) { return found }
    return try fileSystem.lookup(name, in: parent)
  }

  func forget(node: UInt64, count: UInt64) {
    fileSystem.forget(InodeNumber(node), count: count)
  }

  func readLink(node: UInt64, reply: consuming FuseReply<LinkTargetAnswer>) {
    let target: [UInt8]
    do throws(Errno) { target = try fileSystem.readLink(InodeNumber(node)) } catch {
      return reply.fail(error)
    }
    reply.target(target)
  }

  func makeNode(
    parent: UInt64, name: [UInt8], mode: UInt32, device: UInt64,
    reply: consuming FuseReply<EntryAnswer>
  ) {
    let kind: ItemKind
    switch mode & S_IFMT {
    case S_IFREG, 0: kind = .file
    case S_IFIFO: kind = .fifo
    case S_IFSOCK: kind = .socket
    case S_IFCHR: kind = .characterDevice
    case S_IFBLK: kind = .blockDevice
    default: return reply.fail(.invalidArgument)
    }
    make(name, parent, kind, mode, device: device, reply: reply)
  }

  func makeDirectory(
    parent: UInt64, name: [UInt8], mode: UInt32, reply: consuming FuseReply<EntryAnswer>
  ) {
    make(name, parent, .directory, mode, reply: reply)
  }

  func makeSymbolicLink(
    parent: UInt64, name: [UInt8], target: [UInt8], reply: consuming FuseReply<EntryAnswer>
  ) {
    make(name, parent, .symbolicLink, 0o777, target: target, reply: reply)
  }

  private func make(
    _ name: [UInt8], _ parent: UInt64, _ kind: ItemKind, _ mode: UInt32, device: UInt64 = 0,
    target: [UInt8] = [], reply: consuming FuseReply<EntryAnswer>
  ) {
    let caller = reply.caller
    if echo.isOurs(caller) { return makeEcho(name, parent, kind, reply: reply) }
    let new = NewItem(
      kind: kind, mode: UInt16(mode & 0o7777), owner: caller.user, group: caller.group,
      device: device, target: target)
    let made: FileStatus
    do throws(Errno) {
      made = try fileSystem.make(
        name, in: InodeNumber(parent), new, umask: UInt16(caller.umask & 0o777),
        request: RequestIdentity(caller.request))
    } catch {
      return reply.fail(error)
    }
    reply.entry(entry(made))
  }

  func link(
    node: UInt64, newParent: UInt64, newName: [UInt8], reply: consuming FuseReply<EntryAnswer>
  ) {
    let linked: FileStatus
    do throws(Errno) {
      linked = try fileSystem.link(
        InodeNumber(node), as: newName, in: InodeNumber(newParent),
        request: RequestIdentity(reply.caller.request))
    } catch {
      return reply.fail(error)
    }
    reply.entry(entry(linked))
  }

  func remove(
    parent: UInt64, name: [UInt8], directory: Bool, reply: consuming FuseReply<EmptyAnswer>
  ) {
    if echo.isOurs(reply.caller) {
      let place = EchoPlace(parent: parent, name: name)
      return finishEcho(.remove(place, isDirectory: directory), reply: reply)
    }
    do throws(Errno) {
      try fileSystem.remove(
        name, in: InodeNumber(parent), directory: directory, by: reply.caller.process,
        request: RequestIdentity(reply.caller.request))
    } catch {
      return reply.fail(error)
    }
    reply.done()
  }

  func rename(
    parent: UInt64, name: [UInt8], newParent: UInt64, newName: [UInt8], flags: UInt32,
    reply: consuming FuseReply<EmptyAnswer>
  ) {
    if echo.isOurs(reply.caller) {
      let from = EchoPlace(parent: parent, name: name)
      let to = EchoPlace(parent: newParent, name: newName)
      return finishEcho(.move(from: from, to: to), reply: reply)
    }
    let mode: RenameMode
    // RENAME_NOREPLACE and RENAME_EXCHANGE.
    switch flags {
    case 0: mode = .replace
    case 1: mode = .noReplace
    case 2: mode = .exchange
    default: return reply.fail(.invalidArgument)
    }
    do throws(Errno) {
      try fileSystem.rename(
        name, in: InodeNumber(parent), to: newName, in: InodeNumber(newParent), mode: mode,
        by: reply.caller.process, request: RequestIdentity(reply.caller.request))
    } catch {
      return reply.fail(error)
    }
    reply.done()
  }

  // MARK: Directories

  func openDirectory(node: UInt64, reply: consuming FuseReply<OpenAnswer>) {
    // Listing has no state: offsets are the catalog's. The kernel asks no more for it, nor tells of
    // the close, and caches entries until it is told that they changed. Source:
    // FUSE_NO_OPENDIR_SUPPORT.
    reply.fail(.noFunction)
  }

  func readDirectory(
    node: UInt64, handle: UInt64, offset: UInt64, size: Int, withEntries: Bool,
    reply: consuming FuseReply<DirectoryAnswer>
  ) {
    // Where reading goes on, something was looked at: otherwise the kernel asks for names alone.
    let looks = withEntries && (habits.begins(reply.caller.process, node) || offset > 0)
    var buffer = FuseDirectoryBuffer(capacity: size)
    do throws(Errno) {
      if looks {
        try addEntries(of: InodeNumber(node), from: offset, to: &buffer)
      } else {
        try addNames(of: InodeNumber(node), from: offset, withEntries: withEntries, to: &buffer)
      }
    } catch {
      return reply.fail(error)
    }
    reply.entries(buffer)
  }

  // An entry takes at least this much, so that no more are asked for than can fit.
  private static let leastName = 32
  private static let leastEntry = 160

  private func addEntries(
    of node: InodeNumber, from offset: UInt64, to buffer: inout FuseDirectoryBuffer
  ) throws(Errno) {
    let moment = fileSystem.moment
    let limit = buffer.capacity / Self.leastEntry + 1
    for item in try fileSystem.list(node, from: offset, limit: limit) {
      if VersionsDirectory.isHidden(item.name, in: node.rawValue) { continue }
      guard !item.isDot else {
        // The kernel takes no attributes from these two, and does not count them.
        var entry = entry(FileStatus(inode: item.inode, blocks: 0))
        entry.node = 0
        if buffer.add(item.name, entry: entry, offset: item.offset) { continue }
        break
      }
      let entry = entry(fileSystem.remembered(item.inode, readAt: moment))
      guard buffer.add(item.name, entry: entry, offset: item.offset) else {
        // It comes again with the next answer.
        fileSystem.forget(item.inode.number, count: 1)
        break
      }
    }
  }

  /// Names and types. `withEntries`: in the form of entries, and directories with all there is of
  /// them, since who lists a tree goes on into them.
  private func addNames(
    of node: InodeNumber, from offset: UInt64, withEntries: Bool,
    to buffer: inout FuseDirectoryBuffer
  ) throws(Errno) {
    let moment = fileSystem.moment
    let limit = buffer.capacity / (withEntries ? Self.leastEntry : Self.leastName) + 1
    for item in try fileSystem.listNames(node, from: offset, limit: limit) {
      if VersionsDirectory.isHidden(item.name, in: node.rawValue) { continue }
      let attributes = FuseAttributes(node: item.number.rawValue, mode: Self.type(item.kind))
      if !withEntries {
        guard buffer.add(item.name, attributes: attributes, offset: item.offset) else { break }
      } else if item.kind == .directory, !item.isDot,
        let status = try? fileSystem.status(item.number)
      {
        let entry = entry(fileSystem.remembered(status.inode, readAt: moment))
        guard buffer.add(item.name, entry: entry, offset: item.offset) else {
          fileSystem.forget(item.number, count: 1)
          break
        }
      } else {
        // Node 0: for the kernel this is no lookup.
        let entry = FuseEntry(
          node: 0, attributes: attributes, attributeTimeout: 0, nameTimeout: 0)
        guard buffer.add(item.name, entry: entry, offset: item.offset) else { break }
      }
    }
  }

  func releaseDirectory(node: UInt64, handle: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    reply.done()
  }

  func synchronizeDirectory(node: UInt64, reply: consuming FuseReply<EmptyAnswer>) {
    do throws(Errno) { try fileSystem.synchronizeNames() } catch { return reply.fail(error) }
    reply.done()
  }
}
