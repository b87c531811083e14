internal import Dispatch
internal import Glibc
internal import Platform

/// Brings what memory holds into the database, where no request waits for it.
///
/// A catalog that nobody changes has no timer. Rows are written under the connection's lock alone,
/// a few at a time; the engine's lock is taken to begin and to commit.
final class Flusher: Sendable {
  enum Need {
    case nothing
    /// Something is in memory alone.
    case commit
    /// The database is behind the journal.
    case flush
    /// Far behind.
    case flushNow
  }

  private struct Due {
    var commit = false
    var flush = false
    var isUrgent = false
    var isStopped = false
    /// The journal's sequence when a flush was last put off, and how often in a row.
    var sequence: UInt64 = 0
    var delays = 0
  }

  /// How long a change may be in memory alone, in milliseconds.
  static let commitInterval = 200
  /// A flush waits until nothing has changed for so long, in milliseconds, ...
  static let quietInterval = 1000
  /// ... so many times at the most.
  static let longestDelay = 10
  /// Rows written before the connection is given to who waits for it.
  static let piece = 64
  /// With more rows than this in memory, who needs them in the database has them written before it
  /// takes the engine's lock.
  static let largePart = 2048
  /// Freed memory goes back to the system when there is so much of it, in bytes: in a quiet moment,
  /// and in one that is not. It takes some milliseconds.
  static let quietSlack = 8 << 20
  static let busySlack = 16 << 20
  /// The write-ahead log is folded into the database when it has more pages than this; that takes
  /// the connection's lock for as long as the disk needs for them.
  static let longestLog = 8192
  /// When nothing changes, nobody waits for that, and it is done sooner.
  static let quietLog = 1024

  private let due = Lock(Due())
  /// One at a time.
  private let work = DispatchQueue(label: "catalog.flusher")

  static func need(of engine: Engine) -> Need {
    if engine.hasUnrecorded { return .commit }
    guard engine.hasUnflushed else { return .nothing }
    return engine.isFlushDue ? .flushNow : .flush
  }

  /// Has `body` called in time, unless it is to be anyway.
  func schedule(_ need: Need, _ body: @escaping @Sendable (Need) -> Void) {
    let delay: Int
    switch need {
    case .nothing: return
    case .commit: delay = Self.commitInterval
    case .flush: delay = Self.quietInterval
    case .flushNow: delay = 0
    }
    let isFirst = due.withLock { due -> Bool in
      guard !due.isStopped else { return false }
      if case .commit = need {
        defer { due.commit = true }
        return !due.commit
      }
      // An urgent one comes beside one that waits.
      if case .flushNow = need {
        defer { due.isUrgent = true }
        return !due.isUrgent
      }
      defer { due.flush = true }
      return !due.flush
    }
    guard isFirst else { return }
    work.asyncAfter(deadline: .now() + .milliseconds(delay)) {
      let isStopped = self.due.withLock { due -> Bool in
        switch need {
        case .commit: due.commit = false
        case .flushNow: due.isUrgent = false
        default: due.flush = false
        }
        return due.isStopped
      }
      if !isStopped { body(need) }
    }
  }

  /// Whether a flush that is due for no other reason than that there is something is to wait on:
  /// the journal grew since it was last asked for.
  func isBusy(_ sequence: UInt64) -> Bool {
    due.withLock { due in
      defer { due.sequence = sequence }
      due.delays = due.sequence == sequence ? 0 : (due.delays + 1) % (Self.longestDelay + 1)
      return due.delays > 0
    }
  }

  /// Waits for what is being done; nothing is after.
  func stop() {
    due.withLock { $0.isStopped = true }
    work.sync {}
  }
}

extension ContainerCatalog {
  /// Gives freed memory back to the system, as each flush does: for a caller that used much of it
  /// without changing anything here, or between two flushes.
  package func giveBackMemory() {
    if freedMemory() > Flusher.quietSlack { returnFreedMemory() }
  }

  /// The same at the next quiet moment.
  package func giveBackMemoryLater() { schedule(.flush) }

  func schedule(_ need: Flusher.Need) {
    flusher.schedule(need) { [weak self] need in self?.work(need) }
  }

