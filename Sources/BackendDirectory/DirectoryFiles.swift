internal import Backend
internal import Glibc
internal import Platform
internal import SystemPackage

// The calls themselves, which block.

extension DirectoryStore {
  func read(_ key: String, _ range: Range<UInt64>?) throws(StoreError) -> [UInt8] {
    do throws(Errno) {
      let directory = try directory()
      do throws(Errno) {
        // Without O_NONBLOCK a FIFO in the way would hold the thread forever.
        let file = try directory.open(key, flags: O_RDONLY | O_NONBLOCK)
        let status = try file.status()
        guard status.st_mode & S_IFMT == S_IFREG else { throw .noSuchFileOrDirectory }
        let size = UInt64(clamping: status.st_size)
        let end = min(range?.upperBound ?? size, size)
        let start = min(range?.lowerBound ?? 0, end)
        return try file.read(count: Int(end - start), at: start)
      } catch .noSuchFileOrDirectory, .notDirectory {
        guard directory.isStore else { throw .noSuchFileOrDirectory }
      }
    } catch {
      throw failure(error)
    }
    throw .notFound(key)
  }

  /// Whether the object was stored; only false when there was one and `replacing` is not set.
  func write(_ key: String, _ bytes: [UInt8], replacing: Bool) throws(StoreError) -> Bool {
    do throws(Errno) {
      let directory = try directory()
      if !replacing, directory.isStore, try directory.status(key) != nil { return false }
      let temporary = try writeTemporary(bytes, directory)
      FaultPoint.reach("backend.written")
      do throws(Errno) {
        let stored = try name(temporary, key, directory, replacing: replacing)
        FaultPoint.reach("backend.named")
        if !replacing { try? directory.remove(temporary) }
        if stored { try directory.synchronizeNames(around: key) }
        return stored
      } catch {
        try? directory.remove(temporary)
        throw error
      }
    } catch {
      throw failure(error)
    }
  }

  private func writeTemporary(_ bytes: [UInt8], _ directory: StoreDirectory) throws(Errno) -> String
  {
    let temporary = Self.temporaries + "/" + Self.temporaryName()
    let flags = O_WRONLY | O_CREAT | O_EXCL
    let file: OpenFile
    do {
      file = try directory.open(temporary, flags: flags)
    } catch .noSuchFileOrDirectory {
      // A copy of a store may lack the empty directory; a missing store lacks `format` too.
      guard directory.exists("format") else { throw .noSuchFileOrDirectory }
      do { try directory.makeDirectory(Self.temporaries) } catch .fileExists {}
      file = try directory.open(temporary, flags: flags)
    }
    do throws(Errno) {
      try file.write(bytes, at: 0)
      try file.synchronize()
    } catch {
      try? directory.remove(temporary)
      throw error
    }
    return temporary
  }

  /// Gives a temporary file its key's name. Directories on the way are made, again when another
  /// process removes them as empty in between.
  private func name(
    _ temporary: String, _ key: String, _ directory: StoreDirectory, replacing: Bool
  ) throws(Errno) -> Bool {
    var attempts = 8
    while true {
      do throws(Errno) {
        if replacing {
          try directory.rename(temporary, key)
        } else {
          try linkOrRename(temporary, key, directory)
        }
        return true
      } catch .fileExists where !replacing {
        return false
      } catch .noSuchFileOrDirectory {
        attempts -= 1
        guard attempts > 0, directory.exists(temporary) else { throw .noSuchFileOrDirectory }
        try makeDirectories(for: key, directory)
      }
    }
  }

  private func linkOrRename(
    _ temporary: String, _ key: String, _ directory: StoreDirectory
  ) throws(Errno) {
    do throws(Errno) {
      try directory.link(temporary, key)
    } catch .notPermitted, .notSupported, .noFunction {
      try directory.renameExclusively(temporary, key)
    }
  }

