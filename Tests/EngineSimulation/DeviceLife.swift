import Backend
import Catalog
import ContentStore
import Coordination
import FileSystem
import Glibc
import Logging
import Model
import Platform
import RemoteStore
import SyncEngine
import SystemPackage

/// A device's clock of day: of its own, and wrong.
final class SkewedClock: WallClock, @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  private let scheduler: Scheduler
  var skew: Int64
  /// 2026-01-01.
  private static let start: Int64 = 1_767_225_600_000_000_000

  init(_ scheduler: Scheduler, skew: Int64) {
    self.scheduler = scheduler
    self.skew = skew
  }

  func nanoseconds() -> Int64 { Self.start + skew + scheduler.now }
}

/// What makes a device a member, through all its lives.
struct SimulatedMember: Sendable {
  let identity: DeviceIdentity
  let memory: SimulatedMemory
  /// With which it signed in.
  let secret: AccountSecret
  let format: [UInt8]
}

/// A device from its start to its stop or crash, on a directory: what a session of the daemon is.
final class DeviceLife: @unchecked Sendable {
  // Unchecked: the simulation has one thread.
  let owner: Int
  let directory: String
  let clock: SkewedClock
  let catalog: ContainerCatalog
  let content: ContentFiles
  let coordinator: ContainerCoordinator
  let fileSystem: ContainerFileSystem
  let sync: ContainerSync
  let store: FaultyStore
  let account: SimulatedAccount
  /// The account as this device has it, by its way to the cloud.
  let remote: RemoteAccount
  let offline = OfflineSwitch()
  /// The daemon mounts and answers only after the start.
  var hasStarted = false
  /// Inodes that programs have locked.
  private let locks = Lock(FileLocks())

  static let container = try! ContainerID("iCloud.org.example.simulation")

  init(
    owner: Int, directory: String, device: Model.DeviceID, name: String, clock: SkewedClock,
    account: SimulatedAccount, member: SimulatedMember, opensAccount: Bool, world: World,
    settings: SyncSettings, allotment: Allotment
  ) throws {
    let scheduler = world.scheduler
    self.owner = owner
    self.directory = directory
    self.clock = clock
    try Files.makeDirectories(directory)
    let catalog = try ContainerCatalog(
      path: directory + "/catalog.sqlite", owner: 0, group: 0, clock: clock)
    // A run does not depend on what is free on this machine.
    let content = try ContentFiles(directory: directory + "/content", disk: { nil })
    if catalog.endedUncleanly {
      let found = try catalog.recover { key throws(Errno) in
        try content.found(key).map {
          FoundContent(size: $0.size, modified: $0.modified, blocks: $0.blocks)
        }
      }
      scheduler.note("\(name) recovers inodes \(found)")
    }
    for key in try catalog.unneededContent(among: try content.keys()) { try content.remove(key) }
    self.catalog = catalog
    self.content = content
    coordinator = ContainerCoordinator(
      container: Self.container, catalog: catalog, content: content)
    fileSystem = ContainerFileSystem(coordinator: coordinator, clock: clock)
    self.account = account
    store = FaultyStore(
      world.cloud, scheduler, name: name, prefix: account.prefix, owner: owner, seed: world.seed,
      count: world.count)
    store.bytesPerSecond = world.isNarrow ? 20_000 : nil
    let locks = locks
    coordinator.setLockReader { locks.withLock { $0 } }
    let incarnation = account.container.incarnation
    let offline = offline
    let way = GatedStore(RetryingStore(store), offline: offline)
    let remote = try RemoteAccount(
      store: way, secret: member.secret, format: member.format, device: member.identity,
      memory: member.memory)
    self.remote = remote
    var logger = Logger(label: name)
    logger.logLevel = scheduler.isTold ? .trace : .critical
    sync = ContainerSync(
      coordinator: coordinator,
      link: RemoteLink(isOffline: { offline.isOffline }) { () async throws(RemoteError) in
        guard opensAccount else {
          return remote.container(Self.container, incarnation: incarnation)
        }
        let account = try await RemoteAccount.open(
          store: way, secret: member.secret, createIfMissing: true, device: member.identity,
          memory: member.memory)
        return try await account.createContainer(
          Self.container, device: device, time: Timestamp(nanoseconds: 1))
      }, device: device, settings: settings, allotment: allotment, logger: logger)
  }

  func setLocked(_ number: InodeNumber, _ isLocked: Bool) {
    locks.withLock { locks in
      if isLocked {
        locks.inodes.insert(number.rawValue)
      } else {
        locks.inodes.remove(number.rawValue)
      }
    }
  }

  /// What `fsck` finds.
  func problems() throws -> [String] {
    let content = content
    return try catalog.check(contentKeys: try content.keys()) { (try? content.found($0))??.size }
      .map(\.description)
  }

  /// Every item, in the order of paths.
  func items() throws -> [TreeItem] {
    var result: [TreeItem] = []
    func visit(_ number: InodeNumber, _ path: String) throws {
      for entry in try catalog.readDirectory(number, after: 0, limit: 100_000) {
        let item = TreeItem(
          path: "\(path)/\(entry.name)", parent: number, name: entry.name, inode: entry.inode)
        result.append(item)
        if entry.inode.kind == .directory { try visit(entry.inode.number, item.path) }
      }
    }
    try visit(.root, "")
    return result
  }

  /// An item's conflict versions, as far as this device knows.
  func conflicts(of inode: Catalog.Inode) -> [ContentVersion] {
    ((try? catalog.remote(inode.item)) ?? nil)?.conflicts ?? []
  }

  /// The contents that conflict versions hold.
  func keptInConflicts(of inode: Catalog.Inode) -> [Manifest] {
    Self.manifests(conflicts(of: inode), isPackage: inode.kind == .directory)
  }

  /// All contents that a record names.
  static func contents(of record: ItemRecord) -> [Manifest] {
    manifests(record.contents, isPackage: record.kind == .directory)
  }

  /// The version of a package is an archive of its directory: a file in it is some of the chunks,
  /// one after another.
  private static func manifests(_ versions: [ContentVersion], isPackage: Bool) -> [Manifest] {
    let manifests = versions.compactMap(\.manifest)
    guard isPackage else { return manifests }
    return manifests.flatMap { manifest in
      let chunks = manifest.chunks
      return chunks.indices.flatMap { start in
        (start..<min(start + 16, chunks.count)).map { Manifest(chunks: Array(chunks[start...$0])) }
      }
    }
  }

  /// The content that a file shows; nil for one that has none here yet, or nowhere.
  func shown(_ inode: Catalog.Inode) throws -> Manifest? {
    guard inode.size > 0 else { return .empty }
    if inode.version != nil { return try catalog.shownContent(of: inode.number)?.manifest }
    return try stored(inode)
  }

  /// What the bytes of a file that is here make.
  func stored(_ inode: Catalog.Inode) throws -> Manifest? {
    guard let key = inode.contentKey, content.exists(key) else { return nil }
    let file = try content.open(key, writable: false)
    return try account.opened.manifest(of: file, size: try file.length())
  }
}

/// A name in a device's tree.
struct TreeItem {
  let path: String
  let parent: InodeNumber
  let name: ItemName
  let inode: Catalog.Inode
}
