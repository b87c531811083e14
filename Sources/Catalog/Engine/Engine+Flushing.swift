internal import Model

/// What memory is ahead of becomes rows.
extension Engine {
  /// Enough has gathered for a flush: in memory, or in the journal, which has room for two as long.
  var isFlushDue: Bool {
    pending.count >= Self.flushLimit
      || journal.bytes - flushedBytes >= RedoJournal.capacity / 2 && !pending.isEmpty
  }

  /// Writes all that memory is ahead of. The connection's lock is held.
  func settle() throws {
    takeBackLost()
    guard flushing != nil || !pending.isEmpty else { return }
    if isInOperation, !undo.isEmpty { hasSettled = true }
    try begin()
    do {
      try finishFlush()
      guard !pending.isEmpty else { return }
      beginFlush()
      try finishFlush()
    } catch {
      if !connection.isInTransaction { abandonTransaction() }
      throw error
    }
  }

  /// What memory is ahead of is on its way from here on.
  func beginFlush() {
    guard flushing == nil, !pending.isEmpty else { return }
    flushing = Flush(pending, sequence: journal.sequence)
    pending = Overlay()
    flushedBytes = journal.bytes
  }

  private func finishFlush() throws {
    guard let flush = flushing else { return }
    let time = clock.nanoseconds()
    while !flush.isWritten {
      try flush.write(connection, queries, now: time, limit: 4096)
    }
    flushIsWritten()
  }

  /// The rows are in the open transaction.
  func flushIsWritten() {
    guard let flush = flushing, flush.isWritten else { return }
    for (number, change) in flush.overlay.inodes {
      if let inode = change.inode { inodes.insert(number, inode) } else { inodes.remove(number) }
    }
    uncommitted.append(flush)
    flushing = nil
  }

  /// The transaction ended without us. The connection's lock is held.
  func takeBackLost() {
    if connection.hasLostTransaction { abandonTransaction() }
  }

  /// The transaction is lost: back to what is committed, and from there on with what memory still
  /// has. What was written directly is gone.
  func abandonTransaction() {
    if connection.isInTransaction { try? connection.execute("ROLLBACK") }
    connection.hasLostTransaction = false
    // What an operation that is taken back finds in memory is not what it found there.
    if isInOperation, !undo.isEmpty { hasSettled = true }
    if hasDirectChanges {
      hasDirectChanges = false
      losses += 1
      // Rows that still name a content file may be back. The next start's sweep finds what is left.
      afterDurable = []
    }
    var lost = Overlay()
    for flush in uncommitted + [flushing].compactMap({ $0 }) {
      flush.isAbandoned = true
      lost.merge(flush.overlay)
    }
    lost.merge(pending)
    pending = lost
    uncommitted = []
    flushing = nil
    counts = nil
    held = nil
    inodes.removeAll()
    names.removeAll()
    parents.removeAll()
  }
}
