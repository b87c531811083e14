internal import Dispatch
internal import Glibc
internal import Platform

/// Brings what memory holds into the database, where no request waits for it.
///
/// A catalog that nobody changes has no timer. Rows are written under the connection's lock alone, a
/// few at a time; the engine's lock is taken to begin and to commit.
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
  }

  /// How long a change may be in memory alone, in milliseconds.
  static let commitInterval = 200
  /// How long the database may be behind, in milliseconds.
  static let flushInterval = 1000
  /// Rows written before the connection is given to who waits for it.
  static let piece = 64
  /// The write-ahead log is folded into the database when it has more pages than this.
  static let longestLog = 4000

  private let due = Lock(Due())
  /// One at a time.
  private let work = DispatchQueue(label: "catalog.flusher")

  static func need(of engine: Engine) -> Need {
    if engine.hasUnrecorded { return .commit }
    guard engine.hasUnflushed else { return .nothing }
    return engine.pending.count >= Engine.flushLimit || engine.journal.isHalfFull
      ? .flushNow : .flush
  }

  /// Has `body` called in time, unless it is to be anyway.
  func schedule(_ need: Need, _ body: @escaping @Sendable (Need) -> Void) {
    let delay: Int
    switch need {
    case .nothing: return
    case .commit: delay = Self.commitInterval
    case .flush: delay = Self.flushInterval
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

  /// Waits for what is being done; nothing is after.
  func stop() {
    due.withLock { $0.isStopped = true }
    work.sync {}
  }
}

extension ContainerCatalog {
  func schedule(_ need: Flusher.Need) {
    flusher.schedule(need) { [weak self] need in self?.work(need) }
  }

  private func work(_ need: Flusher.Need) {
    // A failure is that of the disk. It shows in the next fsync, and this tries again.
    do {
      if case .commit = need {
        let hasActions = engine.withLock { !$0.afterDurable.isEmpty || !$0.afterNextSync.isEmpty }
        try commit(durable: hasActions)
      } else {
        try flush()
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

  private func flush() throws {
    let job = engine.withLock { engine -> Job in
      if engine.flushing == nil, !engine.pending.isEmpty {
        engine.flushing = Flush(engine.pending, sequence: engine.journal.sequence)
        engine.pending = Overlay()
      }
      return Job(
        flush: engine.flushing, connection: engine.connection, queries: engine.queries,
        now: engine.clock.nanoseconds())
    }
    if let flush = job.flush { try write(flush, job) }
    let covered = try run { engine in
      try engine.commitFlush()
      return engine.committedSequence
    }
    try fold(upTo: covered, job.connection)
  }

  private func write(_ flush: Flush, _ job: Job) throws {
    var isDone = false
    while !isDone {
      try job.connection.locked {
        isDone = flush.isWritten || flush.isAbandoned
        guard !isDone else { return }
        if !job.connection.isInTransaction { try job.queries.begin.run(job.connection) }
        try flush.write(
          job.connection, job.queries, now: job.now, limit: Flusher.piece)
      }
    }
  }

  /// Makes what is committed durable when the journal needs its room back, and folds the write-ahead
  /// log when it is long.
  private func fold(upTo covered: UInt64, _ connection: SQLConnection) throws {
    let (needsRoom, log) = engine.withLock { ($0.journal.isHalfFull, $0.log) }
    let isLong = connection.locked { connection.logPages > Flusher.longestLog }
    guard needsRoom || isLong else { return }
    try log.synchronizeData()
    engine.withLock { $0.journal.isCovered(upTo: covered) }
    if isLong { try connection.locked { try connection.checkpoint(whole: false) } }
  }
}