  private func work(_ need: Flusher.Need) {
    // A failure is that of the disk. It shows in the next fsync, and this tries again.
    do {
      if case .commit = need {
        let hasActions = engine.withLock { !$0.afterDurable.isEmpty || !$0.afterNextSync.isEmpty }
        try commit(durable: hasActions)
        try foldLong()
      } else if case .flush = need {
        if flusher.isBusy(engine.withLock { $0.journal.sequence }) { return schedule(.flush) }
        try flush(isQuiet: true)
      } else {
        try flush(isQuiet: false)
      }
    } catch {
      schedule(need == .commit ? .commit : .flush)
    }
  }

  /// What one flush works with, away from the engine's lock.
  private struct Job: @unchecked Sendable {
    let flush: Flush?
    let connection: SQLConnection
    let queries: Queries
    let now: Int64
  }

  /// With much in memory, writes that first, so that `database` and `write` have little left to do
  /// under the engine's lock. For calls that need them.
  func flushAhead(where condition: (Engine) -> Bool = { _ in true }) {
    let isLarge = engine.withLock { engine in
      engine.pending.count + (engine.flushing?.overlay.count ?? 0) > Flusher.largePart
        && condition(engine)
    }
    // What fails here fails there again.
    if isLarge { try? flush(isQuiet: false) }
  }

  private func flush(isQuiet: Bool) throws {
    let job = engine.withLock { engine -> Job in
      engine.beginFlush()
      return Job(
        flush: engine.flushing, connection: engine.connection, queries: engine.queries,
        now: engine.clock.nanoseconds())
    }
    if let flush = job.flush { try write(flush, job) }
    let covered = try run { engine in
      try engine.commitFlush()
      return engine.committedSequence
    }
    try fold(upTo: covered, job.connection, isQuiet: isQuiet)
    job.connection.locked { job.connection.setLargeCache(false) }
    // What only a quiet moment is for.
    if !isQuiet { schedule(.flush) }
    guard freedMemory() > (isQuiet ? Flusher.quietSlack : Flusher.busySlack) else { return }
    if isQuiet { job.connection.locked { job.connection.releasePages() } }
    returnFreedMemory()
  }

  private func write(_ flush: Flush, _ job: Job) throws {
    let rows = flush.inOrder()
    if rows.count > Flusher.largePart {
      job.connection.locked { job.connection.setLargeCache(true) }
    }
    var isDone = false
    while !isDone {
      try job.connection.locked {
        // A transaction that is lost has to be taken back first, which needs the engine's lock.
        isDone = flush.isWritten || flush.isAbandoned || job.connection.hasLostTransaction
        guard !isDone else { return }
        if !job.connection.isInTransaction { try job.queries.begin.run(job.connection) }
        try flush.write(
          job.connection, job.queries, now: job.now, limit: Flusher.piece, rows: rows)
        // Not within the commit, which has the engine's lock; what fails here fails there again.
        if flush.isWritten { try? job.connection.writePages() }
      }
    }
  }

  /// Makes what is committed durable when the journal needs its room back, and folds the
  /// write-ahead log when it is long.
  private func fold(upTo covered: UInt64, _ connection: SQLConnection, isQuiet: Bool) throws {
    let (needsRoom, log) = engine.withLock {
      ($0.journal.needsCover(committed: covered), $0.log)
    }
    let longest = isQuiet ? Flusher.quietLog : Flusher.longestLog
    let isLong = connection.locked { connection.logPages > longest }
    guard needsRoom || isLong else { return }
    try log.synchronizeData()
    engine.withLock { $0.journal.isCovered(upTo: covered) }
    if isLong { try connection.locked { try connection.checkpoint(whole: false) } }
  }

  /// Checkpoints a long write-ahead log although no flush did. The sync engine writes past memory,
  /// and each read of a page searches the whole log first.
  private func foldLong() throws {
    let (log, isLong) = engine.withLock { engine in
      (engine.log, engine.withConnection { engine.connection.logPages > Flusher.longestLog })
    }
    guard isLong else { return }
    // Most of the waiting for the disk, while nobody waits for this.
    try log.synchronizeData()
    // Within a transaction nothing is folded, so none may begin before the lock is given back.
    let connection = try engine.withLock { engine in
      try engine.commitDatabase()
      engine.connection.lock()
      return engine.connection
    }
    defer { connection.unlock() }
    try connection.checkpoint(whole: false)
  }
}
