import Catalog
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage

/// Writing and reading, as programs do: an open, calls on it with time between them, a close.
extension SimulatedDevice {
  private static let caller = Caller(user: 0, group: 0)

  func save(_ name: ItemName, in folder: InodeNumber, _ life: DeviceLife) async throws {
    if let found = try life.catalog.lookup(name, in: folder), found.kind == .file {
      try supersede(found, life, alsoConflicts: false)
    }
    let (status, open) = try life.fileSystem.create(
      name.bytes, in: folder, permissions: 0o644, OpenMode(canWrite: true, truncates: true),
      caller: Self.caller)
    let number = status.inode.number
    defer { if self.life === life { life.fileSystem.forget(number, count: 1) } }
    try await write(open.handle, number, life) { file in
      try await self.fill(
        file, open.handle, with: self.ledger.bytes(count: self.ledger.length()), life)
    }
  }

  private var ledger: Ledger { account.ledger }

  /// In one piece or in two with the file open between them.
  private func fill(_ file: OpenFile, _ handle: UInt64, with bytes: [UInt8], _ life: DeviceLife)
    async throws
  {
    if bytes.count > 1, random.chance(30) {
      let half = random.number(1...bytes.count - 1)
      try put(bytes[..<half], at: 0, file, handle, life)
      try await pause(life)
      try put(bytes[half...], at: half, file, handle, life)
    } else {
      try put(bytes[...], at: 0, file, handle, life)
    }
  }

  /// Makes an existing file longer.
  func append(_ number: InodeNumber, _ life: DeviceLife) async throws {
    try await edit(number, life) { file, handle, old in
      // So far from its end nothing was written: the old content's end is not the new one's.
      let more = self.ledger.bytes(count: self.ledger.length(moreThan: 8))
      try self.put(more[...], at: old.count, file, handle, life)
    }
  }

  /// Makes it shorter, with an end of its own so that it is no content that there was.
  func cut(_ number: InodeNumber, _ life: DeviceLife) async throws {
    try await edit(number, life) { file, handle, old in
      guard old.count > 16 else { return }
      let length = self.random.number(8...old.count - 1)
      try file.truncate(to: UInt64(length))
      try self.note(file, handle, life)
      try self.put(self.ledger.bytes(count: 8)[...], at: length - 8, file, handle, life)
    }
  }

  /// Other bytes in the midst of it, and nothing else: neither its length nor its place changes.
  func overwrite(_ number: InodeNumber, _ life: DeviceLife) async throws {
    try await edit(number, life) { file, handle, old in
      guard old.count >= 8 else { return }
      let start = self.random.number(0...old.count - 8)
      let most = min(old.count - start, 5000)
      let bytes = self.ledger.bytes(count: self.random.number(8...most))
      try self.put(bytes[...], at: start, file, handle, life)
    }
  }

  private func edit(
    _ number: InodeNumber, _ life: DeviceLife,
    _ body: @escaping (OpenFile, UInt64, [UInt8]) throws -> Void
  ) async throws {
    let open = try life.fileSystem.open(number, OpenMode(canWrite: true), caller: Self.caller)
    try await write(open.handle, number, life) { file in
      try self.supersede(try life.catalog.inode(number), life, alsoConflicts: false)
      let old = try file.read(count: Int(try file.length()), at: 0)
      try body(file, open.handle, old)
    }
  }

  /// Writes to an open file and closes it. What it holds then is acknowledged.
  func write(
    _ handle: UInt64, _ number: InodeNumber, _ life: DeviceLife, isAlone: Bool = true,
    _ body: (OpenFile) async throws -> Void
  ) async throws {
    if world.bug == .hidesWriters { life.coordinator.closed(number, forWriting: true) }
    defer {
      if world.bug == .hidesWriters { life.coordinator.opened(number, forWriting: true) }
      life.fileSystem.release(handle)
    }
    try await pause(life)
    while true {
      switch try life.fileSystem.prepareWrite(handle, caller: Self.caller) {
      case .wait(let wait): try await fetch(wait, life)
      case .done(let file):
        // Programs open now and write later.
        try await pause(life)
        try await body(file)
        try await pause(life)
        if random.chance(20) { try life.fileSystem.synchronize(handle, dataOnly: false) }
        try life.fileSystem.flush(handle)
        let inode = try life.catalog.inode(number)
        if inode.isOrphan {
          // Nobody else on this device can have removed it.
          guard !isAlone else {
            return world.report("\(name): a file has lost its name while it was written to")
          }
          return
        }
        let content = try account.opened.manifest(of: file, size: try file.length())
        world.scheduler.note("\(name) closes \(inode.item), now \(Ledger.name(of: content))")
        // While others write to it too, what it has now may be overwritten by who never saw it.
        if isRemoved { ledger.forbid(content) }
        if isIntact, isAlone { ledger.acknowledge(content, by: name) }
        return
      }
    }
  }

  func put(
    _ bytes: ArraySlice<UInt8>, at offset: Int, _ file: OpenFile, _ handle: UInt64,
    _ life: DeviceLife
  ) throws {
    try file.write(Array(bytes), at: UInt64(offset))
    try note(file, handle, life)
  }

  private func note(_ file: OpenFile, _ handle: UInt64, _ life: DeviceLife) throws {
    let content = try file.read(count: Int(try file.length()), at: 0)
    ledger.register(content)
    world.scheduler.note("\(name) has written \(content.count) bytes")
    if world.bug == .forgetsWrites, random.chance(20) { return }
    try life.fileSystem.noteWritten(handle, to: file)
  }

  private func fetch(_ wait: ContentWait, _ life: DeviceLife) async throws {
    let failure: Errno? = try await withCheckedThrowingContinuation { done in
      do {
        _ = try life.fileSystem.fetch(wait) { done.resume(returning: $0) }
      } catch {
        done.resume(throwing: error)
      }
    }
    try checkUp(life)
    if let failure { throw failure }
  }

  /// Reads all of a file through one open: it has to be one content that somebody wrote.
  @discardableResult
  func read(_ number: InodeNumber, _ life: DeviceLife) async throws -> [UInt8] {
    let open = try life.fileSystem.open(number, OpenMode(), caller: Self.caller)
    defer { life.fileSystem.release(open.handle) }
    var bytes: [UInt8] = []
    while true {
      let size = try life.catalog.inode(number).size
      guard UInt64(bytes.count) < size else { break }
      switch try life.fileSystem.read(open.handle, offset: UInt64(bytes.count), count: 300_000) {
      case .wait(let wait): try await fetch(wait, life)
      case .done(let range):
        let more = try range.file?.read(count: range.count, at: range.offset) ?? []
        guard !more.isEmpty else { throw Errno.ioError }
        bytes += more.prefix(Int(size) - bytes.count)
      }
    }
    if !ledger.knows(bytes) {
      world.report("\(name) reads \(bytes.count) bytes of \(number) that nobody wrote")
    }
    return bytes
  }

  func evict(_ file: TreeItem, _ life: DeviceLife) async throws {
    if world.bug == .removesUnsentContent, file.inode.version == nil,
      let key = file.inode.contentKey
    {
      return try life.content.remove(key)
    }
    try await life.coordinator.evictAfterLook(file.inode.number)
  }
}
