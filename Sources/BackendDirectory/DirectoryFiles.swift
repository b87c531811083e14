internal import Backend
internal import Glibc
internal import Platform
internal import SystemPackage

// The calls themselves, which block.

extension DirectoryStore {
  func read(_ key: String, _ range: Range<UInt64>?) throws(StoreError) -> [UInt8] {
    do throws(Errno) {
      // Without O_NONBLOCK a FIFO in the way would hold the thread forever.
      let file = try OpenFile.open(self.file(key), flags: O_RDONLY | O_NONBLOCK)
      let status = try file.status()
      guard status.st_mode & S_IFMT == S_IFREG else { throw .noSuchFileOrDirectory }
      let size = UInt64(status.st_size)
      let end = min(range?.upperBound ?? size, size)
      let start = min(range?.lowerBound ?? 0, end)
      return try file.read(count: Int(end - start), at: start)
    } catch .noSuchFileOrDirectory, .notDirectory {
      guard isPresent else { throw failure(.noSuchFileOrDirectory) }
      throw .notFound(key)
    } catch {
      throw failure(error)
    }
  }

  /// Whether the object was stored; only false when there was one and `replacing` is not set.
  func write(_ key: String, _ bytes: [UInt8], replacing: Bool) throws(StoreError) -> Bool {
    let target = file(key)
    do throws(Errno) {
      if !replacing, isPresent, Files.exists(target) { return false }
      let temporary = try writeTemporary(bytes)
      FaultPoint.reach("backend.written")
      do throws(Errno) {
        let stored = try name(temporary, key, replacing: replacing)
        FaultPoint.reach("backend.named")
        if !replacing { unlink(temporary) }
        if stored { try Files.synchronizeDirectory(Self.parent(of: target)) }
        return stored
      } catch {
        unlink(temporary)
        throw error
      }
    } catch {
      throw failure(error)
    }
  }

  private func writeTemporary(_ bytes: [UInt8]) throws(Errno) -> String {
    let temporary = temporaryDirectory + "/" + Self.temporaryName()
    let flags = O_WRONLY | O_CREAT | O_EXCL
    let file: OpenFile
    do {
      file = try OpenFile.open(temporary, flags: flags)
    } catch .noSuchFileOrDirectory {
      // A copy of a store may lack the empty directory; a missing store lacks `format` too.
      guard Files.exists(path + "/format") else { throw .noSuchFileOrDirectory }
      do { try Files.makeDirectory(temporaryDirectory) } catch .fileExists {}
      file = try OpenFile.open(temporary, flags: flags)
    }
    do throws(Errno) {
      try file.write(bytes, at: 0)
      try file.synchronize()
    } catch {
      unlink(temporary)
      throw error
    }
    return temporary
  }

  /// Gives a temporary file its key's name. Directories on the way are made, again when another
  /// process removes them as empty in between.
  private func name(_ temporary: String, _ key: String, replacing: Bool) throws(Errno) -> Bool {
    let target = file(key)
    var attempts = 8
    while true {
      do throws(Errno) {
        if replacing {
          try Files.rename(temporary, target)
        } else {
          try linkOrRename(temporary, target)
        }
        return true
      } catch .fileExists where !replacing {
        return false
      } catch .noSuchFileOrDirectory {
        attempts -= 1
        guard attempts > 0, Files.exists(temporary) else { throw .noSuchFileOrDirectory }
        try makeDirectories(for: key)
      }
    }
  }

  private func linkOrRename(_ temporary: String, _ target: String) throws(Errno) {
    do throws(Errno) {
      try Files.link(temporary, target)
    } catch .notPermitted, .notSupported, .noFunction {
      try Files.renameExclusively(temporary, target)
    }
  }

  /// Makes the directories of a key below the store's own, which is never made here.
  private func makeDirectories(for key: String) throws(Errno) {
    var directory = path
    for component in key.split(separator: "/").dropLast() {
      let parent = directory
      directory += "/" + component
      do {
        try Files.makeDirectory(directory)
        try Files.synchronizeDirectory(parent)
      } catch .fileExists {}
    }
  }

