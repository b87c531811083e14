/// Brings the database up to what the redo journal has, when a catalog is opened.
struct Replay {
  private let connection: SQLConnection
  private let queries: Queries
  private let journal: RedoJournal

  init(_ connection: SQLConnection, _ queries: Queries, _ journal: RedoJournal) {
    self.connection = connection
    self.queries = queries
    self.journal = journal
  }

  struct Result {
    /// Of the last record that is done.
    var sequence: UInt64
    /// The kernel's requests that were done, by the database and the replayed records, in order.
    var done: [DoneRequest]
    /// The greatest numbers in the records. No number is given twice.
    var greatestInode: UInt64 = 0
    var greatestEntry: Int64 = 0
  }

  /// Durable only when the database's log is synchronised: not before that may the journal be begun
  /// anew.
  func run(_ now: Int64) throws -> Result {
    var result = Result(sequence: try meta("redo.sequence"), done: try replayedBefore())
    let request = try meta(DoneRequest.key)
    if request != 0 {
      let number = InodeNumber(try meta(DoneRequest.numberKey))
      result.done.append(DoneRequest(request: request, number: number))
    }
    let records = try journal.records(
      after: result.sequence, database: try meta("redo.database"))
    guard let last = records.last else { return result }
    try queries.begin.run(connection)
    do {
      for record in records {
        var reader = RedoReader(record.payload)
        try reader.redo(connection, queries, now: now)
        result.done += reader.done
        result.greatestInode = max(result.greatestInode, reader.greatestInode)
        result.greatestEntry = max(result.greatestEntry, reader.greatestEntry)
      }
      try queries.metaSet.run(connection, "redo.sequence", last.sequence.column)
      // The journal forgets them now. This process may end before they are answered.
      try queries.metaSet.run(
        connection, DoneRequest.replayedKey,
        DoneRequest.encode(result.done.suffix(DoneRequest.mostUnanswered)))
      try noteExclusions()
      try queries.commit.run(connection)
    } catch {
      if connection.isInTransaction { try? connection.execute("ROLLBACK") }
      throw error
    }
    result.sequence = last.sequence
    return result
  }

  /// The journal does not say that something is excluded for the first time; the rows do.
  private func noteExclusions() throws {
    let query = Query("SELECT 1 FROM inode WHERE flags & 4 <> 0 LIMIT 1")
    if try query.find(connection, where: { _ in true }) {
      try queries.metaSet.run(connection, "exclusions", Int64(1))
    }
  }

  private func replayedBefore() throws -> [DoneRequest] {
    let bytes = try queries.metaGet.first(connection, DoneRequest.replayedKey) { $0.blob(0) }
    return DoneRequest.decode(bytes ?? [])
  }

  private func meta(_ key: String) throws -> UInt64 {
    try queries.metaGet.first(connection, key) { $0.unsigned(0) } ?? 0
  }
}
