package import Backend
internal import Glibc
internal import Platform
internal import SystemPackage

/// A directory as the backend: one file for each object, its key as the path.
///
/// Any number of processes may use it at once; the file system must have `link(2)` or
/// RENAME_NOREPLACE. An object is written to a file in `tmp`, made durable, and then given its
/// name, so that a name never stands for a part of an object. What a killed writer left in `tmp` is
/// removed by a later start.
///
/// A directory without `tmp` and `format` is no store: it is where a disk should be mounted, and
/// nothing is written there.
///
/// A symbolic link below the directory is never followed. Where one is in the way of an object, the
/// call fails with `.invalid`.
package final class DirectoryStore: ObjectStore {
  package let path: String
  let pool = BlockingPool(width: 8)

  /// Opens the store at `path`; blocks for a few system calls. Where there is none, makes one or
  /// fails with `.unavailable`.
  package init(path: String, createIfMissing: Bool) throws(StoreError) {
    var path = path
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    guard path.hasPrefix("/"), !path.utf8.contains(0) else {
      throw .invalid("the backend directory \"\(path)\" is not an absolute path")
    }
    self.path = path
    do throws(Errno) {
      if try !Self.isStore(path) {
        guard createIfMissing else { throw .noSuchFileOrDirectory }
        try Files.makeDirectories(path)
        let directory = try directory()
        do { try directory.makeDirectory(Self.temporaries) } catch .fileExists {}
        try directory.synchronizeNames(around: Self.temporaries)
        try Files.synchronizeDirectory(Self.parent(of: path))
      }
    } catch {
      throw failure(error)
    }
    removeLeftovers()
  }

  package var description: String { "file://\(path)" }

  /// Objects are written there before they have their names.
  static let temporaries = StoreKey.reserved

  /// The store's directory for one call: each call finds the disk that is mounted there then.
  func directory() throws(Errno) -> StoreDirectory { try StoreDirectory(path: path) }

  private static func isStore(_ path: String) throws(Errno) -> Bool {
    do throws(Errno) {
      return try StoreDirectory(path: path).isStore
    } catch .noSuchFileOrDirectory {
      return false
    }
  }

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try StoreKey.check(key)
    return try await call { store throws(StoreError) in try store.read(key, range) }
  }

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try StoreKey.check(key)
    return try await call { store throws(StoreError) in
      try store.write(key, bytes, replacing: false)
    }
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try StoreKey.check(key)
    _ = try await call { store throws(StoreError) in
      try store.write(key, bytes, replacing: true)
    }
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try StoreKey.checkPrefix(prefix)
    return try await call { store throws(StoreError) in
      try store.keys(prefix: prefix, after: after, limit: limit)
    }
  }

  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try StoreKey.checkPrefix(prefix)
    return try await call { store throws(StoreError) in
      let keys = try store.keys(prefix: prefix, after: after, limit: limit)
      guard let directory = try? store.directory() else {
        throw store.failure(.noSuchFileOrDirectory)
      }
      return keys.map { key in
        let status = (try? directory.status(key)) ?? nil
        return ListedObject(key: key, size: status.map { UInt64(clamping: $0.st_size) })
      }
    }
  }

  package func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try StoreKey.checkPrefix(prefix)
    return try await call { store throws(StoreError) in
      try store.names(in: prefix, after: after, limit: limit)
    }
  }

  package func delete(_ key: String) async throws(StoreError) {
    try StoreKey.check(key)
    try await call { store throws(StoreError) in try store.remove(key) }
  }

  package func news(prefix: String) -> AsyncStream<Void> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: Void.self, bufferingPolicy: .bufferingNewest(1))
    guard (try? StoreKey.checkPrefix(prefix)) != nil else {
      continuation.finish()
      return stream
    }
    let components = prefix.split(separator: "/").map(String.init)
    let watcher = DirectoryWatcher(root: path, components: components) { continuation.yield() }
    continuation.onTermination = { _ in watcher.stop() }
    return stream
  }

  private func call<Answer: Sendable>(
    _ body: @escaping @Sendable (DirectoryStore) throws(StoreError) -> Answer
  ) async throws(StoreError) -> Answer {
    guard !Task.isCancelled else { throw .cancelled }
    return try await pool.run { () throws(StoreError) in try body(self) }
  }

  static func parent(of path: String) -> String {
    guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { return "/" }
    return String(path[..<slash])
  }

  /// What a person is told, and what the caller may do, about a failed call in this store. ENOENT
  /// here means that the store is gone; a missing object is told apart before.
  func failure(_ code: Errno) -> StoreError {
    switch code {
    case .noSuchFileOrDirectory:
      .unavailable("no backend directory is at \"\(path)\"; mount its disk, or sign in again")
    case .noSpace, .diskQuotaExceeded:
      .noSpace("the disk of \"\(path)\" is full: \(code); free some space there")
    case .readOnlyFileSystem:
      .notPermitted("\"\(path)\" is on a read-only file system; mount it for writing")
    case .permissionDenied, .notPermitted:
      .notPermitted("cannot access \"\(path)\": \(code); change its owner or mode")
    case .tooManySymbolicLinkLevels:
      .invalid(
        "\"\(path)\" has a symbolic link in place of a directory or an object, and links are not "
          + "followed there; use a bind mount instead")
    case .notDirectory, .isDirectory:
      .invalid("\"\(path)\" has a file of another kind in place of a directory or an object")
    default:
      .unavailable("\"\(path)\" does not answer: \(code)")
    }
  }

  /// Removes temporary files that no process can be writing any more. All else there is another
  /// program's, and stays.
  private func removeLeftovers() {
    guard let directory = try? directory(), let entries = try? directory.entries(Self.temporaries)
    else { return }
    let limit = time(nil) - 24 * 3600
    for entry in entries where entry.kind == .file && Self.isTemporaryName(entry.name) {
      let file = Self.temporaries + "/" + entry.name
      guard let status = (try? directory.status(file)) ?? nil, status.st_mode & S_IFMT == S_IFREG,
        status.st_mtim.tv_sec < limit
      else { continue }
      try? directory.remove(file)
    }
  }

  /// `PID-RANDOM`; see `isTemporaryName`.
  static func temporaryName() -> String {
    "\(getpid())-\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"
  }

  /// Whether `temporaryName` can have made a name.
  private static func isTemporaryName(_ name: String) -> Bool {
    let halves = name.split(separator: "-", omittingEmptySubsequences: false)
    guard halves.count == 2 else { return false }
    let (process, random) = (halves[0].utf8, halves[1].utf8)
    return (1...10).contains(process.count) && (1...16).contains(random.count)
      && process.allSatisfy { (48...57).contains($0) }
      && random.allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
  }
}
