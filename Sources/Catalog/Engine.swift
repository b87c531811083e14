internal import GRDB
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// The catalog under its lock: the connection, the open transaction, and what memory knows better.
///
/// Memory is ahead of the rows in two places: `pending` holds inodes whose row is out of date, and
/// `pendingStamps` dirty marks that have no row yet. Both are written before each COMMIT. So a write
/// to a file costs no SQL, and many changes of one inode cost one row.
///
/// An operation is atomic: `operation` opens a savepoint at its first statement that writes, and
/// when it throws, both the savepoint and what it did to memory are undone.
final class Engine {
  /// Hashed and compared as memory: every lookup of the kernel comes by here.
  struct EntryKey: Hashable {
    let parent: InodeNumber
    let name: ItemName

    func hash(into hasher: inout Hasher) {
      hasher.combine(parent.rawValue)
      name.bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }

    static func == (left: Self, right: Self) -> Bool {
      guard left.parent == right.parent, left.name.bytes.count == right.name.bytes.count else {
        return false
      }
      return left.name.bytes.withUnsafeBytes { left in
        right.name.bytes.withUnsafeBytes { right in
          guard let first = left.baseAddress, let second = right.baseAddress else { return true }
          return memcmp(first, second, left.count) == 0
        }
      }
    }
  }

  private enum Undo {
    case inode(InodeNumber, Inode?)
    case stamp(ItemID, UInt64?)
  }

  static let inodeLimit = 100_000
  static let nameLimit = 200_000
  /// So many rows are written at once at most, so that a commit after much work does not hold the
  /// lock for long.
  static let pendingLimit = 2048

  let queue: DatabaseQueue
  private(set) var queries = Queries()
  let clock: any WallClock

  var inodes = GenerationCache<InodeNumber, Inode>(limit: Engine.inodeLimit)
  /// 0 where it is known that there is no such entry.
  var names = GenerationCache<EntryKey, InodeNumber>(limit: Engine.nameLimit)
  /// Of directories, which have one.
  var parents = GenerationCache<InodeNumber, InodeNumber>(limit: Engine.inodeLimit)
  private(set) var pending: [InodeNumber: Inode] = [:]
  private(set) var pendingStamps: [ItemID: UInt64] = [:]
  /// Made without a name, so that `link` may still give them one.
  var unnamed: Set<InodeNumber> = []
  /// Counted when first asked for, kept up to date from then on.
  var counts: CatalogCounts?
  /// Generations and stamps. Its upper half counts the openings of the catalog, so that no value is
  /// used twice even where the transaction that used it was lost.
  private var counter: UInt64

  /// Something became dirty since the observer was last called.
  var hasNews = false
  var observer: (@Sendable () -> Void)?
  /// To be done once what was changed since the last commit is durable. Lost with the transaction, as
  /// the changes are.
  var afterDurable: [@Sendable () -> Void] = []
  /// Of changes that are committed and perhaps not durable yet.
  var afterNextSync: [@Sendable () -> Void] = []
  let reserve: SpaceReserve

  private(set) var isInTransaction = false
  private var isInOperation = false
  private var hasSavepoint = false
  private var undo: [Undo] = []

  init(queue: DatabaseQueue, clock: any WallClock, epoch: UInt64, reserve: SpaceReserve) {
    self.queue = queue
    self.reserve = reserve
    self.clock = clock
    counter = epoch << 32
  }

  var now: Timestamp { Timestamp(nanoseconds: clock.nanoseconds()) }

  func nextNumber() -> UInt64 {
    counter += 1
    return counter
  }

  // MARK: Operations

  /// Runs one atomic operation.
  func operation<Result>(_ body: () throws -> Result) throws -> Result {
    precondition(!isInOperation, "operations do not nest")
    isInOperation = true
    defer {
      isInOperation = false
      hasSavepoint = false
      undo.removeAll(keepingCapacity: true)
    }
    let countsBefore = counts
    let hadNews = hasNews
    do {
      let result = try body()
      if hasSavepoint { try database { try queries.release.run($0) } }
      defer { relieve() }
      return result
    } catch {
      takeBack()
      counts = countsBefore
      hasNews = hadNews
      if hasSavepoint { rollBackOperation() }
      throw error
    }
  }

  /// Writes rows before there are too many. A failure shows in the commit, and nothing is lost: memory
  /// keeps what is not written.
  private func relieve() {
    guard pending.count >= Self.pendingLimit || pendingStamps.count >= Self.pendingLimit else {
      return
    }
    isInOperation = false
    do { try flush() } catch {}
  }

