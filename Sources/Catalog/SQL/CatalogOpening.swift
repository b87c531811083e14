internal import GRDB
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// What opening a catalog does before anyone may use it.
enum CatalogOpening {
  struct Opened {
    let engine: Engine
    let endedUncleanly: Bool
    let obsolete: [ContentKey]
    let done: [DoneRequest]
  }

  static func open(
    path: String, owner: UInt32, group: UInt32, clock: any WallClock, keepsOrphans: Bool
  ) throws(CatalogError) -> sending Opened {
    do {
      let queue = try UnlockedDatabases.open(path) {
        try DatabaseQueue(path: path, configuration: configuration())
      }
      try queue.inDatabase { db in try migrate(db) }
      return try prepare(
        queue, path: path, owner: owner, group: group, clock: clock, keepsOrphans: keepsOrphans)
    } catch {
      throw catalogError(error)
    }
  }

  private static func configuration() -> Configuration {
    var configuration = Configuration()
    configuration.label = "catalog"
    // The transaction stays open between calls: group commit.
    configuration.allowsUnsafeTransactions = true
    configuration.foreignKeysEnabled = false
    configuration.busyMode = .timeout(5)
    configuration.prepareDatabase { db in
      // The daemon is alone with it. Told so before the log is first used, SQLite keeps the log's
      // index in memory and makes no lock calls for each statement.
      try db.execute(sql: "PRAGMA locking_mode = EXCLUSIVE")
      try db.execute(sql: "PRAGMA journal_mode = WAL")
      // With a write-ahead log, NORMAL loses the last commits in a power cut, never consistency;
      // commits that must not be lost synchronise the log themselves.
      try db.execute(sql: "PRAGMA synchronous = NORMAL")
      try db.execute(sql: "PRAGMA cache_size = -\(SQLConnection.usualCache)")
      try db.execute(sql: "PRAGMA temp_store = MEMORY")
    }
    return configuration
  }

  private static func migrate(_ db: Database) throws {
    let version = try Int.fetchOne(db, sql: "PRAGMA user_version") ?? 0
    let application = try Int64.fetchOne(db, sql: "PRAGMA application_id") ?? 0
    guard version <= Schema.version else { throw CatalogError.newerFormat(version) }
    if version == 0 {
      let tables = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_schema") ?? 0
      guard tables == 0 else { throw CatalogError.damaged("it is another program's database") }
    } else if application != Schema.applicationID {
      throw CatalogError.damaged("it is another program's database")
    }
    for next in version..<Schema.version {
      try db.inTransaction {
        try db.execute(sql: Schema.migrations[next])
        try db.execute(sql: "PRAGMA application_id = \(Schema.applicationID)")
        try db.execute(sql: "PRAGMA user_version = \(next + 1)")
        return .commit
      }
    }
  }

  private static func prepare(
    _ queue: DatabaseQueue, path: String, owner: UInt32, group: UInt32, clock: any WallClock,
    keepsOrphans: Bool
  ) throws -> sending Opened {
    let connection = try SQLConnection(queue)
    let queries = Queries()
    func meta(_ key: String) throws -> Int64? {
      try queries.metaGet.first(connection, key) { $0.integer(0) }
    }
    let epoch = UInt64(bitPattern: try meta("epoch") ?? 0) + 1
    let endedUncleanly = try meta("clean") == 0
    let journal = try RedoJournal(catalog: path)
    let replayed = try Replay(connection, queries, journal).run(clock.nanoseconds())
    let greatest = try queries.greatestNumbers.first(connection) { row in
      (row.unsigned(0), row.integer(1))
    }
    // The log's own entry must be durable before a commit in it can be.
    let log = try OpenFile.open(path + "-wal", flags: O_RDWR | O_CREAT)
    try log.synchronizeData()
    let parts = path.split(separator: "/").dropLast().joined(separator: "/")
    let directory = (path.hasPrefix("/") ? "/" : "") + parts
    try Files.synchronizeDirectory(directory.isEmpty ? "." : directory)
    try journal.start(after: replayed.sequence)
    let engine = Engine(
      connection: connection, log: log, journal: journal, clock: clock,
      start: Engine.Start(
        epoch: epoch,
        nextInode: max(
          UInt64(bitPattern: try meta("next.inode") ?? 1),
          max(greatest?.0 ?? 0, replayed.greatestInode) &+ 1),
        // The low numbers stand for `.` and `..`.
        nextEntry: max(try meta("next.entry") ?? 15, greatest?.1 ?? 0, replayed.greatestEntry),
        databaseSequence: UInt64(bitPattern: try meta("redo.database") ?? 0),
        sequence: replayed.sequence,
        hasExclusions: try meta("exclusions") != nil,
        hasInitialLists: try meta("lists.initial") != nil),
      reserve: SpaceReserve(log: log, catalog: path))
    var obsolete: [ContentKey] = []
    try engine.operation {
      try engine.write { db in
        try queries.metaSet.run(db, "epoch", epoch.column)
        try queries.metaSet.run(db, "clean", Int64(0))
      }
      if epoch == 1 { try engine.makeFirstItems(owner: owner, group: group) }
      if try engine.stagesInPlace() { try engine.dropStaged() }
      for orphan in try engine.orphans() {
        if keepsOrphans {
          // The kernel lets only what was made without a name have one after it lost its last.
          engine.unnamed.insert(orphan.number)
        } else if let key = try engine.reclaim(orphan.number) {
          obsolete.append(key)
        }
      }
    }
    guard let root = try? engine.inode(.root), root.kind == .directory, root.item == .root else {
      throw CatalogError.damaged("it has no root directory")
    }
    try engine.commitDatabase()
    return Opened(
      engine: engine, endedUncleanly: endedUncleanly, obsolete: obsolete, done: replayed.done)
  }

  private static func catalogError(_ error: any Error) -> CatalogError {
    switch error {
    case let error as CatalogError: error
    case let errno as Errno: .system(errno)
    case let error as DatabaseError:
      switch error.resultCode {
      case .SQLITE_NOTADB: .damaged("it is not a database")
      case .SQLITE_CORRUPT: .damaged(error.message ?? "its pages contradict each other")
      case .SQLITE_ERROR: .damaged(error.message ?? "its tables are not those of a catalog")
      case .SQLITE_CANTOPEN: .system(.noSuchFileOrDirectory)
      default: .system(Errno(catalogFailure: error))
      }
    case let damage as CatalogDamage: .damaged(damage.reason)
    default: .damaged("\(error)")
    }
  }
}

extension Engine {
  /// The root and `Documents`, as every device makes them: not dirty, for the log's first segment
  /// has them too.
  fileprivate func makeFirstItems(owner: UInt32, group: UInt32) throws {
    let time = now
    func directory(_ item: ItemID, links: UInt32) -> Inode {
      Inode(
        number: .root, item: item, kind: .directory, mode: 0o755, owner: owner, group: group,
        linkCount: links, size: 0, accessed: time, modified: time, changed: time, created: time,
        generation: 0)
    }
    let root = try insert(directory(.root, links: 3))
    guard root.number == .root else { throw CatalogDamage("the first inode is not the root") }
    let documents = try insert(directory(.documents, links: 2))
    try addEntry(root.number, .documents, documents)
  }
}
