import Backend
import Catalog
import ContentStore
import Coordination
import Foundation
import Glibc
import Logging
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage

/// A device without a mount: the real catalog, content store, engine and remote store.
final class EngineDevice: Sendable {
  let directory: String
  let catalog: ContainerCatalog
  let content: ContentFiles
  let coordinator: ContainerCoordinator
  let sync: ContainerSync
  let id: Model.DeviceID
  let offline: OfflineSwitch
  /// Whether bytes cost money, and why the backend cannot be reached.
  let isMetered = Lock(false)
  let outage = Lock<String?>(nil)

  static let container = try! ContainerID("iCloud.org.example.engine")

  /// `former`: a stopped device of which this one is the next life. With `incarnation` and `format`
  /// the device opens a container that it knows, as the daemon does, else it makes one or joins it.
  /// `place`: its directory, if that is to be a certain one. `log` takes what it logs.
  /// `disk`: what copies of contents find of their disk.
  init(
    store: any ObjectStore, secret: AccountSecret, policy: ContentPolicy = .onDemand,
    settings: SyncSettings = SyncSettings(), allotment: Allotment = Allotment(),
    incarnation: IncarnationID? = nil, format: [UInt8]? = nil, after former: EngineDevice? = nil,
    in place: String? = nil, log: (any LogHandler)? = nil,
    disk: (@Sendable () -> DiskStatistics?)? = nil
  ) throws {
    directory = former?.directory ?? place ?? "/tmp/ubiquityfs-engine-\(UUID().uuidString)"
    try Files.makeDirectories(directory)
    catalog = try ContainerCatalog(
      path: directory + "/catalog.sqlite", owner: getuid(), group: getgid(), clock: SystemClock())
    content = try ContentFiles(
      directory: directory + "/content", disk: disk, clones: disk == nil)
    coordinator = ContainerCoordinator(
      container: Self.container, catalog: catalog, content: content)
    id = former?.id ?? .random()
    let device = id
    let offline = OfflineSwitch()
    self.offline = offline
    let (isMetered, outage) = (isMetered, outage)
    let gated = GatedStore(store, offline: offline)
    var logger = Logger(label: "test")
    if let level = ProcessInfo.processInfo.environment["LOG_LEVEL"] {
      logger.logLevel = Logger.Level(rawValue: level) ?? .info
    }
    if let log { logger = Logger(label: "test", factory: { _ in log }) }
    sync = ContainerSync(
      coordinator: coordinator,
      link: RemoteLink(
        LinkWeather(
          isOffline: { offline.isOffline }, outage: { outage.withLock { $0 } },
          isMetered: { isMetered.withLock { $0 } })
      ) { () async throws(RemoteError) in
        if let incarnation, let format {
          return try RemoteAccount(store: gated, secret: secret, format: format)
            .container(Self.container, incarnation: incarnation)
        }
        let account = try await RemoteAccount.open(
          store: gated, secret: secret, createIfMissing: true)
        return try await account.createContainer(
          Self.container, device: device, time: Timestamp(nanoseconds: 1))
      }, device: id, policy: policy, settings: settings, allotment: allotment,
      logger: logger)
    coordinator.setTransferReporter(sync)
  }

  /// Leaves what it has for a next life.
  func stop() async {
    await sync.stop()
    try? catalog.close()
  }

  func end() async {
    await stop()
    try? Files.removeTree(directory)
  }

  // MARK: What a file system would do

  func find(_ path: String) throws -> Catalog.Inode? {
    var inode = try catalog.inode(.root)
    for name in path.split(separator: "/") {
      guard let next = try catalog.lookup(ItemName(String(name)), in: inode.number) else {
        return nil
      }
      inode = next
    }
    return inode
  }

  private func parent(_ path: String) throws -> (InodeNumber, ItemName) {
    let parts = path.split(separator: "/").map(String.init)
    let above = try find(parts.dropLast().joined(separator: "/"))
    guard let above else { throw Errno.noSuchFileOrDirectory }
    return (above.number, try ItemName(parts[parts.count - 1]))
  }