  func remove(_ key: String) throws(StoreError) {
    let target = file(key)
    do throws(Errno) {
      try Files.remove(target)
      try Files.synchronizeDirectory(Self.parent(of: target))
    } catch .noSuchFileOrDirectory, .isDirectory, .notDirectory {
      guard isPresent else { throw failure(.noSuchFileOrDirectory) }
      return
    } catch {
      throw failure(error)
    }
    var components = key.split(separator: "/").dropLast()
    while !components.isEmpty {
      guard (try? Files.removeDirectory(file(components.joined(separator: "/")))) != nil else {
        return
      }
      components.removeLast()
    }
  }

  func keys(prefix: String, after: String?, limit: Int) throws(StoreError) -> [String] {
    guard limit > 0 else { return [] }
    guard isPresent else { throw failure(.noSuchFileOrDirectory) }
    let start = prefix.lastIndex(of: "/").map { String(prefix[...$0]) } ?? ""
    var result: [String] = []
    do throws(Errno) {
      try walk(start, prefix: prefix, after: after, limit: limit, into: &result)
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
    _ directory: String, prefix: String, after: String?, limit: Int, into result: inout [String]
  ) throws(Errno) {
    var found: [String] = []
    for (name, kind) in try entries(file(String(directory.dropLast()))) {
      guard kind != .other, !name.hasPrefix(".") else { continue }
      let isDirectory = kind == .directory
      // A directory sorts as the keys in it do: with its slash.
      let key = directory + name + (isDirectory ? "/" : "")
      guard key.hasPrefix(prefix) || (isDirectory && prefix.hasPrefix(key)) else { continue }
      if let after, !keyPrecedes(after, key), !(isDirectory && after.hasPrefix(key)) { continue }
      guard (try? StoreKey.checkPrefix(key)) != nil else { continue }
      found.append(key)
    }
    found.sort(by: keyPrecedes)
    for key in found {
      guard result.count < limit else { return }
      guard key.hasSuffix("/") else {
        result.append(key)
        continue
      }
      do throws(Errno) {
        try walk(key, prefix: prefix, after: after, limit: limit, into: &result)
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
    guard isPresent else { throw failure(.noSuchFileOrDirectory) }
    var result: [String] = []
    do throws(Errno) {
      try collect(directory, after: after, limit: limit, into: &result)
    } catch {
      throw failure(error)
    }
    return result
  }

  /// Looks only into directories that can hold objects: of any other its own name is enough.
  private func collect(
    _ directory: String, after: String?, limit: Int, into result: inout [String]
  ) throws(Errno) {
    var found: [(name: String, isEntered: Bool)] = []
    for (entry, kind) in try entries(file(String(directory.dropLast()))) {
      let name = directory + entry + (kind == .directory ? "/" : "")
      let isEntered = !directory.isEmpty && StoreKey.mayHoldObjects(name)
      if let after, !keyPrecedes(after, name), !(isEntered && after.hasPrefix(name)) { continue }
      found.append((name, isEntered))
    }
    found.sort { keyPrecedes($0.name, $1.name) }
    for (name, isEntered) in found {
      guard result.count < limit else { return }
      if isEntered {
        try collect(name, after: after, limit: limit, into: &result)
      } else {
        result.append(name)
      }
    }
  }

  private enum EntryKind {
    case file, directory, other
  }

  /// The entries of a directory; one that is gone is empty.
  private func entries(_ path: String) throws(Errno) -> [(name: String, kind: EntryKind)] {
    guard let directory = opendir(path) else {
      let code = Errno(rawValue: errno)
      if code == .noSuchFileOrDirectory || code == .notDirectory { return [] }
      throw code
    }
    defer { closedir(directory) }
    var result: [(name: String, kind: EntryKind)] = []
    while true {
      errno = 0
      guard let entry = readdir(directory) else {
        // A list that an error cut short would hide objects.
        guard errno == 0 else { throw Errno(rawValue: errno) }
        break
      }
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      guard name != ".", name != ".." else { continue }
      switch Int(entry.pointee.d_type) {
      case DT_REG: result.append((name, .file))
      case DT_DIR: result.append((name, .directory))
      // No list shows a name with a dot before it, so its kind is not asked for.
      case DT_UNKNOWN where !name.hasPrefix("."):
        let format = try Self.status(path + "/" + name).map { $0.st_mode & S_IFMT }
        let kind: EntryKind =
          format == S_IFREG ? .file : format == S_IFDIR ? .directory : .other
        result.append((name, kind))
      default: result.append((name, .other))
      }
    }
    return result
  }
}
