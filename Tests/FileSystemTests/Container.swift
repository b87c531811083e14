import Catalog
import ContentStore
import Coordination
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage

/// A container in a directory of its own, with all real parts but the network.
final class Container: Sendable {
  let directory: String
  let catalog: ContainerCatalog
  let content: ContentFiles
  let coordinator: ContainerCoordinator
  let system: ContainerFileSystem
  let fetcher: Fetcher
  let root = InodeNumber.root
  static let caller = Caller(user: 0, group: 0)

  init(
    _ id: String = "iCloud.com.example.test", descriptors: DescriptorBudget = .shared,
    record: MountRecord? = nil, imageOf other: Container? = nil
  ) throws {
    var template = Array("/tmp/filesystem-tests-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
    directory = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
    // What a daemon leaves that is killed now.
    if let other {
      guard Glibc.system("cp -a '\(other.directory)/.' '\(directory)'") == 0 else {
        throw Errno.ioError
      }
    }
    catalog = try ContainerCatalog(
      path: directory + "/catalog.sqlite", owner: 0, group: 0, clock: SystemClock(),
      keepsOrphans: other != nil)
    content = try ContentFiles(directory: directory + "/content", descriptors: descriptors)
    coordinator = ContainerCoordinator(
      container: try ContainerID(id), catalog: catalog, content: content)
    fetcher = Fetcher(catalog, content)
    coordinator.setFetcher(fetcher)
    coordinator.setStoreConfirmer(SoundStore())
    system = ContainerFileSystem(
      coordinator: coordinator, clock: SystemClock(), record: record)
  }

  deinit {
    try? catalog.close()
    try? Files.removeTree(directory)
  }

  // MARK: What programs do

  func name(_ text: String) -> [UInt8] { Array(text.utf8) }

  func make(_ kind: ItemKind, _ name: String, in parent: InodeNumber = .root, mode: UInt16 = 0o755)
    throws -> InodeNumber
  {
    try system.make(
      Array(name.utf8), in: parent, NewItem(kind: kind, mode: mode, owner: 0, group: 0)
    ).inode.number
  }

  func create(_ name: String, _ text: String = "", in parent: InodeNumber = .root) throws
    -> (number: InodeNumber, handle: UInt64)
  {
    let (status, opened) = try system.create(
      Array(name.utf8), in: parent, permissions: 0o644,
      OpenMode(canWrite: true, isExclusive: true), caller: Self.caller)
    if !text.isEmpty { try write(opened.handle, text) }
    return (status.inode.number, opened.handle)
  }

  func open(_ number: InodeNumber, writing: Bool = false, truncating: Bool = false) throws -> UInt64
  {
    try system.open(
      number, OpenMode(canWrite: writing, truncates: truncating), caller: Self.caller
    ).handle
  }

  func write(
    _ handle: UInt64, _ text: String, at offset: UInt64 = 0, caller: Caller = Container.caller
  ) throws {
    let file = try finish { () throws(Errno) in
      try system.prepareWrite(handle, caller: caller)
    }
    try file.write(Array(text.utf8), at: offset)
    try system.noteWritten(handle, to: file)
  }

  func read(_ handle: UInt64, at offset: UInt64 = 0, count: Int = 4096) throws -> String {
    let range = try finish { () throws(Errno) in
      try system.read(handle, offset: offset, count: count)
    }
    guard let file = range.file else { return "" }
    return String(decoding: try file.read(count: range.count, at: range.offset), as: UTF8.self)
  }

  /// Waits as a mount does, but on this thread.
  func finish<Value>(_ call: () throws(Errno) -> Step<Value>) throws -> Value {
    for _ in 0..<8 {
      switch try call() {
      case .done(let value): return value
      case .wait(let wait):
        let gate = Gate()
        let failure = Lock<Errno?>(nil)
        _ = try system.fetch(wait) { result in
          failure.withLock { $0 = result }
          gate.open()
        }
        gate.wait()
        if let failure = failure.withLock({ $0 }) { throw failure }
      }
    }
    throw Errno.timedOut
  }

  func size(_ number: InodeNumber) throws -> UInt64 { try system.status(number).size }

  func names(_ number: InodeNumber = .root) throws -> [String] {
    try system.list(number, from: 0, limit: 1000).filter { !$0.isDot }
      .map { String(decoding: $0.name, as: UTF8.self) }
  }

  // MARK: What another device does

  /// Another device saves new content of a file: placed here while the inode is open or not.
  func replaceRemotely(_ number: InodeNumber, _ bytes: [UInt8]) throws -> InodeNumber {
    let item = try catalog.inode(number).item
    guard var record = try catalog.remote(item),
      let chunk = ChunkID([UInt8](repeating: 8, count: 32))
    else { throw Errno.noSuchFileOrDirectory }
    record.content = ContentVersion(
      id: .random(), parent: record.content?.id, device: .random(), modified: record.modified,
      size: UInt64(bytes.count),
      manifest: Manifest(chunks: [ChunkReference(id: chunk, length: UInt32(bytes.count))]))
    let position = try catalog.position()
    try catalog.fold(
      LogChanges(upserts: [record]),
      to: LogPosition(sequence: position.sequence + 1, hash: [UInt8](repeating: 2, count: 32)))
    let coordinator = coordinator
    _ = try catalog.apply(
      [.upsert(record, content: .placeholder, stamp: nil)],
      isOpen: { coordinator.isOpen($0) }, isOpenForWriting: { coordinator.isOpenForWriting($0) })
    guard let now = try catalog.inodeNumber(of: item) else { throw Errno.noSuchFileOrDirectory }
    fetcher.offer(bytes, of: now)
    return now
  }

  /// A file of another device appears: all of it but its content, which may not be sent yet.
  func appear(_ name: String, _ bytes: [UInt8], isSent: Bool = true) throws -> InodeNumber {
    let item = ItemID.random()
    guard let chunk = ChunkID([UInt8](repeating: 7, count: 32)) else { throw Errno.invalidArgument }
    let now = Timestamp(nanoseconds: 1_000_000_000)
    let record = ItemRecord(
      id: item, kind: .file, links: [Link(parent: .root, name: try ItemName(name))], mode: 0o644,
      modified: now, created: now,
      content: ContentVersion(
        id: .random(), parent: nil, device: .random(), modified: now, size: UInt64(bytes.count),
        manifest: isSent
          ? Manifest(chunks: [ChunkReference(id: chunk, length: UInt32(bytes.count))]) : nil))
    let position = try catalog.position()
    try catalog.fold(
      LogChanges(upserts: [record]),
      to: LogPosition(sequence: position.sequence + 1, hash: [UInt8](repeating: 1, count: 32)))
    _ = try catalog.apply(
      [.upsert(record, content: .placeholder, stamp: nil)], isOpen: { _ in false },
      isOpenForWriting: { _ in false })
    guard let number = try catalog.inodeNumber(of: item) else {
      throw Errno.noSuchFileOrDirectory
    }
    fetcher.offer(bytes, of: number)
    return number
  }
}

/// Brings contents from memory, on a thread of its own, and notes what was asked for.
final class Fetcher: ContentFetching {
  private struct State {
    var contents: [InodeNumber: [UInt8]] = [:]
    var asked: [Range<UInt64>] = []
    var failure: FetchFailure?
  }

