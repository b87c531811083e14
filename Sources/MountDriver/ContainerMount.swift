package import Catalog
internal import Coordination
package import FileSystem
internal import FuseKernel
internal import Glibc
internal import Model
package import Platform
internal import SystemPackage

/// A container's file system in the tree of names: one mount.
///
/// States, in order: made, mounted (`start`), ended - by `unmount`, `detach`, or by anyone who
/// unmounts it. Not started twice. Its file system serves this mount alone, since it counts what
/// the kernel remembers.
package final class ContainerMount: Sendable {
  package let fileSystem: ContainerFileSystem
  package let options: MountOptions
  let mountpoint: Mountpoint
  let guards: (any ConnectionGuarding)?
  let logger: @Sendable (String) -> Void
  let session = Lock<FuseSession?>(nil)
  let passthrough: Passthrough
  let echo: ChangeEcho

  /// `mountpoint` is an absolute path without links in it. `guards` hears of the connection before
  /// it is served; its end is for the caller to tell. `logger` gets a line for what went wrong that
  /// no program is told of.
  package init(
    fileSystem: ContainerFileSystem, mountpoint: String, options: MountOptions,
    guards: (any ConnectionGuarding)? = nil, logger: @escaping @Sendable (String) -> Void
  ) {
    self.fileSystem = fileSystem
    self.guards = guards
    self.mountpoint = Mountpoint(path: mountpoint)
    self.options = options
    self.logger = logger
    echo = ChangeEcho(fileSystem, mountpoint: self.mountpoint)
    passthrough = Passthrough(
      contentDirectory: fileSystem.contentDirectory, isWanted: options.passthrough != .off)
  }

  /// How local files are read and written.
  package var mode: IOMode { passthrough.mode }

  package var path: String { mountpoint.path }

  /// As in the mount table.
  var source: String { fileSystem.coordinator.container.description }

  /// Mounts and begins to serve; when it returns the mount is usable.
  package func start() throws(MountError) {
    try mountpoint.prepare()
    let made: FuseSession
    let requests: VersionsHandler
    do throws(FuseStartFailure) {
      (made, requests) = try makeSession()
      try made.mount()
    } catch {
      throw failure(error)
    }
    begin(made, requests)
    made.run()
    passthrough.waitUntilKnown()
    mountpoint.waitUntilPermitted()
    keepForSuccessor(made)
  }

  func makeSession() throws(FuseStartFailure) -> (FuseSession, VersionsHandler) {
    let requests = VersionsHandler(
      RequestHandler(
        fileSystem, options: options, passthrough: passthrough, echo: echo.stage, logger: logger))
    let made = try FuseSession(
      handler: requests, mountpoint: path,
      options: options.libraryOptions(source: source),
      wishes: FuseWishes(
        passthrough: passthrough.wish, isEager: options.isEager),
      // One serves best, since waking another thread costs more than it gains; the others are for
      // when that one waits for the disk.
      threads: 4)
    return (made, requests)
  }

  /// What is there once a session has its connection, before that is served.
  func begin(_ made: FuseSession, _ requests: VersionsHandler) {
    requests.ordinary.setNotifier(made.notifier)
    echo.setNotifier(made.notifier)
    passthrough.setFiles(made.backingFiles)
    if let record = fileSystem.record {
      made.notifier.setMark { record.setNotifier(thread: $0) }
    }
    session.withLock { $0 = made }
    guard let connection = made.connection, let guards else { return }
    guards.began(connection)
    made.beforeClosing { guards.ended(connection) }
  }

  func failure(_ failure: FuseStartFailure) -> MountError {
    let detail = failure.detail.isEmpty ? failure.errno.description : failure.detail
    switch failure.errno {
    case .notPermitted, .permissionDenied: return .notPermitted(path, detail: detail)
    case .noSuchFileOrDirectory where !Files.exists("/dev/fuse"): return .noDevice
    default:
      let isRefused = ["ermi", "allow_other", "not own"].contains { detail.contains($0) }
      return isRefused
        ? .notPermitted(path, detail: detail) : .failed(path, detail: detail)
    }
  }

  /// Unmounts once everything the kernel holds back is written, and returns when all is closed and
  /// committed. Throws `.busy` while a program uses the mount, which then stays as it is.
  ///
  /// Another mount namespace may have a copy of the mount, which keeps it in use although no path
  /// here leads to it. That copy loses its connection after `patience`, in milliseconds. Without
  /// `isForced` this throws `.copied` or `.bound` before anything is done: if there is a copy and
  /// files of the mount are open, or if there is a bind mount of it. A copy that mount propagation
  /// made is no bind mount: the kernel unmounts it with the mount.
  package func unmount(patience: Int = 5000, isForced: Bool = false) throws(MountError) {
    guard let session = session.withLock({ $0 }), !session.hasEnded else { return }
    if let top = mountpoint.topMount(), top.type != MountedFileSystem.ubiquityType {
      throw MountError.covered(path)
    }
    if !isForced { try checkCopies(session) }
    echo.pause()
    do {
      try mountpoint.unmount()
    } catch {
      echo.resume()
      switch error {
      case .resourceBusy: throw MountError.busy(path)
      // Someone else has just unmounted it.
      case .invalidArgument where session.hasEnded: break
      case .invalidArgument: throw MountError.notMounted(path)
      default: throw MountError.failed(path, detail: error.description)
      }
    }
    if !session.waitUntilEnded(milliseconds: patience), !session.hasLostConnection {
      logger(
        "\"\(path)\" was copied into another mount namespace; its connection is ended there too")
      session.abort(isUnmounted: true)
    }
    session.waitUntilEnded()
  }

  private func checkCopies(_ session: FuseSession) throws(MountError) {
    // Without it the device number may be another mount's by now.
    guard !session.hasLostConnection, let device, let table = try? MountTable.read() else { return }
    if let other = MountTable.bindMount(of: device, besides: Array(path.utf8), in: table) {
      throw .bound(path, other: String(decoding: other.mountpoint, as: UTF8.self))
    }
    guard fileSystem.hasOpenFiles,
      let process = MountTable.processWithCopy(of: device, named: source)
    else { return }
    // The kernel tells of a close a moment after it.
    for _ in 0..<20 {
      usleep(50_000)
      if !fileSystem.hasOpenFiles { return }
    }
    throw .copied(path, process: Processes.name(of: process))
  }

  /// Ends the mount whatever uses it, for a shutdown: what the kernel holds back is written, the
  /// mount leaves the tree, and programs that still have files of it open get ENOTCONN.
  package func detach() {
    guard let session = session.withLock({ $0 }), !session.hasEnded else { return }
    echo.pause()
    do throws(Errno) {
      try Unmounting.synchronizeFileSystem(of: path)
    } catch {
      logger("\"\(path)\": cannot write the data that the kernel cached: \(error)")
    }
    if !session.waitUntilWritesEnd(quiet: 100, limit: 5000) {
      logger("\"\(path)\": programs still wrote to files when the mount ended")
    }
    session.abort()
    session.waitUntilEnded()
  }

  /// Which files of the mount programs have locked; nil where that cannot be told.
  package func fileLocks() -> FileLocks? {
    guard isMounted, let mount = mountpoint.topMount(),
      mount.type == MountedFileSystem.ubiquityType
    else { return nil }
    return FileLocks.read(ofDevice: mount.device)
  }

  package func waitUntilUnmounted() { session.withLock { $0 }?.waitUntilEnded() }

  /// Gives whether it has ended, after the kernel unmounted it here. A copy in another mount
  /// namespace may keep it, or a program that was in it at `umount -l`. If no files are open after
  /// `patience`, in milliseconds, this ends the connection.
  package func endAfterUnmounting(patience: Int) -> Bool {
    guard let session = session.withLock({ $0 }) else { return true }
    if session.waitUntilEnded(milliseconds: patience) { return true }
    guard !fileSystem.hasOpenFiles else { return false }
    if !session.hasLostConnection {
      logger("\"\(path)\" was unmounted, but a copy of it remained; its connection is ended")
      session.abort(isUnmounted: true)
    }
    session.waitUntilEnded()
    return true
  }

  /// Nil before it is mounted.
  package var connection: AbortableConnection? { session.withLock { $0 }?.connection }

  /// As in the mount table; nil before it is mounted.
  package var device: String? { connection?.mount.device }

  /// Whether the kernel still has the mount for somebody, as far as it can be told at once.
  package var isInUse: Bool {
    guard let session = session.withLock({ $0 }), !session.hasLostConnection else { return false }
    guard let device, let table = try? MountTable.read() else { return true }
    return table.contains { $0.device == device && $0.type == MountedFileSystem.ubiquityType }
  }

  package var isMounted: Bool { session.withLock { $0 }.map { !$0.hasEnded } ?? false }
}