  /// The connection, to read.
  func database<Result>(_ body: (Database) throws -> Result) throws -> Result {
    try queue.unsafeReentrantWrite(body)
  }

  /// The connection, to write: in the transaction, and in an operation within its savepoint.
  func write<Result>(_ body: (Database) throws -> Result) throws -> Result {
    try database { db in
      try begin(db)
      if isInOperation, !hasSavepoint {
        try queries.savepoint.run(db)
        hasSavepoint = true
      }
      do {
        return try body(db)
      } catch {
        // A full disk or a failing one makes SQLite end the whole transaction by itself.
        if !db.isInsideTransaction { abandonTransaction() }
        throw error
      }
    }
  }

  private func begin(_ db: Database) throws {
    guard !isInTransaction else { return }
    try queries.begin.run(db)
    isInTransaction = true
  }

  private func takeBack() {
    for step in undo.reversed() {
      switch step {
      case .inode(let number, let before):
        pending[number] = before
        inodes.remove(number)
      case .stamp(let item, let before):
        pendingStamps[item] = before
      }
    }
  }

  private func rollBackOperation() {
    names.removeAll()
    parents.removeAll()
    let isWhole = queue.unsafeReentrantWrite { db -> Bool in
      guard db.isInsideTransaction else { return false }
      do {
        try queries.rollbackTo.run(db)
        try queries.release.run(db)
        return true
      } catch {
        return false
      }
    }
    if !isWhole { abandonTransaction() }
  }

  /// The transaction is lost, and with it all that memory was ahead: back to what is committed.
  private func abandonTransaction() {
    queue.unsafeReentrantWrite { db in
      if db.isInsideTransaction { try? db.execute(sql: "ROLLBACK") }
    }
    isInTransaction = false
    afterDurable = []
    pending = [:]
    pendingStamps = [:]
    unnamed = []
    counts = nil
    inodes.removeAll()
    names.removeAll()
    parents.removeAll()
  }

  /// For a catalog that is let go without `close`: GRDB's connection must not be freed within a
  /// transaction. What was not committed is lost, as with the process.
  func release() {
    if isInTransaction { abandonTransaction() }
  }

  /// Folds the log into the database and closes it.
  func close() throws {
    try database { db in _ = try db.checkpoint(.truncate) }
    // A connection with prepared statements does not close.
    queries = Queries()
    try queue.close()
  }

  // MARK: Commit

  var hasUncommitted: Bool { isInTransaction || !pending.isEmpty || !pendingStamps.isEmpty }

  /// Ends the transaction. It survives the end of the process then, and a power cut once the
  /// write-ahead log is synchronised. On failure the transaction stays open where SQLite kept it, so
  /// that a later commit, when there is room again, loses nothing.
  func commit() throws {
    guard hasUncommitted else {
      promoteActions()
      return
    }
    reserve.prepare()
    try flush()
    FaultPoint.reach("catalog.commit.before")
    try database { db in
      do {
        try queries.commit.run(db)
        isInTransaction = false
      } catch {
        if !db.isInsideTransaction { abandonTransaction() }
        throw error
      }
    }
    promoteActions()
    FaultPoint.reach("catalog.commit.after")
    // On a disk that is nearly full the write-ahead log gives back what it can.
    if !reserve.isHeld { try? database { db in _ = try db.checkpoint(.truncate) } }
  }

  private func promoteActions() {
    afterNextSync += afterDurable
    afterDurable = []
  }

  /// ENOSPC where only the room is left that removing needs.
  func requireRoom() throws(Errno) {
    if reserve.isExhausted { throw .noSpace }
  }

  /// Writes the rows that memory is ahead of.
  func flush() throws {
    guard !pending.isEmpty || !pendingStamps.isEmpty else { return }
    try write { db in
      for (number, inode) in pending {
        try inode.update(db, queries)
        note(.inode(number, inode))
      }
      let changed = clock.nanoseconds()
      for (item, stamp) in pendingStamps {
        try queries.setStamp.run(db, item.data, stamp.column, changed)
        note(.stamp(item, stamp))
      }
    }
    for (number, inode) in pending { inodes.insert(number, inode) }
    pending.removeAll(keepingCapacity: pending.count < 1024)
    pendingStamps.removeAll(keepingCapacity: pendingStamps.count < 1024)
  }

