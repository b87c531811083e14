internal import Model
internal import Platform
internal import SystemPackage

/// From memory into the database.
extension Engine {
  func withConnection<Result>(_ body: () throws -> Result) rethrows -> Result {
    if holdsConnection { return try body() }
    return try connection.locked(body)
  }

  /// Reads rows that memory cannot be ahead of, or where memory was asked already.
  func read<Result>(_ body: (SQLConnection) throws -> Result) throws -> Result {
    try withConnection {
      // Rows of a lost transaction are missing, and are not asked for in memory any more.
      if connection.hasLostTransaction { try settle() }
      return try body(connection)
    }
  }

  /// Reads a database that has everything.
  func database<Result>(_ body: (SQLConnection) throws -> Result) throws -> Result {
    try withConnection {
      try settle()
      return try body(connection)
    }
  }

  /// Writes to a database that has everything; in an operation, within its savepoint.
  func write<Result>(_ body: (SQLConnection) throws -> Result) throws -> Result {
    guard isInOperation else {
      return try withConnection {
        try settle()
        try begin()
        hasDirectChanges = true
        return try body(connection)
      }
    }
    if !holdsConnection {
      connection.lock()
      holdsConnection = true
    }
    do {
      try settle()
      if !hasSavepoint {
        try begin()
        try queries.savepoint.run(connection)
        hasSavepoint = true
      }
      return try body(connection)
    } catch {
      // A full disk or a failing one makes SQLite end the whole transaction by itself.
      if !connection.isInTransaction { abandonTransaction() }
      throw error
    }
  }

  func begin() throws {
    if !connection.isInTransaction { try queries.begin.run(connection) }
  }

  // MARK: Commit

  /// Commits what is in the database's transaction, and all that memory is ahead of with it. On
  /// failure the transaction stays open where SQLite kept it, so that a later commit, when there is
  /// room again, loses nothing.
  func commitDatabase() throws {
    try withConnection {
      prepareRoom()
      let known = losses
      try settle()
      // What memory has is going to be committed; what was written directly is not there any more,
      // and whoever is about to be told that it is done is to hear that.
      guard losses == known else { throw Errno.ioError }
      if !unjournaled.isEmpty {
        unjournaled.removeAll(keepingCapacity: true)
        logCommits += 1
      }
      // The commit has an operation that the journal does not have yet, or covers its record.
      try storeDoing()
      try commitTransaction(upTo: journal.sequence)
    }
  }

  /// Commits a flush that is written; what came after it stays in memory.
  func commitFlush() throws {
    if hasDirectChanges { return try commitDatabase() }
    try withConnection {
      prepareRoom()
      takeBackLost()
      flushIsWritten()
      guard flushing == nil, let last = uncommitted.last else { return }
      try commitTransaction(upTo: last.sequence)
    }
  }

  private func commitTransaction(upTo sequence: UInt64) throws {
    guard connection.isInTransaction else { return }
    FaultPoint.reach("catalog.commit.before")
    do {
      try writeProgress(sequence)
      try queries.commit.run(connection)
    } catch {
      if !connection.isInTransaction { abandonTransaction() }
      throw error
    }
    committedSequence = sequence
    uncommitted = []
    if hasDirectChanges {
      databaseSequence += 1
      hasDirectChanges = false
      logCommits += 1
    }
    FaultPoint.reach("catalog.commit.after")
    // On a full disk the write-ahead log is folded at once, so that it is written from its start
    // again.
    if reserve.isExhausted { try? connection.checkpoint(whole: false) }
  }

  private func writeProgress(_ sequence: UInt64) throws {
    try queries.metaSet.run(connection, "redo.sequence", sequence.column)
    let next = databaseSequence + (hasDirectChanges ? 1 : 0)
    try queries.metaSet.run(connection, "redo.database", next.column)
    try queries.metaSet.run(connection, "next.inode", nextInode.column)
    try queries.metaSet.run(connection, "next.entry", nextEntry)
    if hasExclusions { try queries.metaSet.run(connection, "exclusions", Int64(1)) }
  }

  /// The journal is full: the database is to have all of it durably now.
  func catchUp() throws {
    try commitDatabase()
    let commits = logCommits
    try log.synchronizeData()
    durableLogCommits = max(durableLogCommits, commits)
    journal.isCovered(upTo: committedSequence)
  }

  /// Brings the soft changes into the journal.
  func recordSoftChanges() throws {
    // A commit of the database has them too, and not the marks that were cleared meanwhile.
    if hasDirectChanges { try commitDatabase() }
    guard !unjournaled.isEmpty else { return }
    var record = RedoRecord()
    for (number, change) in unjournaled {
      guard let inode = try? inode(number) else { continue }
      record.add(number, .stored(inode, isNew: false))
      if let stamp = change.stamp { record.add(inode.item, .set(stamp)) }
      if record.bytes.count > 1 << 18 {
        try append(record.bytes)
        record.removeAll()
      }
    }
    if !record.isEmpty { try append(record.bytes) }
    unjournaled.removeAll(keepingCapacity: unjournaled.count < 1024)
  }

  /// Something is not where the end of the process could not take it.
  var hasUnrecorded: Bool { !unjournaled.isEmpty || hasDirectChanges }

  /// The database is behind.
  var hasUnflushed: Bool { flushing != nil || !pending.isEmpty || !uncommitted.isEmpty }

  /// Room for all that is not committed yet.
  func prepareRoom() {
    let written = uncommitted.reduce(0) { $0 + $1.overlay.count }
    reserve.prepare(forRows: pending.count + (flushing?.overlay.count ?? 0) + written)
  }

  /// ENOSPC where only the room is left that removing needs.
  func requireRoom() throws(Errno) {
    // The journal has room for more than are made in between.
    roomChecks &+= 1
    if roomChecks & 31 == 0 { prepareRoom() }
    if reserve.isExhausted { throw .noSpace }
  }

  // MARK: End

  /// For a catalog that is let go without `close`: the connection must not be freed within a
  /// transaction. What is in the journal is not lost.
  func release() {
    connection.locked { if connection.isInTransaction { abandonTransaction() } }
    queries = Queries()
  }

  /// Folds the log into the database and closes it.
  func close() throws {
    try connection.locked {
      try connection.checkpoint(whole: true)
      // A connection with prepared statements does not close.
      queries = Queries()
      try connection.close()
    }
  }
}
