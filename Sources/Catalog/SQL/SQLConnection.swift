internal import GRDB
internal import GRDBSQLite
internal import Glibc
internal import SystemPackage

/// The one connection to the database, and the lock that goes with it.
///
/// GRDB opens, configures and migrates; what runs often goes straight to SQLite's own interface,
/// since GRDB's boxing of arguments and its dispatch queue cost more than a statement does. Use it
/// only under `lock`. Lock order: the engine's lock, then this one; the flusher takes this one
/// alone.
final class SQLConnection: @unchecked Sendable {
  let pointer: OpaquePointer
  private let queue: DatabaseQueue
  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  /// Held by who comes next. Without it the flusher, which takes the lock again right after it gave
  /// it back, would keep out those whom that woke.
  private let turn: UnsafeMutablePointer<pthread_mutex_t>
  /// Pages in the write-ahead log after the last commit.
  private(set) var logPages = 0
  /// A transaction was rolled back, and what was in it was not taken back into memory yet. Until
  /// that is done no other one begins: its commit would say that the journal's records of both are
  /// in the database.
  var hasLostTransaction = false
  private var isClosed = false
  private var cache = SQLConnection.usualCache

  /// Of pages, in KiB. A large flush has room for most of what it changes, so that few pages are
  /// written twice. Otherwise the caches above, of what is asked for, serve better than pages.
  static let usualCache = 4096
  private static let largeCache = 16384

  init(_ queue: DatabaseQueue) throws {
    self.queue = queue
    let pointer = queue.inDatabase { $0.sqliteConnection }
    guard let pointer else { throw DatabaseError(resultCode: .SQLITE_MISUSE) }
    self.pointer = pointer
    mutex = .allocate(capacity: 1)
    mutex.initialize(to: pthread_mutex_t())
    pthread_mutex_init(mutex, nil)
    turn = .allocate(capacity: 1)
    turn.initialize(to: pthread_mutex_t())
    pthread_mutex_init(turn, nil)
    // GRDB's hooks serve observers, of which there are none, and want its own queue.
    sqlite3_commit_hook(pointer, nil, nil)
    // A full disk or a failing one makes SQLite end the whole transaction by itself, whatever it
    // was asked for just then: a read that needs a page of the cache is enough.
    sqlite3_rollback_hook(
      pointer,
      { context in
        guard let context else { return }
        Unmanaged<SQLConnection>.fromOpaque(context).takeUnretainedValue().hasLostTransaction = true
      }, Unmanaged.passUnretained(self).toOpaque())
    // In place of SQLite's own hook, which folds the log within a commit.
    sqlite3_wal_hook(
      pointer,
      { context, _, _, pages in
        guard let context else { return SQLITE_OK }
        Unmanaged<SQLConnection>.fromOpaque(context).takeUnretainedValue().logPages = Int(pages)
        return SQLITE_OK
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  deinit {
    // SQLite has freed a connection that was closed.
    if !isClosed {
      sqlite3_wal_hook(pointer, nil, nil)
      sqlite3_rollback_hook(pointer, nil, nil)
    }
    for mutex in [mutex, turn] {
      pthread_mutex_destroy(mutex)
      mutex.deallocate()
    }
  }

  func lock() {
    pthread_mutex_lock(turn)
    pthread_mutex_lock(mutex)
    pthread_mutex_unlock(turn)
  }

  func unlock() { pthread_mutex_unlock(mutex) }

  func locked<Result>(_ body: () throws -> Result) rethrows -> Result {
    lock()
    defer { unlock() }
    return try body()
  }

  var isInTransaction: Bool { !isClosed && sqlite3_get_autocommit(pointer) == 0 }

  /// What still runs when a container closes, a download for one, is told so: the pointer may be
  /// that of the next connection by then.
  func checkOpen() throws {
    if isClosed { throw Errno.badFileDescriptor }
  }

  /// Runs statements that have no parameters and give nothing.
  func execute(_ sql: String) throws {
    try checkOpen()
    let code = sqlite3_exec(pointer, sql, nil, nil, nil)
    guard code == SQLITE_OK else { throw failure(code, sql) }
  }

  func failure(_ code: Int32, _ sql: String) -> DatabaseError {
    let message = sqlite3_errmsg(pointer).map { String(cString: $0) }
    return DatabaseError(resultCode: ResultCode(rawValue: code), message: message, sql: sql)
  }

  /// Writes what the open transaction changed to the write-ahead log, so that its commit has little
  /// left to write.
  func writePages() throws {
    try checkOpen()
    let code = sqlite3_db_cacheflush(pointer)
    guard code == SQLITE_OK else { throw failure(code, "cacheflush") }
  }

  /// What is beyond the usual goes at once, unless the open transaction changed it.
  func setLargeCache(_ isLarge: Bool) {
    let size = isLarge ? Self.largeCache : Self.usualCache
    guard size != cache else { return }
    cache = size
    // Where it fails the cache stays as it was, which costs memory or time and nothing else.
    try? execute("PRAGMA cache_size = -\(size)")
  }

  /// Gives back the memory of pages that nothing changed.
  func releasePages() { if !isClosed { sqlite3_db_release_memory(pointer) } }

  /// Moves what is committed from the write-ahead log into the database, as far as that needs no
  /// wait; with `whole`, all of it, and the log is emptied.
  func checkpoint(whole: Bool) throws {
    try checkOpen()
    let mode = whole ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
    let code = sqlite3_wal_checkpoint_v2(pointer, nil, mode, nil, nil)
    guard code == SQLITE_OK else { throw failure(code, "checkpoint") }
    logPages = 0
  }

  /// Every `Query` of the connection must be gone.
  func close() throws {
    try queue.close()
    isClosed = true
  }
}
