import Catalog
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage

/// Writing and reading, as programs do: an open, calls on it with time between them, a close.
extension SimulatedDevice {
  /// Chunks are cut from half a MiB on.
  private static let longest: UInt64 = 1_500_000

  func save(_ name: ItemName, in folder: InodeNumber, _ life: DeviceLife) async throws {
    let length = world.ledger.length(in: 1...Self.longest)
    if let found = try life.catalog.lookup(name, in: folder), found.kind == .file {
      supersede(found, life, alsoConflicts: false)
    }
    let (status, open) = try life.fileSystem.create(
      name.bytes, in: folder, permissions: 0o644,
      OpenMode(canWrite: true, truncates: true), caller: Caller(user: 0, group: 0))
    let number = status.inode.number
    defer { if self.life === life { life.fileSystem.forget(number, count: 1) } }
    try await write(open.handle, number, life) { file in
      guard let length else { return }
      try await self.fill(file, open.handle, to: length, life)
    }
  }

  /// Makes an existing file longer or shorter.
  func edit(_ number: InodeNumber, cuts: Bool, _ life: DeviceLife) async throws {
    let open = try life.fileSystem.open(
      number, OpenMode(canWrite: true), caller: Caller(user: 0, group: 0))
    try await write(open.handle, number, life) { file in
      let inode = try life.catalog.inode(number)
      self.supersede(inode, life, alsoConflicts: false)
      if cuts {
        guard inode.size > 1, let length = self.world.ledger.length(in: 1...inode.size - 1) else {
          return
        }
        self.world.ledger.register(try file.read(count: Int(length), at: 0))
        try file.truncate(to: length)
        try self.note(file, open.handle, life)
      } else if let length = self.world.ledger.length(
        in: inode.size + 1...inode.size + Self.longest)
      {
        try await self.fill(file, open.handle, to: length, life)
      }
    }
  }

  /// Writes to an open file and closes it. What it holds then is acknowledged.
  private func write(
    _ handle: UInt64, _ number: InodeNumber, _ life: DeviceLife,
    _ body: (OpenFile) async throws -> Void
  ) async throws {
    if world.bug == .hidesWriters { life.coordinator.closed(number, forWriting: true) }
    defer {
      if world.bug == .hidesWriters { life.coordinator.opened(number, forWriting: true) }
      life.fileSystem.release(handle)
    }
    try await pause(life)
    while true {
      switch try life.fileSystem.prepareWrite(handle, caller: Caller(user: 0, group: 0)) {
      case .wait(let wait): try await fetch(wait, life)
      case .done(let file):
        try await body(file)
        try await pause(life)
        try life.fileSystem.flush(handle)
        let inode = try life.catalog.inode(number)
        if inode.isOrphan {
          world.report("\(name): a file has lost its name while it was written to")
        }
        world.scheduler.note("\(name) closes inode \(number), \(inode.size) bytes")
        world.ledger.acknowledge(inode.size, by: name)
        return
      }
    }
  }

  /// In one piece or in two with the file open between them.
  private func fill(_ file: OpenFile, _ handle: UInt64, to length: UInt64, _ life: DeviceLife)
    async throws
  {
    var bytes = try file.read(count: Int(try file.length()), at: 0)
    if random.chance(30), length > UInt64(bytes.count) + 1,
      let half = world.ledger.length(in: UInt64(bytes.count) + 1...length - 1)
    {
      bytes += world.ledger.bytes(count: Int(half) - bytes.count)
      try put(bytes, file, handle, life)
      try await pause(life)
    }
    bytes += world.ledger.bytes(count: Int(length) - bytes.count)
    try put(bytes, file, handle, life)
  }

  private func put(_ bytes: [UInt8], _ file: OpenFile, _ handle: UInt64, _ life: DeviceLife) throws
  {
    let old = Int(try file.length())
    world.ledger.register(bytes)
    try file.write(Array(bytes[old...]), at: UInt64(old))
    try note(file, handle, life)
  }

  private func note(_ file: OpenFile, _ handle: UInt64, _ life: DeviceLife) throws {
    let length = try file.length()
    world.scheduler.note("\(name) has written \(length) bytes")
    // The kernel's clock is the machine's, wrong as it is.
    let time = clock.nanoseconds()
    let stamp = timespec(tv_sec: Int(time / 1_000_000_000), tv_nsec: Int(time % 1_000_000_000))
    file.setTimes(stamp)
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
    let open = try life.fileSystem.open(number, OpenMode(), caller: Caller(user: 0, group: 0))
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
    if let known = world.ledger.contents[UInt64(bytes.count)], known != bytes {
      world.report("\(name) reads \(bytes.count) bytes that nobody wrote")
    } else if !bytes.isEmpty, world.ledger.contents[UInt64(bytes.count)] == nil {
      world.report("\(name) reads \(bytes.count) bytes, of which there is no content")
    }
    return bytes
  }

  func evict(_ file: TreeItem, _ life: DeviceLife) throws {
    if world.bug == .removesUnsentContent, file.inode.version == nil,
      let key = file.inode.contentKey
    {
      return try life.content.remove(key)
    }
    try life.coordinator.evict(file.inode.number)
  }
}

extension OpenFile {
  func setTimes(_ time: timespec) { _ = futimens(descriptor, [time, time]) }
}
