internal import Catalog
internal import Coordination
internal import FileSystem
internal import FuseKernel
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// Decodes requests, calls the file system, and answers.
final class RequestHandler: Sendable {
  let fileSystem: ContainerFileSystem
  let options: MountOptions
  private let logger: @Sendable (String) -> Void
  private let notifier = Lock<FuseNotifier?>(nil)
  let passthrough: Passthrough
  let habits = ListingHabits()
  let echo: EchoStage

  init(
    _ fileSystem: ContainerFileSystem, options: MountOptions, passthrough: Passthrough,
    echo: EchoStage,
    logger: @escaping @Sendable (String) -> Void
  ) {
    self.fileSystem = fileSystem
    self.options = options
    self.passthrough = passthrough
    self.echo = echo
    self.logger = logger
  }

  func setNotifier(_ notifier: FuseNotifier) { self.notifier.withLock { $0 = notifier } }

  /// Seconds that the kernel may believe what it is told. Only the daemon changes a mount, and it
  /// says so: for good, then.
  static let timeout: Double = 365 * 86400

  /// The blocks of a placeholder grow as its content comes, which is not told for every piece. Of
  /// what the kernel writes itself it knows the size at most, and of what a mapping changes
  /// nothing.
  static func timeout(_ status: FileStatus) -> Double {
    if status.isChanging { return 0 }
    return status.inode.content == .remote && status.inode.size > 0 ? 1 : timeout
  }

  /// Waits for the kernel to hear of what a request changed, before that request is answered; not
  /// for long, since the kernel may hold a lock for the request that it needs for hearing.
  func settle() { notifier.withLock { $0 }?.flush(milliseconds: 1000) }

  /// Has the kernel drop pages, and waits for that for so long at most.
  func drop(_ pages: Range<UInt64>, of node: UInt64, within milliseconds: Int) {
    guard let notifier = notifier.withLock({ $0 }) else { return }
    notifier.send([.pages(node, pages)])
    notifier.flush(milliseconds: milliseconds)
  }
}

extension RequestHandler {
  func attributes(_ status: FileStatus) -> FuseAttributes {
    let inode = status.inode
    return FuseAttributes(
      node: inode.number.rawValue, mode: Self.type(inode.kind) | UInt32(inode.mode & 0o7777),
      linkCount: UInt64(inode.linkCount), user: inode.owner, group: inode.group,
      device: inode.device, size: status.size, blocks: status.blocks,
      accessed: timespec(inode.accessed), modified: timespec(inode.modified),
      changed: timespec(inode.changed), created: timespec(inode.created))
  }

  static func type(_ kind: ItemKind) -> UInt32 {
    switch kind {
    case .file: S_IFREG
    case .directory: S_IFDIR
    case .symbolicLink: S_IFLNK
    case .fifo: S_IFIFO
    case .socket: S_IFSOCK
    case .characterDevice: S_IFCHR
    case .blockDevice: S_IFBLK
    }
  }

  func entry(_ status: FileStatus) -> FuseEntry {
    FuseEntry(
      node: status.inode.number.rawValue, attributes: attributes(status),
      attributeTimeout: Self.timeout(status),
      // When the name that it has changes, the kernel is told of that one alone.
      nameTimeout: status.isNamedExactly ? Self.timeout : 0)
  }
}

extension RequestIdentity {
  init(_ number: FuseRequestNumber) {
    self.init(value: number.value, isResent: number.isResent)
  }
}

extension Caller {
  init(_ caller: FuseCaller) {
    self.init(
      user: caller.user, group: caller.group, process: caller.process,
      umask: UInt16(caller.umask & 0o777), request: RequestIdentity(caller.request))
  }
}

extension RequestHandler: FuseHandler {
  func initialized(_ connection: FuseConnection) {
    passthrough.begin(isGranted: connection.granted.passthrough)
    if passthrough.mode.isKernel { fileSystem.setPassthrough(passthrough) }
  }

  func ended() { fileSystem.reset() }

  func statistics(node: UInt64, reply: consuming FuseReply<StatisticsAnswer>) {
    let disk: DiskStatistics
    do throws(Errno) { disk = try fileSystem.statistics() } catch { return reply.fail(error) }
    reply.statistics(
      FuseStatistics(
        blockSize: disk.blockSize, blocks: disk.blocks, blocksFree: disk.blocksFree,
        blocksAvailable: disk.blocksAvailable, files: disk.files, filesFree: disk.filesFree,
        nameLength: UInt64(ItemName.maximumLength)))
  }

  func attributes(node: UInt64, handle: UInt64?, reply: consuming FuseReply<AttributesAnswer>) {
    if echo.isOurs(reply.caller), let attributes = echoedAttributes(node) {
      return reply.attributes(attributes, timeout: 0)
    }
    let status: FileStatus
    do throws(Errno) { status = try fileSystem.status(InodeNumber(node)) } catch {
      return reply.fail(error)
    }
    reply.attributes(attributes(status), timeout: Self.timeout(status))
  }