  /// Makes the directories of a key below the store's own, which is never made here.
  private func makeDirectories(for key: String, _ directory: StoreDirectory) throws(Errno) {
    var path = ""
    for component in key.split(separator: "/").dropLast() {
      path += (path.isEmpty ? "" : "/") + component
      do {
        try directory.makeDirectory(path)
        try directory.synchronizeNames(around: path)
      } catch .fileExists {}
    }
  }

  func remove(_ key: String) throws(StoreError) {
    let directory: StoreDirectory
    do throws(Errno) {
      directory = try self.directory()
      do throws(Errno) {
        try directory.remove(key)
        try directory.synchronizeNames(around: key)
      } catch .noSuchFileOrDirectory, .isDirectory, .notDirectory {
        guard directory.isStore else { throw .noSuchFileOrDirectory }
        return
      }
    } catch {
      throw failure(error)
    }
    var components = key.split(separator: "/").dropLast()
    while !components.isEmpty {
      guard (try? directory.removeDirectory(components.joined(separator: "/"))) != nil else {
        return
      }
      components.removeLast()
    }
  }

  func keys(prefix: String, after: String?, limit: Int) throws(StoreError) -> [String] {
    guard limit > 0 else { return [] }
    let start = prefix.lastIndex(of: "/").map { String(prefix[...$0]) } ?? ""
    var result: [String] = []
    do throws(Errno) {
      let store = try presentDirectory()
      try walk(start, of: store, prefix: prefix, after: after, limit: limit, into: &result)
    } catch {
      throw failure(error)
    }
    return result
  }

  /// Goes through a directory, whose key ends in `/` or is empty, in the order of keys.
  ///
  /// Another user's program may have made a directory here that this user cannot read. The list
  /// goes on without it if ubiquityfs can have no object in it. It fails for every other directory,
  /// and for the one that it begins with: a list must not lack an object that exists.
  private func walk(
    _ directory: String, of store: StoreDirectory, prefix: String, after: String?, limit: Int,
    into result: inout [String]
  ) throws(Errno) {
    let entries = try store.entries(String(directory.dropLast()))
    let found: [(key: String, entry: StoreTree.Entry)]
    do throws(StoreTree.LinkInStore) {
      found = try StoreTree.keys(entries, in: directory, prefix: prefix, after: after)
    } catch {
      throw .tooManySymbolicLinkLevels
    }
    for (key, _) in found {
      guard result.count < limit else { return }
      guard key.hasSuffix("/") else {
        result.append(key)
        continue
      }
      do throws(Errno) {
        try walk(key, of: store, prefix: prefix, after: after, limit: limit, into: &result)
      } catch {
        let isRefused = error == .permissionDenied || error == .notPermitted
        guard isRefused, !StoreKey.mayHoldObjects(key) else { throw error }
      }
    }
  }

  /// All names under a directory of the store, whose name ends in `/`. Of the top, whose name is
  /// empty, the names right in it. See `storedNames`.
  func names(in directory: String, after: String?, limit: Int) throws(StoreError) -> [String] {
    guard limit > 0 else { return [] }
    var result: [String] = []
    do throws(Errno) {
      let store = try presentDirectory()
      try collect(directory, of: store, after: after, limit: limit, into: &result)
    } catch {
      throw failure(error)
    }
    return result
  }

  /// Looks only into directories that can hold objects: of any other its own name is enough.
  private func collect(
    _ directory: String, of store: StoreDirectory, after: String?, limit: Int,
    into result: inout [String]
  ) throws(Errno) {
    let entries = try store.entries(String(directory.dropLast()))
    let found = StoreTree.names(entries, in: directory, after: after)
    for (name, isEntered) in found {
      guard result.count < limit else { return }
      if isEntered {
        try collect(name, of: store, after: after, limit: limit, into: &result)
      } else {
        result.append(name)
      }
    }
  }

  /// Fails where no store is.
  private func presentDirectory() throws(Errno) -> StoreDirectory {
    let directory = try directory()
    guard directory.isStore else { throw .noSuchFileOrDirectory }
    return directory
  }
}