extension ContainerMount: KernelInvalidating {
  /// Queued; the kernel hears of it from a thread of the session's own.
  package func invalidate(_ list: [Invalidation]) {
    guard let session = session.withLock({ $0 }) else { return }
    var notifications: [FuseNotifier.Notification] = []
    var directories: Set<InodeNumber> = []
    for invalidation in list {
      switch invalidation {
      case .entry(let parent, let name):
        // Of a directory that the kernel does not know it has no names, and learns what is there
        // now.
        guard fileSystem.isKnownToKernel(parent) else { continue }
        directories.insert(parent)
        notifications.append(.entry(parent: parent.rawValue, name: name.bytes))
      case .doubt(let parent, let name):
        guard fileSystem.isKnownToKernel(parent) else { continue }
        notifications.append(.doubt(parent: parent.rawValue, name: name.bytes))
      case .attributes(let number): notifications.append(.attributes(number.rawValue))
      case .content(let number): notifications.append(.contents(number.rawValue))
      }
    }
    // Drops the cached lists of names: an entry does that only for a name that the kernel knows.
    notifications += directories.sorted().map { .contents($0.rawValue) }
    session.notifier.send(notifications)
  }

  package func invalidate(_ list: [Invalidation], heard: @escaping @Sendable () -> Void) {
    invalidate(list)
    guard let session = session.withLock({ $0 }), session.notifier.afterwards(heard) else {
      return heard()
    }
  }

  package func announce(_ changes: [ItemChange]) { echo.announce(changes) }

  /// Waits until the kernel knows what `invalidate` was told so far, but not for ever: it may
  /// itself wait for something of ours. Not from a request.
  @discardableResult
  package func waitForInvalidations(milliseconds: Int = 2000) -> Bool {
    session.withLock { $0 }?.notifier.flush(milliseconds: milliseconds) ?? true
  }
}