  func extendedStatus(node: UInt64, reply: consuming FuseReply<ExtendedStatusAnswer>) {
    if echo.isOurs(reply.caller), let attributes = echoedAttributes(node) {
      return reply.attributes(attributes, timeout: 0)
    }
    let status: FileStatus
    do throws(Errno) { status = try fileSystem.status(InodeNumber(node)) } catch {
      return reply.fail(error)
    }
    reply.attributes(attributes(status), timeout: Self.timeout(status))
  }

  func setAttributes(
    node: UInt64, handle: UInt64?, changes: FuseAttributeChanges,
    reply: consuming FuseReply<AttributesAnswer>
  ) {
    if echo.isOurs(reply.caller) { return touchEcho(node, reply: reply) }
    let changes = StatusChanges(
      mode: changes.mode.map { UInt16($0 & 0o7777) }, owner: changes.user, group: changes.group,
      size: changes.size.map { UInt64(max(0, $0)) }, accessed: Self.time(changes.accessed),
      modified: Self.time(changes.modified))
    let caller = Caller(reply.caller)
    let fileSystem = fileSystem
    reply.answer(
      by: { () throws(Errno) in
        try fileSystem.setStatus(
          InodeNumber(node), changes, caller: caller, isOpen: handle != nil)
      }, on: fileSystem,
      with: { reply, status in
        reply.attributes(self.attributes(status), timeout: Self.timeout(status))
      })
  }

  private static func time(_ time: FuseAttributeChanges.Time?) -> StatusChanges.Time? {
    switch time {
    case nil: nil
    case .now: .now
    case .at(let time):
      .at(
        Timestamp(kernelSeconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec)))
    }
  }

  // MARK: Extended attributes

  func setAttribute(
    node: UInt64, name: [UInt8], value: [UInt8], flags: Int32,
    reply: consuming FuseReply<EmptyAnswer>
  ) {
    // XATTR_CREATE and XATTR_REPLACE.
    let mode: AttributeMode =
      flags & 1 != 0 ? .create : flags & 2 != 0 ? .replace : .createOrReplace
    let number = InodeNumber(node)
    do throws(Errno) {
      try fileSystem.setAttribute(
        name, value, mode: mode, of: number, caller: Caller(reply.caller))
    } catch .resourceTemporarilyUnavailable {
      return evict(number, reply: reply)
    } catch {
      return reply.fail(error)
    }
    // Such a write can change st_blocks, which the writer may look at next.
    if name.starts(with: "user.ubiquity.".utf8) { settle() }
    reply.done()
  }

  /// An eviction needs looks at the store; its reply is parked until it has ended.
  private func evict(_ number: InodeNumber, reply: consuming FuseReply<EmptyAnswer>) {
    let parked = reply.park()
    Eviction(number, of: fileSystem.coordinator).start { failure in
      parked.resume { reply in
        if let failure { return reply.fail(failure) }
        self.settle()
        reply.done()
      }
    }
  }

  func attribute(
    node: UInt64, name: [UInt8], size: Int, reply: consuming FuseReply<AttributeAnswer>
  ) {
    let value: [UInt8]
    do throws(Errno) { value = try fileSystem.attribute(name, of: InodeNumber(node)) } catch {
      return reply.fail(Self.refusal(of: name, error))
    }
    reply.value(value, size: size)
  }

  /// `ls -l` asks for the label of every single file, unless it learns that this file system has no
  /// labels; where nothing gives any, that is so.
  private static func refusal(of name: [UInt8], _ error: Errno) -> Errno {
    guard error == .noData, name.elementsEqual("security.selinux".utf8), !hasLabels else {
      return error
    }
    return .notSupported
  }

  private static let hasLabels = Files.exists("/sys/fs/selinux/enforce")

  func attributeNames(node: UInt64, size: Int, reply: consuming FuseReply<AttributeAnswer>) {
    let caller = Caller(reply.caller)
    let names: [UInt8]
    do throws(Errno) {
      names = try fileSystem.attributeNames(
        of: InodeNumber(node), withComputed: options.listsStatus, caller: caller)
    } catch {
      return reply.fail(error)
    }
    reply.value(names, size: size)
  }

  func removeAttribute(node: UInt64, name: [UInt8], reply: consuming FuseReply<EmptyAnswer>) {
    do throws(Errno) {
      try fileSystem.removeAttribute(
        name, of: InodeNumber(node), request: RequestIdentity(reply.caller.request))
    } catch {
      return reply.fail(error)
    }
    reply.done()
  }
}
