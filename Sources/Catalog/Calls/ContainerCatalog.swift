internal import GRDB
internal import Glibc
package import Model
package import Platform
package import SystemPackage

/// The truth of names and metadata of one container on this device.
///
/// Calls may be made from any thread and never wait for the network. One lock is held over state
/// and connection. The closures that `apply` and `evict` take are called under it: they may take
/// leaf locks, and must not call the catalog. Observers and the actions of `afterDurableCommit` are
/// called with no lock held.
///
/// A change is visible at once and survives the end of the process when the call has returned; what
/// `noteContentChange` says, after `commit(durable: false)` or `Flusher.commitInterval`. It
/// survives a power cut after `commit(durable: true)`. Order is never lost. Errors are those that a
/// local file system gives, ENOSPC and EIO of the disk below included.
package final class ContainerCatalog: Sendable {
  let engine: Lock<Engine>
  let flusher = Flusher()
  let foldedNames: FoldedNames
  /// The former process did not close the catalog, or something could still write to content files
  /// then: call `recover` before anything else.
  package let endedUncleanly: Bool
  /// Content files of inodes that were orphans when the catalog was last in use. No row names them.
  package let startupObsolete: [ContentKey]
  /// Requests of the kernel's that former processes did and may not have answered, as far as the
  /// database and its journal tell, the last at the end: see `setDoneObserver`.
  package let doneRequests: [DoneRequest]

  /// Opens the catalog at `path`, making it where it is missing. `owner` and `group` are those of a
  /// new catalog's root and `Documents`. `keepsOrphans`: programs may still have them open.
  package init(
    path: String, owner: UInt32, group: UInt32, clock: any WallClock, keepsOrphans: Bool = false
  ) throws(CatalogError) {
    let opened = try CatalogOpening.open(
      path: path, owner: owner, group: group, clock: clock, keepsOrphans: keepsOrphans)
    doneRequests = opened.done
    endedUncleanly = opened.endedUncleanly
    startupObsolete = opened.obsolete
    foldedNames = opened.engine.folded
    engine = Lock(opened.engine)
  }

  deinit { engine.withLock { $0.release() } }

  /// Commits durably, folds the write-ahead log into the catalog and closes it. The catalog must
  /// not be used after. `isClean` false: content files may still change, so the next start has to
  /// `recover`.
  package func close(isClean: Bool = true) throws(Errno) {
    flusher.stop()
    try commit(durable: true)
    try run { engine in
      if isClean {
        try engine.write { db in try engine.queries.metaSet.run(db, "clean", Int64(1)) }
      }
      try engine.commitDatabase()
      try engine.close()
    }
  }

  /// Called, with no lock held and perhaps often, after a change made an item dirty.
  package func setChangeObserver(_ observer: (@Sendable () -> Void)?) {
    engine.withLock { $0.observer = observer }
  }

  /// `observer` is told, under the lock, of each request of the kernel's that a call did, before
  /// the journal may forget it. It may take leaf locks.
  package func setDoneObserver(_ observer: (@Sendable (UInt64, InodeNumber) -> Void)?) {
    engine.withLock { $0.doneObserver = observer }
  }

  /// Makes all changes up to now survive the end of this process; `durable`, a power cut too.
  package func commit(durable: Bool) throws(Errno) {
    let sync = try run { engine -> Synchronization? in
      try engine.recordSoftChanges()
      engine.afterNextSync += engine.afterDurable
      engine.afterDurable = []
      return durable ? engine.synchronization() : nil
    }
    if let sync { try synchronize(sync) }
  }

  /// For an fsync of a file whose content file is durable, with its size and time: makes durable
  /// what that file does not tell. Nothing, when all records are: what `noteContentChange` said of
  /// this file since is what `recover` reads from there.
  package func commit(synchronized number: InodeNumber) throws(Errno) {
    let isToldByContent = try run { engine in
      !engine.hasDirectChanges && engine.isJournalDurable && engine.isReadBack(number)
    }
    if !isToldByContent { try commit(durable: true) }
  }

  /// Runs `action` once all that was changed up to now is durable, a moment from now; never on the
  /// caller's stack. For unlinking a content file: the row that names it must be gone first, or a
  /// crash leaves a row whose bytes are lost. Not run if the process ends before; the next start's
  /// sweep finds the file.
  package func afterDurableCommit(_ action: @escaping @Sendable () -> Void) {
    engine.withLock { $0.afterDurable.append(action) }
    schedule(.commit)
  }

  /// By this device's clock.
  package var now: Timestamp { engine.withLock { $0.now } }

  /// A number that no content of any item ever had.
  package func nextGeneration() -> UInt64 { engine.withLock { $0.nextNumber() } }

  /// Runs `body` under the lock, then tells the observer, and sees to the next commit.
  func run<Result>(_ body: (Engine) throws -> Result) throws(Errno) -> Result {
    var failure: Errno?
    var observer: (@Sendable () -> Void)?
    var need = Flusher.Need.nothing
    let result = engine.withLock { engine -> Result? in
      defer {
        need = Flusher.need(of: engine)
        if engine.hasNews {
          engine.hasNews = false
          observer = engine.observer
        }
      }
      do {
        return try body(engine)
      } catch {
        failure = Errno(catalogFailure: error)
        return nil
      }
    }
    schedule(need)
    observer?()
    if let failure { throw failure }
    guard let result else { throw .ioError }
    return result
  }

  /// `run`, for an answer that may be nil.
  func optional<Result>(_ body: (Engine) throws -> Result?) throws(Errno) -> Result? {
    try run { engine in Found(value: try body(engine)) }.value
  }

  private struct Found<Value> {
    let value: Value?
  }

  /// `run`, for one atomic change, which the end of the process does not take back once it
  /// returned.
  func change<Result>(_ body: (Engine) throws -> Result) throws(Errno) -> Result {
    try run { engine in
      let result = try engine.operation { try body(engine) }
      if engine.hasDirectChanges { try engine.commitDatabase() }
      return result
    }
  }

  /// `change` for a request of the kernel's, 0 where there is none, whose answer tells of an inode.
  func change<Result>(
    for request: UInt64, telling number: KeyPath<Result, InodeNumber>,
    _ body: (Engine) throws -> Result
  ) throws(Errno) -> Result {
    try run { engine in
      let result = try engine.operation {
        let result = try body(engine)
        engine.note(request, result[keyPath: number])
        return result
      }
      if engine.hasDirectChanges { try engine.commitDatabase() }
      if request != 0 { engine.doneObserver?(request, result[keyPath: number]) }
      return result
    }
  }

  /// `change` for the sync engine, which does over again what was lost: it is committed with
  /// others.
  func changeLazily<Result>(_ body: (Engine) throws -> Result) throws(Errno) -> Result {
    flushAhead()
    return try run { engine in try engine.operation { try body(engine) } }
  }
}

extension Errno {
  /// The errno for what an operation on the catalog threw.
  init(catalogFailure error: any Error) {
    switch error {
    case let errno as Errno: self = errno
    case let error as DatabaseError:
      switch error.resultCode {
      case .SQLITE_FULL: self = .noSpace
      case .SQLITE_NOMEM: self = .noMemory
      case .SQLITE_READONLY: self = .readOnlyFileSystem
      case .SQLITE_PERM, .SQLITE_AUTH: self = .permissionDenied
      case .SQLITE_BUSY, .SQLITE_LOCKED: self = .resourceBusy
      default: self = .ioError
      }
    default: self = .ioError
    }
  }
}
