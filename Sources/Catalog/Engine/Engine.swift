internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// The catalog under its lock: what memory knows, and the way to the database.
///
/// Three layers, the newest first: `pending`, what changed since the last flush; `flushing`, what
/// is on its way into the database; the database, with caches of it. Requests read and change the
/// upper ones; each operation leaves a record in the redo journal, and the database follows in the
/// background. What is rare or large (the sync engine's work, users' attributes, fsck) works on the
/// database itself: `database` and `write` bring it up to date first.
///
/// An operation is atomic: when it throws, what it did to memory and to the database is undone.
final class Engine {
  enum Undo {
    case inode(InodeNumber, slot: Overlay.InodeChange?, was: Inode?)
    case entry(InodeNumber, ItemName, slot: Overlay.EntryChange?, was: EntryValue)
    case stamp(ItemID, slot: Overlay.StampChange?)
    case write(InodeNumber, slot: Int64??)
  }

  // Halves of these just fit tables of 2^15 and 2^16 places.
  static let inodeLimit = 48_000
  static let nameLimit = 96_000
  /// So many changed rows wake the flusher: about 8,000 new files. Pages of the database that many
  /// rows share are written once for all of them, so that more at once cost less each.
  static let flushLimit = 24_576
  /// With so many, whoever makes more writes them itself.
  static let pendingLimit = 98_304

  let connection: SQLConnection
  /// The write-ahead log, to be synchronised for a durable commit.
  let log: OpenFile
  var queries = Queries()
  let clock: any WallClock
  let journal: RedoJournal
  let reserve: SpaceReserve

  var inodes = GenerationCache<InodeNumber, Inode>(limit: Engine.inodeLimit)
  var names = GenerationCache<EntryKey, EntryValue>(limit: Engine.nameLimit)
  var loads = DirectoryLoads()
  let folded = FoldedNames()
  /// Of directories, which have one.
  var parents = GenerationCache<InodeNumber, InodeNumber>(limit: Engine.inodeLimit)
  var pending = Overlay()
  var flushing: Flush?
  /// Written in the open transaction: to be written again if that is lost.
  var uncommitted: [Flush] = []
  /// Made without a name, so that `link` may still give them one.
  var unnamed: Set<InodeNumber> = []
  /// Counted when first asked for, kept up to date from then on.
  var counts: CatalogCounts?
  /// The 512-byte blocks that all local contents take. As `counts`.
  var held: UInt64?

  /// Generations and stamps. Its upper half counts the openings of the catalog, so that no value is
  /// used twice even where what used it was lost.
  private var counter: UInt64
  var nextInode: UInt64
  var nextEntry: Int64
  /// Of items that are made here.
  var identities = IdentityRun<ItemKey>()
  /// Commits of the database that had more in them than flushes.
  var databaseSequence: UInt64
  /// Of the journal: what the database's last commit covers.
  var committedSequence: UInt64
  /// What the journal had taken when the last flush began.
  var flushedBytes: UInt64 = 0

  /// Something has a name that does not sync, or had one once.
  var hasExclusions: Bool
  /// Some directory has, or once had, an initial access list.
  var hasInitialLists: Bool

  /// Something became dirty since the observer was last called.
  var hasNews = false
  var observer: (@Sendable () -> Void)?
  var doneObserver: (@Sendable (UInt64, InodeNumber) -> Void)?
  /// What the operation under way does for the kernel.
  private var doing: DoneRequest?
  /// Items whose mark changed while `differences` reads; nil when nobody does.
  var touched: Set<ItemID>?
  /// Items that were marked since somebody last asked; nil while nobody does, or after too many.
  var marked: Set<ItemID>?
  static let markedLimit = 2_000
  /// Set while the folded state is read page by page.
  var tracking: FoldTracking?
  /// The room in the allotment that the items of the snapshot take while it is staged.
  var stagedUsage: UInt64 = 0
  /// This process may be staging parts in the tables of the tree. Only then `meta` is read.
  var mayStageInPlace = false
  /// To be done once what was changed since the last commit is durable. Lost with the transaction,
  /// as the changes are.
  var afterDurable: [@Sendable () -> Void] = []
  /// Of changes that are committed and perhaps not durable yet.
  var afterNextSync: [@Sendable () -> Void] = []

  /// What `noteContentChange` did to an inode, the journal not knowing it yet.
  struct SoftChange {
    /// The dirty mark that goes with it.
    var stamp: UInt64?
    /// The journal, or the database, still says that the content is a version.
    var takesVersion: Bool
  }