  private struct Ticket: FetchTicket { func cancel() {} }

  private let state = Lock(State())
  private let queue = WorkQueue()
  private let catalog: ContainerCatalog
  private let content: ContentFiles

  init(_ catalog: ContainerCatalog, _ content: ContentFiles) {
    self.catalog = catalog
    self.content = content
  }

  deinit { queue.stop() }

  func offer(_ bytes: [UInt8], of number: InodeNumber) {
    state.withLock { $0.contents[number] = bytes }
  }

  func fail(_ failure: FetchFailure?) { state.withLock { $0.failure = failure } }

  var asked: [Range<UInt64>] { state.withLock { $0.asked } }

  func fetch(
    _ number: InodeNumber, range: Range<UInt64>, cause: DownloadCause,
    completion: @escaping @Sendable (Result<Void, FetchFailure>) -> Void
  ) -> any FetchTicket {
    let (bytes, failure) = state.withLock { state in
      state.asked.append(range)
      return (state.contents[number] ?? [], state.failure)
    }
    queue.add { [self] in
      if let failure { return completion(.failure(failure)) }
      do {
        try bring(bytes, range, number)
        completion(.success(()))
      } catch {
        completion(.failure(.system(.ioError)))
      }
    }
    return Ticket()
  }

  private func bring(_ bytes: [UInt8], _ range: Range<UInt64>, _ number: InodeNumber) throws {
    let inode = try catalog.inode(number)
    guard inode.content == .remote else { return }
    let key = ContentKey(item: inode.item, generation: inode.generation)
    let partial = try content.partial(key, size: inode.size)
    let range = range.clamped(to: 0..<inode.size)
    try partial.write(
      Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)]), at: range.lowerBound)
    guard partial.isComplete else { return }
    _ = try catalog.markContentLocal(number, generation: inode.generation)
    content.dropPartial(key)
  }
}

/// A store that is always sound.
struct SoundStore: StoreConfirming {
  func evictionRefusal(since: UInt64) -> Errno? { nil }

  func confirmStore(since: UInt64, _ completion: @escaping @Sendable (Errno?) -> Void) {
    completion(nil)
  }
}