  private func note(_ step: Undo) {
    if isInOperation { undo.append(step) }
  }

  // MARK: Inodes

  /// What memory knows of an inode.
  func known(_ number: InodeNumber) -> Inode? {
    pending[number] ?? inodes.value(number)
  }

  /// ENOENT when there is none.
  func inode(_ number: InodeNumber) throws -> Inode {
    if let known = known(number) { return known }
    let row = try database { db in
      try queries.inode.first(db, number.column) { try Inode($0) }
    }
    guard let row else { throw Errno.noSuchFileOrDirectory }
    inodes.insert(number, row)
    return row
  }

  /// Notes an inode's new state; its row follows with the next commit.
  func store(_ inode: Inode) throws {
    if counts != nil { count(try self.inode(inode.number), inode) }
    note(.inode(inode.number, pending[inode.number]))
    pending[inode.number] = inode
  }

  /// Makes the row of a new inode and gives it its number.
  func insert(_ inode: Inode, detached: Int64 = 0) throws -> Inode {
    try write { db in
      try inode.insert(db, queries, detached: detached)
      var made = inode
      made.number = InodeNumber(UInt64(bitPattern: db.lastInsertedRowID))
      count(nil, made)
      note(.inode(made.number, nil))
      inodes.insert(made.number, made)
      return made
    }
  }

  /// Deletes an inode and what hangs on it; its entries must be gone.
  func delete(_ inode: Inode) throws {
    try write { db in
      try queries.deleteInode.run(db, inode.number.column)
      try queries.removeAttributes.run(db, inode.number.column)
      if inode.kind == .file {
        try queries.deleteShown.run(db, inode.number.column)
        try queries.endWrite.run(db, inode.number.column)
      }
    }
    count(inode, nil)
    note(.inode(inode.number, pending[inode.number]))
    pending[inode.number] = nil
    inodes.remove(inode.number)
    unnamed.remove(inode.number)
  }

  /// The directory; ENOENT, ENOTDIR, and ENOENT for one that was removed, where nothing can be made.
  func directory(_ number: InodeNumber) throws -> Inode {
    let inode = try inode(number)
    guard inode.kind == .directory else { throw Errno.notDirectory }
    guard !inode.isOrphan else { throw Errno.noSuchFileOrDirectory }
    return inode
  }

  private func count(_ before: Inode?, _ after: Inode?) {
    guard var result = counts else { return }
    if let before { result.subtract(before) }
    if let after { result.add(after) }
    counts = result
  }

  // MARK: Dirty marks

  func stamp(_ item: ItemID) throws -> UInt64? {
    if let pending = pendingStamps[item] { return pending }
    return try database { db in try queries.stamp.first(db, item.data) { $0.unsigned(0) } }
  }

  func setStamp(_ item: ItemID, _ stamp: UInt64? = nil) {
    note(.stamp(item, pendingStamps[item]))
    pendingStamps[item] = stamp ?? nextNumber()
    hasNews = true
  }

  func clearStamp(_ item: ItemID) throws {
    note(.stamp(item, pendingStamps[item]))
    pendingStamps[item] = nil
    try write { db in try queries.clearStamp.run(db, item.data) }
  }

  /// Marks an item that changed, if it is one that syncs.
  func mark(_ inode: Inode) {
    guard !inode.isExcluded, !inode.isOrphan, inode.kind.isSynced else { return }
    setStamp(inode.item)
  }

  /// An item ceased to exist for the other devices: dirty if they know of it, else forgotten.
  func retire(_ item: ItemID) throws {
    let isKnown = try database { db in
      try queries.hasRemote.first(db, item.data) { _ in true } ?? false
    }
    if isKnown {
      setStamp(item)
    } else if try stamp(item) != nil {
      try clearStamp(item)
    }
  }
}

extension CatalogCounts {
  fileprivate mutating func add(_ inode: Inode) {
    guard !inode.isOrphan, inode.number != .root else { return }
    items &+= 1
    guard inode.kind == .file else { return }
    totalBytes &+= inode.size
    if inode.content == .local { localBytes &+= inode.size }
  }

  fileprivate mutating func subtract(_ inode: Inode) {
    guard !inode.isOrphan, inode.number != .root else { return }
    items &-= 1
    guard inode.kind == .file else { return }
    totalBytes &-= inode.size
    if inode.content == .local { localBytes &-= inode.size }
  }
}
