import Catalog
import Coordination
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage

/// What a user does with files, by the calls that the kernel would make. One thing at a time for
/// each device; while it takes, the engine works on.
extension SimulatedDevice {
  /// Begins something at random, unless the user is still at the last thing.
  func act() {
    if world.keepsFilesOpen, !isHolding, ownRandom.chance(8) { holdOpen() }
    act(.any(&random))
  }

  func act(_ action: Action) {
    begin("\(action)") { life in try await self.perform(action, life) }
  }

  /// Begins a user's work, unless the last one goes on.
  func begin(_ action: String, _ body: @escaping (DeviceLife) async throws -> Void) {
    guard isUp, !isWorking, let life else { return }
    isWorking = true
    world.countAct()
    nonisolated(unsafe) let body = body
    world.scheduler.perform(life.owner) {
      Task {
        do {
          try await body(life)
          world.count("\(action) done")
        } catch let error as Errno {
          world.scheduler.note("\(name) \(action): \(error)")
          world.count("\(action) \(error.rawValue)")
          if !Self.expected.contains(error) { world.report("\(name) \(action) fails: \(error)") }
        } catch {
          world.report("\(name) \(action) fails: \(error)")
        }
        if self.life === life { isWorking = false }
      }
    }
  }

  /// What a program may be told when the network fails, or another device was faster.
  private static let expected: Set<Errno> = [
    .noSuchFileOrDirectory, .staleNFSFileHandle, .fileExists, .directoryNotEmpty, .resourceBusy,
    .isDirectory, .notDirectory, .invalidArgument, .timedOut, .networkDown, .ioError, .interrupted,
    .improperLink, .notPermitted, .noData, .badFileDescriptor, .tooManyLinks,
  ]

  enum Action: CaseIterable {
    case save, saveAgain, saveByRenaming, append, truncate, overwrite
    case rename, renameTree, swap, changeCase, replaceKind, remove, removeTree
    case makeDirectory, link, symbolicLink, attribute, removeAttribute, mode
    case evict, evictTree, read, resolve, setClock

    private var weight: Int {
      switch self {
      case .save: 6
      case .saveAgain, .rename, .makeDirectory, .overwrite: 4
      case .saveByRenaming, .append, .renameTree, .read, .attribute: 3
      case .truncate, .remove, .link, .evict: 2
      default: 1
      }
    }

    static func any(_ random: inout SeededGenerator) -> Action {
      var left = random.number(0...total - 1)
      for action in allCases {
        left -= action.weight
        if left < 0 { return action }
      }
      return .save
    }

    private static let total = allCases.reduce(0) { $0 + $1.weight }
  }

  /// What a user finds in the folder that is open.
  struct Sight {
    let items: [TreeItem]
    let files: [TreeItem]
    let folders: [InodeNumber]
    let folder: InodeNumber
    let name: ItemName
    var file: TreeItem?
    /// Anything but `Documents`.
    let item: TreeItem?
  }

  private static let names = ["a", "b", "c", "d.txt", "e.txt", "f", "A", "E.txt", "g"]

  private func look(_ life: DeviceLife) throws -> Sight {
    let items = try life.items()
    let files = items.filter { $0.inode.kind == .file }
    let folders =
      [InodeNumber.root] + items.filter { $0.inode.kind == .directory }.map(\.inode.number)
    let folder = folders[random.number(0...folders.count - 1)]
    let name = Self.names[random.number(0...Self.names.count - 1)]
    return Sight(
      items: items, files: files, folders: folders,
      folder: folder,
      name: .simulated(name == "g" && world.hasPackages ? "g.pages" : name),
      file: files.randomElement(using: &random),
      item: items.filter { $0.inode.item != .documents }.randomElement(using: &random))
  }