  /// Changed by `noteContentChange` alone and not in the journal yet: the file itself tells it too.
  var unjournaled: [InodeNumber: SoftChange] = [:]
  /// The open transaction has what is in no flush.
  var hasDirectChanges = false
  /// How often such were lost with their transaction. Who made them is told by the error of the
  /// commit; who made them lazily looks whether this is what it was.
  var losses: UInt64 = 0
  /// `losses` when the staging of a snapshot began.
  var stagingLosses: UInt64 = 0
  /// Commits of the database that are not in the journal, and how many of them are synchronised.
  var logCommits: UInt64 = 0
  var durableLogCommits: UInt64 = 0
  var isInOperation = false
  /// The operation under way wrote to the database itself.
  var hasSavepoint = false
  /// The connection's lock is held for the rest of the operation.
  var holdsConnection = false
  /// The operation's changes so far are in the database.
  var hasSettled = false
  /// What the operation does is told by the journal later, or by the content file.
  var isSoft = false
  var undo: [Undo] = []
  var roomChecks: UInt32 = 0
  private var record = RedoRecord()

  struct Start {
    var epoch: UInt64
    var nextInode: UInt64
    var nextEntry: Int64
    var databaseSequence: UInt64
    var sequence: UInt64
    var hasExclusions: Bool
    var hasInitialLists: Bool
  }

  init(
    connection: SQLConnection, log: OpenFile, journal: RedoJournal, clock: any WallClock,
    start: Start, reserve: SpaceReserve
  ) {
    self.connection = connection
    self.log = log
    self.journal = journal
    self.clock = clock
    self.reserve = reserve
    counter = start.epoch << 32
    nextInode = start.nextInode
    nextEntry = start.nextEntry
    databaseSequence = start.databaseSequence
    committedSequence = start.sequence
    hasExclusions = start.hasExclusions
    hasInitialLists = start.hasInitialLists
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
    defer { endOperation() }
    let countsBefore = counts
    let heldBefore = held
    let hadNews = hasNews
    do {
      let result = try body()
      try finish()
      return result
    } catch {
      takeBack()
      counts = countsBefore
      held = heldBefore
      hasNews = hadNews
      throw error
    }
  }

  /// The operation does what the kernel asked for by this request, if it is one.
  func note(_ request: UInt64, _ number: InodeNumber) {
    if request != 0 { doing = DoneRequest(request: request, number: number) }
  }

  /// Puts the request of the present operation into the open transaction, if there is one. Its
  /// record in the journal is missing, or is not read after a commit that covers it.
  func storeDoing() throws {
    guard let doing, connection.isInTransaction else { return }
    try queries.metaSet.run(connection, DoneRequest.key, doing.request.column)
    try queries.metaSet.run(connection, DoneRequest.numberKey, doing.number.column)
  }

  /// What was done becomes part of the journal, or of the open transaction.
  private func finish() throws {
    if hasSavepoint || hasSettled { try storeDoing() }
    if hasSavepoint {
      try queries.release.run(connection)
      hasDirectChanges = true
      // In one transaction with what was written directly, or a crash could part them.
      try settle()
    } else if hasSettled {
      try settle()
      // Its first half is in the transaction and in no record.
      hasDirectChanges = true
    } else if isSoft {
      noteSoftChanges()
    } else if !undo.isEmpty {
      try recordOperation()
    }
    if pending.count >= Self.pendingLimit {
      // A failure shows in the commit, and nothing is lost: memory keeps what is not written.
      try? commitDatabase()
    }
  }

  private func noteSoftChanges() {
    for step in undo {
      guard case .inode(let number, _, let was) = step else { continue }
      let item = pending.inodes[number]?.inode?.item
      let stamp: UInt64?
      switch item.flatMap({ pending.stamps[$0] }) {
      case .set(let value): stamp = value
      case .retired: stamp = nil
      // A flush took the mark along, and may not be committed when the process ends.
      case nil: stamp = unjournaled[number]?.stamp
      }
      let takesVersion = unjournaled[number]?.takesVersion ?? (was?.version != nil)
      unjournaled[number] = SoftChange(stamp: stamp, takesVersion: takesVersion)
    }
  }

  private func recordOperation() throws {
    record.removeAll()
    for (index, step) in undo.enumerated() where isLast(step, index) { add(step) }
    if let doing { record.add(doing) }
    try append(record.bytes)
    // Not before: what was changed softly stays to be recorded if there is no room.
    for case .inode(let number, _, _) in undo { unjournaled[number] = nil }
  }

