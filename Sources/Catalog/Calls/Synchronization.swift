internal import Model
internal import Platform
internal import SystemPackage

/// What makes a commit durable, and what waits for that.
struct Synchronization: Sendable {
  /// Nil when the database has no commits that need it.
  fileprivate let log: OpenFile?
  fileprivate let logCommits: UInt64
  fileprivate let journal: [OpenFile]
  fileprivate let sequence: UInt64
  fileprivate let actions: [@Sendable () -> Void]
}

extension Engine {
  /// Of all that is recorded. Its actions are the caller's to run.
  func synchronization() -> Synchronization {
    let isNothing = isJournalDurable
    if !isNothing { prepareRoom() }
    defer { afterNextSync = [] }
    return Synchronization(
      log: logCommits > durableLogCommits ? log : nil, logCommits: logCommits,
      journal: isNothing ? [] : journal.unsynced, sequence: journal.sequence,
      actions: afterNextSync)
  }

  /// Every record, and every commit that is in no record, outlives a power cut.
  var isJournalDurable: Bool { logCommits == durableLogCommits && journal.unsynced.isEmpty }

  /// Whether, all records being durable, `recover` reads what else is known of a file, its size and
  /// time, from its content file: of what is edited by its record.
  func isReadBack(_ number: InodeNumber) -> Bool { unjournaled[number]?.takesVersion != true }
}

extension ContainerCatalog {
  /// The database's log first: the journal's records stand on it.
  func synchronize(_ sync: Synchronization) throws(Errno) {
    FaultPoint.reach("catalog.sync.before")
    do {
      try sync.log?.synchronizeData()
      for file in sync.journal { try file.synchronizeData() }
    } catch {
      engine.withLock { $0.afterNextSync.insert(contentsOf: sync.actions, at: 0) }
      throw error
    }
    if sync.log != nil || !sync.journal.isEmpty {
      engine.withLock { engine in
        engine.durableLogCommits = max(engine.durableLogCommits, sync.logCommits)
        engine.journal.isDurable(upTo: sync.sequence)
      }
    }
    FaultPoint.reach("catalog.sync.after")
    for action in sync.actions { action() }
  }
}
