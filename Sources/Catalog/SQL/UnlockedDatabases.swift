internal import GRDBSQLite
internal import Glibc
internal import Platform

/// Databases that are opened without SQLite's own locks.
///
/// The lock of the state directory is what keeps others away from a catalog. A daemon that was
/// killed may keep SQLite's locks while a thread of it waits for an answer that the next daemon is
/// to give. GRDB cannot be told which of SQLite's file systems to use: so the default one, for the
/// paths that are being opened here, is the one without locks, and for all others what it was.
enum UnlockedDatabases {
  /// A leaf.
  private static let paths = Lock<[String: Int]>([:])

  static func open<Result>(_ path: String, _ body: () throws -> Result) rethrows -> Result {
    _ = fileSystem
    // As SQLite says the name: absolute, without links in it.
    let name = realpath(path)
    defer { paths.withLock { $0[name, default: 1] -= 1 } }
    paths.withLock { $0[name, default: 0] += 1 }
    return try body()
  }

  /// Of a file that need not be there, in a directory that is.
  private static func realpath(_ path: String) -> String {
    let parts = path.split(separator: "/", omittingEmptySubsequences: false)
    let directory = parts.dropLast().joined(separator: "/")
    guard let found = Glibc.realpath(directory.isEmpty ? "." : directory, nil) else { return path }
    defer { free(found) }
    return String(cString: found) + "/" + (parts.last ?? "")
  }

  private static func isOpening(_ name: String) -> Bool { paths.withLock { ($0[name] ?? 0) > 0 } }

  private static let fileSystem: Void = {
    guard let usual = sqlite3_vfs_find(nil), sqlite3_vfs_find("unix-none") != nil else { return }
    let made = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
    made.initialize(to: usual.pointee)
    made.pointee.pNext = nil
    made.pointee.zName = UnsafePointer(strdup("ubiquityfs"))
    made.pointee.xOpen = { _, name, file, flags, given in
      let isAlone = name.map { UnlockedDatabases.isOpening(String(cString: $0)) } ?? false
      guard let system = sqlite3_vfs_find(isAlone ? "unix-none" : "unix") else {
        return SQLITE_CANTOPEN
      }
      return system.pointee.xOpen(system, name, file, flags, given)
    }
    sqlite3_vfs_register(made, 1)
  }()
}