  /// One item is often changed more than once in an operation; its last state counts.
  private func isLast(_ step: Undo, _ index: Int) -> Bool {
    for later in undo[(index + 1)...] {
      switch (step, later) {
      case (.inode(let one, _, _), .inode(let other, _, _)) where one == other: return false
      case (.entry(let one, let name, _, _), .entry(let other, let otherName, _, _))
      where one == other && name == otherName: return false
      case (.stamp(let one, _), .stamp(let other, _)) where one == other: return false
      case (.write(let one, _), .write(let other, _)) where one == other: return false
      default: continue
      }
    }
    return true
  }

  private func add(_ step: Undo) {
    switch step {
    case .inode(let number, _, let was):
      if let change = pending.inodes[number] {
        record.add(number, change)
        addMark(of: unjournaled[number], to: change.inode)
      } else if let was {
        // Made and deleted since the last flush; the journal may have the making.
        record.add(number, .deleted(was.kind))
      }
    case .entry(let parent, let name, _, _):
      let none = Overlay.EntryChange(child: InodeNumber(0), id: 0, isNew: false)
      record.add(parent, name, pending.entry(parent, name) ?? none)
    case .stamp(let item, _):
      if let change = pending.stamps[item] { record.add(item, change) }
    case .write(let number, _):
      if let began = pending.writes[number] { record.add(number, began: began) }
    }
  }

  /// The row says what was changed softly, so the record has the mark of that too. An operation may
  /// set another one itself. With direct changes the database has the mark, or its removal, before
  /// the journal has the record.
  private func addMark(of soft: SoftChange?, to inode: Inode?) {
    guard let stamp = soft?.stamp, let item = inode?.item, !hasDirectChanges else { return }
    let isMarked = undo.contains { step in
      if case .stamp(item, _) = step { true } else { false }
    }
    if !isMarked { record.add(item, .set(stamp)) }
  }

  /// Appends a record, after a commit where it would stand on what is not committed.
  func append(_ bytes: [UInt8]) throws {
    if hasDirectChanges { try commitDatabase() }
    if !journal.hasRoom(for: bytes.count) { try catchUp() }
    try journal.append(bytes, presumed: databaseSequence)
  }

  private func takeBack() {
    for step in undo.reversed() {
      switch step {
      case .inode(let number, let slot, let was):
        if !hasSettled {
          pending.inodes[number] = slot
        } else if let was {
          pending.inodes[number] = .stored(was, isNew: false)
        } else {
          let kind = pending.inodes[number]?.inode?.kind ?? .file
          pending.inodes[number] = .deleted(kind)
        }
        inodes.remove(number)
      case .entry(let parent, let name, let slot, let was):
        if !hasSettled {
          pending.setEntry(parent, name, slot)
        } else {
          pending.setEntry(
            parent, name, Overlay.EntryChange(child: was.child, id: was.id, isNew: false))
        }
        names.remove(EntryKey(parent: parent, name: name))
        folded.changed(parent, name, isThere: was.child.rawValue != 0)
      // A mark too many makes the sync engine look, and find nothing.
      case .stamp(let item, let slot): if !hasSettled { pending.stamps[item] = slot }
      case .write(let number, let slot): if !hasSettled { pending.writes[number] = slot }
      }
    }
    if !undo.isEmpty { parents.removeAll() }
    guard hasSavepoint else { return }
    names.removeAll()
    parents.removeAll()
    inodes.removeAll()
    do {
      try queries.rollbackTo.run(connection)
      try queries.release.run(connection)
    } catch {
      abandonTransaction()
    }
  }

  private func endOperation() {
    isInOperation = false
    hasSavepoint = false
    hasSettled = false
    isSoft = false
    doing = nil
    undo.removeAll(keepingCapacity: true)
    if holdsConnection {
      holdsConnection = false
      connection.unlock()
    }
  }
}

/// Hashed and compared as memory: every lookup of the kernel comes by here.
struct EntryKey: Hashable {
  let parent: InodeNumber
  let name: ItemName
}

/// The row of a name that nothing had.
struct NewEntry {
  let id: Int64
  let parent: InodeNumber
  let name: ItemName
  let child: InodeNumber
}

/// What a name means. `child` is 0 where it is known that there is no such name.
struct EntryValue {
  let child: InodeNumber
  let id: Int64

  static let none = EntryValue(child: InodeNumber(0), id: 0)
}