  private func perform(_ action: Action, _ life: DeviceLife) async throws {
    var sight = try look(life)
    if world.isNarrow, ownRandom.chance(40) {
      let uploads = await life.sync.status().transfers.filter(\.isUpload).map(\.number)
      try checkUp(life)
      if let file = sight.files.first(where: { uploads.contains($0.inode.number) }) {
        world.count("aimed at an upload")
        sight.file = file
      }
    }
    let (name, folder) = (sight.name, sight.folder)
    world.scheduler.note(
      """
      \(self.name) \(action) \(sight.file?.path ?? "-") \(sight.item?.path ?? "-") \(name) \
      in \(folder)
      """)
    switch action {
    case .save: try await save(name, in: folder, life)
    case .saveAgain: if let file = sight.file { try await save(file.name, in: file.parent, life) }
    case .saveByRenaming:
      let target = sight.file.map { ($0.parent, $0.name) } ?? (folder, name)
      let draft = ItemName.simulated("draft")
      try await save(draft, in: target.0, life)
      try rename(draft, in: target.0, to: target.1, in: target.0, life)
    case .append: if let file = sight.file { try await append(file.inode.number, life) }
    case .truncate: if let file = sight.file { try await cut(file.inode.number, life) }
    case .overwrite: if let file = sight.file { try await overwrite(file.inode.number, life) }
    case .makeDirectory:
      try make(name, in: folder, NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0), life)
    case .symbolicLink:
      let target = Array("target \(random.number(0...9))".utf8)
      try make(
        name, in: folder,
        NewItem(kind: .symbolicLink, mode: 0o777, owner: 0, group: 0, target: target), life)
    case .attribute, .removeAttribute, .mode: try changeAttributes(action, sight.item, life)
    case .evict, .evictTree:
      eviction = world.acts
      defer { if self.life === life { eviction = nil } }
      if action == .evictTree {
        try await life.coordinator.evictAfterLook(folder)
      } else if let file = sight.file {
        try await evict(file, life)
      }
    case .read: if let file = sight.file { try await read(file.inode.number, life) }
    case .resolve:
      if let found = sight.items.first(where: { !life.conflicts(of: $0.inode).isEmpty }) {
        try await resolve(found.inode, life)
      }
    case .setClock: setClock()
    case .rename, .renameTree, .swap, .changeCase, .replaceKind, .remove, .removeTree, .link:
      try await changeNames(action, sight, life)
    }
  }

  private func changeAttributes(_ action: Action, _ item: TreeItem?, _ life: DeviceLife) throws {
    guard let inode = item?.inode, inode.kind != .symbolicLink else { return }
    let attribute = "user.k\(random.number(0...3))"
    let key = Ledger.AttributeKey(item: inode.item, name: attribute)
    let ledger = account.ledger
    switch action {
    case .attribute:
      let value = Array("\(random.number(0...999_999))".utf8)
      try life.fileSystem.setAttribute(
        Array(attribute.utf8), value, mode: .createOrReplace, of: inode.number)
      ledger.setAttribute(key, value)
      world.scheduler.note("\(name) gives \(key.item) \(attribute)")
      // Whether it was done the crash knows.
      if !isIntact { ledger.removeAttribute(key) }
    case .removeAttribute:
      ledger.removeAttribute(key)
      try life.fileSystem.removeAttribute(Array(attribute.utf8), of: inode.number)
    default:
      _ = try life.catalog.setAttributes(
        inode.number, AttributeChanges(mode: UInt16(0o600 + random.number(0...0o77))))
    }
  }

  func make(_ name: ItemName, in folder: InodeNumber, _ new: NewItem, _ life: DeviceLife) throws {
    let made = try life.fileSystem.make(name.bytes, in: folder, new)
    life.fileSystem.forget(made.inode.number, count: 1)
  }

  private func resolve(_ inode: Catalog.Inode, _ life: DeviceLife) async throws {
    let versions = try life.sync.versions(of: inode.number)
    guard let kept = versions.randomElement(using: &random),
      let record = try life.catalog.remote(inode.item)
    else { return }
    try discard(record, except: kept.id, inode, life)
    do {
      try await life.sync.resolve(inode.number, keep: [kept.id])
    } catch {
      world.scheduler.note("\(name) resolve: \(error)")
    }
  }

  /// A conflict is about to be resolved. Before it is: a crash in the midst of it may leave it
  /// done.
  func discard(
    _ record: ItemRecord, except kept: VersionID, _ inode: Catalog.Inode, _ life: DeviceLife
  ) throws {
    try requireKnown(record.conflicts.filter { $0.id != kept })
    for version in record.contents where version.id != kept { account.ledger.discard(version) }
    // The list names the current content before this device has read what it consists of. A later
    // edit is another content, which nobody was shown.
    if let current = record.content, current.id != kept, current.manifest == nil,
      inode.version == nil, current.device == id, current.size == inode.size,
      current.modified == inode.modified, let content = try life.shown(inode)
    {
      account.ledger.discard(content)
    }
    if inode.kind == .directory { try supersedePackage(inode, life) }
  }

  /// What is in it and in its versions; what is kept of that is not looked for either.
  private func supersedePackage(_ package: Catalog.Inode, _ life: DeviceLife) throws {
    for content in life.keptInConflicts(of: package) { account.ledger.supersede(content) }
    account.ledger.removePackageVersion()
    // What the log has of it is its current version, and may not be shown yet.
    var items = [package.item]
    while let item = items.popLast() {
      items += try life.catalog.remoteChildren(of: item)
      guard let record = try life.catalog.remote(item) else { continue }
      for version in record.contents {
        account.ledger.supersede(version, writer: world.name(of: version.device))
      }
      guard record.kind == .directory, item != package.item else { continue }
      // A package in it goes to the trash with its versions.
      for content in DeviceLife.contents(of: record) { account.ledger.discard(content) }
    }
    var pending = [package.number]
    while let folder = pending.popLast() {
      for entry in try life.catalog.readDirectory(folder, after: 0, limit: 100_000) {
        if entry.inode.kind == .directory { pending.append(entry.inode.number) }
        try supersede(entry.inode, life)
      }
    }
  }

  /// The user saw this and does away with it. Another content or item takes its place, or it is
  /// removed and goes to the trash; with a file its conflict versions go there in any case.
  func supersede(
    _ inode: Catalog.Inode, _ life: DeviceLife, alsoConflicts: Bool = true, isRemoved: Bool = false
  ) throws {
    guard inode.kind == .file else { return }
    let ledger = account.ledger
    let current = try life.catalog.shownContent(of: inode.number)
    try requireKnown(
      [current].compactMap(\.self) + (alsoConflicts ? life.conflicts(of: inode) : []))
    if let content = try life.shown(inode) {
      world.scheduler.note("\(name) does away with \(Ledger.name(of: content)) of \(inode.item)")
      if isRemoved { ledger.discard(content) } else { ledger.supersede(content) }
    }
    if let version = current {
      if isRemoved {
        ledger.discard(version)
      } else {
        ledger.supersede(version, writer: world.name(of: version.device))
      }
    }
    guard alsoConflicts else { return }
    for version in life.conflicts(of: inode) { ledger.discard(version) }
    account.ledger.removeAttributes(of: inode.item)
  }

  /// An announced version whose bytes are not up is known by its bytes once the log has them. In a
  /// log that was set back they may never be found, so nobody does away with it there.
  private func requireKnown(_ versions: [ContentVersion]) throws {
    guard world.rollsBack else { return }
    guard versions.allSatisfy({ $0.manifest != nil }) else { throw Errno.noData }
  }

  /// Mostly a moment: a program's calls come one after the other.
  func pause(_ life: DeviceLife) async throws {
    let milliseconds =
      switch random.number(0...99) {
      case 0..<50: 0
      case 50..<85: random.number(1...50)
      case 85..<92: random.number(50...1000)
      default: random.number(100...20_000)
      }
    if milliseconds > 0 { try? await Task.sleep(for: .milliseconds(milliseconds)) }
    try checkUp(life)
  }

  /// A daemon that ends takes no more of a program's calls.
  func checkUp(_ life: DeviceLife) throws {
    guard isUp, self.life === life else { throw Errno.badFileDescriptor }
  }
}

extension ItemName {
  static func simulated(_ text: String) -> ItemName { try! ItemName(text) }
}