  func makeDirectory(_ path: String) throws {
    let (above, name) = try parent(path)
    _ = try catalog.create(
      name, in: above, NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0))
  }

  /// `modified`: by the clock of this device, if that is not the machine's.
  func write(_ path: String, _ bytes: [UInt8], modified: Timestamp? = nil) throws {
    let inode: Catalog.Inode
    var isNoted = false
    if let found = try find(path) {
      inode = found.content == .remote ? try catalog.replaceContent(found.number).inode : found
    } else {
      let (above, name) = try parent(path)
      inode = try catalog.create(
        name, in: above, NewItem(kind: .file, mode: 0o644, owner: 0, group: 0)
      ) { coordinator.opened($0, forWriting: true) }
      isNoted = true
    }
    if !isNoted { coordinator.opened(inode.number, forWriting: true) }
    defer { coordinator.closed(inode.number, forWriting: true) }
    let key = ContentKey(item: inode.item, generation: inode.generation)
    let file = try content.open(key, writable: true, create: true)
    try catalog.noteWriteBegan(inode.number)
    try file.truncate(to: 0)
    try file.write(bytes, at: 0)
    try catalog.noteContentChange(
      inode.number, size: UInt64(bytes.count),
      modified: modified ?? Timestamp(nanoseconds: SystemClock().nanoseconds()))
    try catalog.noteWriteEnded(inode.number)
  }

  func remove(_ path: String, directory: Bool = false) throws {
    let (above, name) = try parent(path)
    let gone = try catalog.remove(name, in: above, directory: directory)
    if gone.isOrphan { coordinator.reclaim(gone.number) }
  }

  func rename(_ from: String, _ to: String) throws {
    let (above, name) = try parent(from)
    let (newAbove, newName) = try parent(to)
    _ = try catalog.rename(name, in: above, to: newName, in: newAbove, mode: .replace)
  }

  func read(_ path: String) async throws -> [UInt8] {
    guard let inode = try find(path) else { throw Errno.noSuchFileOrDirectory }
    return try await readOpen(inode.number)
  }

  func readOpen(_ number: InodeNumber) async throws -> [UInt8] {
    let inode = try catalog.inode(number)
    guard inode.size > 0 else { return [] }
    if inode.content == .remote {
      try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
        _ = sync.fetcher.fetch(inode.number, range: 0..<inode.size, cause: DownloadCause(.other)) {
          result in
          done.resume(with: result.mapError { $0 as any Error })
        }
      }
    }
    let now = try catalog.inode(inode.number)
    let key = ContentKey(item: now.item, generation: now.generation)
    return try content.open(key, writable: false).read(count: Int(now.size), at: 0)
  }

  /// The conflict versions of a file as text, sorted.
  func conflicts(_ path: String) async throws -> [String] {
    guard let number = try find(path)?.number else { throw Errno.noSuchFileOrDirectory }
    var result: [String] = []
    for version in try sync.versions(of: number) where version.isConflict {
      let collected = Collected()
      try await sync.read(version.id, of: number) { await collected.add($0) }
      result.append(String(decoding: await collected.bytes, as: UTF8.self))
    }
    return result.sorted()
  }

  /// Path, kind, size, times and versions of everything.
  func listing() throws -> [String] {
    var result: [String] = []
    func visit(_ number: InodeNumber, _ path: String) throws {
      for entry in try catalog.readDirectory(number, after: 0, limit: 100_000) {
        let inode = entry.inode
        result.append(
          "\(path)/\(entry.name) \(inode.kind) \(inode.size) \(inode.modified.nanoseconds) \(inode.mode)"
        )
        if inode.kind == .directory { try visit(inode.number, "\(path)/\(entry.name)") }
      }
    }
    try visit(.root, "")
    return result.sorted()
  }
}

extension ContainerSync {
  /// All that can be brought back, the newest first.
  nonisolated func removedItems() throws -> [RemovedPlace] {
    try removedKeys().compactMap { try removedPlace(of: $0.item) }
  }
}
