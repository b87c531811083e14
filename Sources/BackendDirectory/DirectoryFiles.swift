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
    let name = "\(getpid())-\(String(UInt64.random(in: 0...UInt64.max), radix: 16))"
    let temporary = temporaryDirectory + "/" + name
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
  private func walk(
    _ directory: String, prefix: String, after: String?, limit: Int, into result: inout [String]
  ) throws(Errno) {
    var found: [String] = []
    for (name, isDirectory) in try entries(file(String(directory.dropLast()))) {
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
      if key.hasSuffix("/") {
        try walk(key, prefix: prefix, after: after, limit: limit, into: &result)
      } else {
        result.append(key)
      }
    }
  }

  /// Files and directories with their names; a directory that is gone is empty.
  private func entries(_ path: String) throws(Errno) -> [(name: String, isDirectory: Bool)] {
    guard let directory = opendir(path) else {
      let code = Errno(rawValue: errno)
      if code == .noSuchFileOrDirectory || code == .notDirectory { return [] }
      throw code
    }
    defer { closedir(directory) }
    var result: [(name: String, isDirectory: Bool)] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      guard !name.hasPrefix(".") else { continue }
      switch Int(entry.pointee.d_type) {
      case DT_REG: result.append((name, false))
      case DT_DIR: result.append((name, true))
      case DT_UNKNOWN:
        guard let kind = try Self.status(path + "/" + name)?.st_mode else { continue }
        if kind & S_IFMT == S_IFREG { result.append((name, false)) }
        if kind & S_IFMT == S_IFDIR { result.append((name, true)) }
      default: continue
      }
    }
    return result
  }
}
