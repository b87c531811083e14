package import Backend
internal import Model
internal import Platform

/// A directory on a server that speaks SFTP as the backend: one file for each object, as
/// `DirectoryStore` has them, so that either can open what the other made.
///
/// An object is written to a file in `tmp`, made durable, and then linked to its name, so that a
/// name never stands for a part of an object and at most one put succeeds. After the link the file
/// is synchronised again, which makes the name durable on ext4, XFS and Btrfs: SFTP cannot
/// synchronise a directory.
///
/// Symbolic links are not followed as far as the protocol allows: a list refuses them, and a link
/// in place of a directory is not looked for before each call. The server's user should be the only
/// one who can write there.
package final class SFTPStore: ObjectStore {
  private let address: SFTPAddress
  private let link: SFTPLink
  private let cache = DirectoryCache()

  static let temporaries = StoreKey.reserved
  private static let largestObject: UInt64 = 1 << 30

  /// Connects when it is first used. `patience`: how long the server may send nothing.
  package init(
    _ address: SFTPAddress, environment: [String: String], patience: Duration = .seconds(30)
  ) {
    self.address = address
    link = SFTPLink(address, environment: environment, patience: patience)
  }

  package var description: String { address.description }
  package var looksForNews: Bool { true }
  package func news(prefix: String) -> AsyncStream<Void> { AsyncStream { $0.finish() } }

  private func path(_ key: String) -> String {
    key.isEmpty ? address.path : "\(address.path)/\(key)"
  }

  /// Makes the directory if it is missing, checks the server, and removes what killed writers left.
  func makeDirectory() async throws(StoreError) {
    try await call { store, files throws(SFTPFailure) in
      var path = store.address.path.hasPrefix("/") ? "" : "."
      for name in store.address.path.split(separator: "/") + [Substring(Self.temporaries)] {
        path += "/\(name)"
        guard (try? await files.status(path)) == nil else { continue }
        try await Self.make(path, files)
      }
    }
    let missing = try await call { _, files throws(SFTPFailure) in files.missingExtensions }
    guard missing.isEmpty else {
      throw .invalid(
        "the SFTP server \"\(address.server)\" lacks \(missing.joined(separator: ", ")); use "
          + "OpenSSH's server")
    }
    try await checkConditionalPuts(
      place: description, advice: "Use a file system with hard links on the server", racers: 8)
    try await removeLeftovers()
  }

  // MARK: Reading

  package func get(_ key: String, range: Range<UInt64>?) async throws(StoreError) -> [UInt8] {
    try StoreKey.check(key)
    let path = path(key)
    let bytes: [UInt8]? = try await call { store, files throws(SFTPFailure) in
      let handle: [UInt8]
      do throws(SFTPFailure) {
        handle = try await files.open(path, .reading)
      } catch .status(SFTPCode.noSuchFile, _) {
        try await store.checkPresence(files)
        return nil
      }
      do throws(SFTPFailure) {
        let bytes = try await Self.content(handle, range, path, files)
        await files.close(handle)
        return bytes
      } catch {
        await files.close(handle)
        throw error
      }
    }
    guard let bytes else { throw .notFound(key) }
    return bytes
  }

  /// Nil for what is no file.
  private static func content(
    _ handle: [UInt8], _ range: Range<UInt64>?, _ path: String, _ files: SFTPFiles
  ) async throws(SFTPFailure) -> [UInt8]? {
    let attributes = try await files.status(of: handle)
    guard kind(attributes) == .file, let size = attributes.size else { return nil }
    let end = min(range?.upperBound ?? size, size)
    let start = min(range?.lowerBound ?? 0, end)
    guard end - start <= largestObject else { throw .tooLarge(path) }
    let bytes = try await files.read(handle, start..<end)
    // The content behind a handle never changes: an object is only replaced as a whole.
    guard bytes.count == end - start else { throw .malformed }
    return bytes
  }

  package func list(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try await listObjects(prefix: prefix, after: after, limit: limit).map(\.key)
  }

  package func listObjects(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [ListedObject]
  {
    try StoreKey.checkPrefix(prefix)
    guard limit > 0 else { return [] }
    let start = prefix.lastIndex(of: "/").map { String(prefix[...$0]) } ?? ""
    return try await call { store, files throws(SFTPFailure) in
      try await store.checkPresence(files)
      var result: [ListedObject] = []
      try await store.walk(start, prefix, after, limit, files, &result)
      return result
    }
  }

  /// Visits a directory, whose key ends in `/` or is empty, in the order of keys.
  private func walk(
    _ directory: String, _ prefix: String, _ after: String?, _ limit: Int, _ files: SFTPFiles,
    _ result: inout [ListedObject]
  ) async throws(SFTPFailure) {
    let entries = try await entries(directory, files)
    let found: [(key: String, entry: StoreTree.Entry)]
    do throws(StoreTree.LinkInStore) {
      found = try StoreTree.keys(entries, in: directory, prefix: prefix, after: after)
    } catch {
      throw .obstructed(
        "symbolic links are not followed, but one is at \"\(path(error.key))\"")
    }
    for (key, entry) in found {
      guard result.count < limit else { return }
      guard key.hasSuffix("/") else {
        result.append(ListedObject(key: key, size: entry.size))
        continue
      }
      do throws(SFTPFailure) {
        try await walk(key, prefix, after, limit, files, &result)
      } catch {
        // Another user's directory, where ubiquityfs has no objects, hides none.
        guard case .status(SFTPCode.permissionDenied, _) = error, !StoreKey.mayHoldObjects(key)
        else { throw error }
      }
    }
  }

  package func storedNames(prefix: String, after: String?, limit: Int) async throws(StoreError)
    -> [String]
  {
    try StoreKey.checkPrefix(prefix)
    guard limit > 0 else { return [] }
    return try await call { store, files throws(SFTPFailure) in
      try await store.checkPresence(files)
      var result: [String] = []
      try await store.collect(prefix, after, limit, files, &result)
      return result
    }
  }

  private func collect(
    _ directory: String, _ after: String?, _ limit: Int, _ files: SFTPFiles,
    _ result: inout [String]
  ) async throws(SFTPFailure) {
    let entries = try await entries(directory, files)
    for (name, isEntered) in StoreTree.names(entries, in: directory, after: after) {
      guard result.count < limit else { return }
      if isEntered {
        try await collect(name, after, limit, files, &result)
      } else {
        result.append(name)
      }
    }
  }

  /// The entries of a directory; none where there is no directory.
  private func entries(
    _ directory: String, _ files: SFTPFiles
  ) async throws(SFTPFailure) -> [StoreTree.Entry] {
    let path = path(String(directory.dropLast()))
    do throws(SFTPFailure) {
      // The user chose the store's own directory, which may be a link.
      let attributes =
        directory.isEmpty
        ? try await files.statusOfTarget(path) : try await files.status(path)
      let kind = Self.kind(attributes)
      guard kind != .link else {
        throw .obstructed("a symbolic link is at \"\(path)\", and links are not followed")
      }
      guard kind == .directory else { return [] }
      let modified = attributes.modified
      if let modified, let known = cache.entries(path, modified: modified) { return known }
      let begun = monotonicNanoseconds()
      let entries: [StoreTree.Entry] = try await files.entries(path).compactMap { entry in
        guard let name = String(validating: entry.name, as: UTF8.self), name != ".", name != ".."
        else { return nil }
        return StoreTree.Entry(
          name: name, kind: Self.kind(entry.attributes), size: entry.attributes.size)
      }
      if let modified { cache.store(entries, of: path, modified: modified, begun: begun) }
      return entries
    } catch .status(SFTPCode.noSuchFile, _) {
      return []
    }
  }

  /// Throws `.storeMissing` where no store is. An empty list there would hide all objects.
  private func checkPresence(_ files: SFTPFiles) async throws(SFTPFailure) {
    for name in [Self.temporaries, "format"] {
      do throws(SFTPFailure) {
        _ = try await files.status(path(name))
        return
      } catch .status(SFTPCode.noSuchFile, _) {}
    }
    throw .storeMissing
  }

  private static func kind(_ attributes: SFTPAttributes) -> StoreTree.Kind {
    switch attributes.mode.map({ $0 & 0o170000 }) {
    case 0o100000: .file
    case 0o040000: .directory
    case 0o120000: .link
    default: .other
    }
  }

  // MARK: Writing

  package func putIfAbsent(_ key: String, _ bytes: [UInt8]) async throws(StoreError) -> Bool {
    try StoreKey.check(key)
    return try await call { store, files throws(SFTPFailure) in
      try await store.put(key, bytes, replacing: false, files)
    }
  }

  package func replace(_ key: String, _ bytes: [UInt8]) async throws(StoreError) {
    try StoreKey.check(key)
    _ = try await call { store, files throws(SFTPFailure) in
      try await store.put(key, bytes, replacing: true, files)
    }
  }

  /// False only where there is an object already and `replacing` is not set.
  private func put(
    _ key: String, _ bytes: [UInt8], replacing: Bool, _ files: SFTPFiles
  ) async throws(SFTPFailure) -> Bool {
    let temporary = path(Self.temporaries) + "/" + Self.temporaryName()
    let handle = try await openTemporary(temporary, files)
    do throws(SFTPFailure) {
      try await files.write(handle, bytes)
      try await files.synchronize(handle)
      let isStored = try await name(temporary, key, replacing: replacing, files)
      // The name became the last change of the file, so this makes it durable.
      if isStored { try await files.synchronize(handle) }
      await files.close(handle)
      if !replacing || !isStored { try? await files.remove(temporary) }
      return isStored
    } catch {
      let isFull = await files.isFull(address.path)
      await files.close(handle)
      try? await files.remove(temporary)
      if isFull, case .status(SFTPCode.failure, _) = error {
        throw .status(SFTPCode.failure, Self.fullText)
      }
      throw error
    }
  }

  private static let fullText = "no space left on device"

  private func openTemporary(
    _ temporary: String, _ files: SFTPFiles
  ) async throws(SFTPFailure) -> [UInt8] {
    do throws(SFTPFailure) {
      return try await files.open(temporary, .new)
    } catch .status(SFTPCode.noSuchFile, _) {
      // A copy of a store may lack the empty directory; a missing store lacks `format` too.
      try await checkPresence(files)
      try await Self.make(path(Self.temporaries), files)
      return try await files.open(temporary, .new)
    }
  }

  /// Gives a temporary file its key's name. Directories on the way are made, again when another
  /// device removes them as empty in between.
  private func name(
    _ temporary: String, _ key: String, replacing: Bool, _ files: SFTPFiles
  ) async throws(SFTPFailure) -> Bool {
    let path = path(key)
    var attempts = 8
    while true {
      do throws(SFTPFailure) {
        if replacing {
          try await files.rename(temporary, path)
        } else {
          try await files.link(temporary, path)
        }
        return true
      } catch {
        attempts -= 1
        guard attempts > 0, case .status(let code, _) = error else { throw error }
        if code == SFTPCode.noSuchFile {
          _ = try await files.status(temporary)
          try await makeDirectories(for: key, files)
          continue
        }
        // The protocol has no code of its own for a name that is taken.
        guard !replacing, let taken = try? await files.status(path) else { throw error }
        guard Self.kind(taken) == .file else {
          throw .obstructed("\"\(path)\" is not a file")
        }
        return false
      }
    }
  }

  private func makeDirectories(for key: String, _ files: SFTPFiles) async throws(SFTPFailure) {
    var name = ""
    for component in key.split(separator: "/").dropLast() {
      name += (name.isEmpty ? "" : "/") + component
      guard (try? await files.status(path(name))) == nil else { continue }
      try await Self.make(path(name), files)
    }
  }

  /// Makes a directory that another device may be making too.
  private static func make(_ path: String, _ files: SFTPFiles) async throws(SFTPFailure) {
    do throws(SFTPFailure) {
      try await files.makeDirectory(path)
    } catch {
      guard let found = try? await files.status(path), kind(found) == .directory else {
        throw error
      }
    }
  }

  package func delete(_ key: String) async throws(StoreError) {
    try StoreKey.check(key)
    try await call { store, files throws(SFTPFailure) in
      do throws(SFTPFailure) {
        try await files.remove(store.path(key))
      } catch .status(let code, let text) {
        if code == SFTPCode.noSuchFile { return try await store.checkPresence(files) }
        // A directory is no object.
        guard let found = try? await files.status(store.path(key)), Self.kind(found) == .directory
        else { throw .status(code, text) }
        return
      }
      var components = key.split(separator: "/").dropLast()
      while !components.isEmpty {
        let directory = store.path(components.joined(separator: "/"))
        guard (try? await files.removeDirectory(directory)) != nil else { return }
        components.removeLast()
      }
    }
  }

  // MARK: Temporary files

  /// Two days: clocks of server and device may differ by hours.
  private static let leftoverAge: Int64 = 2 * 86_400

  private func removeLeftovers() async throws(StoreError) {
    let now = SystemClock().nanoseconds() / 1_000_000_000
    try await call { store, files throws(SFTPFailure) in
      let directory = store.path(Self.temporaries)
      for entry in try await files.entries(directory) where Self.kind(entry.attributes) == .file {
        guard let name = String(validating: entry.name, as: UTF8.self), Self.isTemporaryName(name),
          let modified = entry.attributes.modified, Int64(modified) < now - Self.leftoverAge
        else { continue }
        try? await files.remove("\(directory)/\(name)")
      }
    }
  }

  /// `sftp-` and 32 digits.
  private static func temporaryName() -> String {
    "sftp-" + Hex.encode((0..<16).map { _ in UInt8.random(in: 0...255) })
  }

  private static func isTemporaryName(_ name: String) -> Bool {
    name.hasPrefix("sftp-") && name.utf8.count == 37
      && name.utf8.dropFirst(5).allSatisfy { (48...57).contains($0) || (97...102).contains($0) }
  }

  // MARK: Failures

  private func call<Answer: Sendable>(
    _ body: @Sendable (SFTPStore, SFTPFiles) async throws(SFTPFailure) -> Answer
  ) async throws(StoreError) -> Answer {
    guard !Task.isCancelled else { throw .cancelled }
    do throws(SFTPFailure) {
      return try await body(self, try await link.files())
    } catch {
      throw storeError(error)
    }
  }

  private func storeError(_ failure: SFTPFailure) -> StoreError {
    let server = address.server
    switch failure {
    case .ended(let text) where text.contains("Permission denied"):
      return .notPermitted(
        "\"\(server)\" refuses the login (\(text)); `ssh \(server)` must work without a prompt: "
          + "set up a key and an agent, and sign in again")
    case .ended(let text) where text.contains("Host key verification failed"):
      return .notPermitted(
        "the host key of \"\(server)\" is not known; run `ssh \(server)` once and compare the key")
    case .ended(let text):
      return .unavailable(
        "the connection to \"\(server)\" ended\(text.isEmpty ? "" : " (\(text))"); check the "
          + "network and `ssh \(server)`")
    case .silent:
      return .unavailable("\"\(server)\" does not answer; the request is retried later")
    case .malformed: return .unavailable("\"\(server)\" sent data that is not SFTP")
    case .notStarted(let text): return .invalid("cannot start \(text); install the SSH client")
    case .storeMissing:
      return .unavailable(
        "no backend directory is at \"\(address.path)\" on \"\(server)\"; mount its disk, or sign "
          + "in again")
    case .obstructed(let text): return .invalid("\(text) on \"\(server)\"")
    case .tooLarge(let path):
      return .invalid("\"\(path)\" on \"\(server)\" is larger than any object of ubiquityfs")
    case .status(SFTPCode.failure, Self.fullText):
      return .noSpace(
        "the disk of \"\(address.path)\" on \"\(server)\" is full; free some space there")
    case .status(SFTPCode.permissionDenied, _):
      return .notPermitted(
        "\"\(server)\" denies access to \"\(address.path)\"; change its owner or mode there")
    case .status(SFTPCode.unsupported, let text):
      return .invalid(
        "\"\(server)\" lacks a function that ubiquityfs needs (\(text)); use OpenSSH's server")
    case .status(let code, let text):
      return .unavailable(
        "\"\(server)\" failed a request (\(text.isEmpty ? "error \(code)" : text))")
    }
  }
}
