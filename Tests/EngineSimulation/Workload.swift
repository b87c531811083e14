import Catalog
import Coordination
import FileSystem
import Glibc
import Model
import Platform
import SystemPackage

/// What a user does with files, by the calls that the kernel would make. One thing at a time for each
/// device; while it takes, the engine works on.
extension SimulatedDevice {
  private static let names = ["a", "b", "c", "d.txt", "e.txt", "f", "p.pages"]

  /// Begins something at random, unless the user is still at the last thing.
  func act() {
    guard isUp, !isWorking, let life else { return }
    let action = Action.any(&random)
    isWorking = true
    world.countAction()
    world.scheduler.perform(life.owner) {
      Task {
        do {
          try await perform(action, life)
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
    case save, saveAgain, saveByRenaming, append, truncate, rename, renameTree, remove, removeTree
    case makeDirectory, link, symbolicLink, attribute, mode, evict, read, resolve

    private var weight: Int {
      switch self {
      case .save: 6
      case .saveAgain, .rename, .makeDirectory: 4
      case .saveByRenaming, .append, .renameTree, .read: 3
      case .truncate, .remove, .link, .evict: 2
      case .removeTree, .symbolicLink, .attribute, .mode, .resolve: 1
      }
    }

    static func any(_ random: inout SeededGenerator) -> Action {
      var left = random.number(0...allCases.reduce(0) { $0 + $1.weight } - 1)
      for action in allCases {
        left -= action.weight
        if left < 0 { return action }
      }
      return .save
    }
  }

  private func perform(_ action: Action, _ life: DeviceLife) async throws {
    let items = try life.items()
    let files = items.filter { $0.inode.kind == .file }
    let folders =
      [InodeNumber.root] + items.filter { $0.inode.kind == .directory }.map(\.inode.number)
    let folder = folders[random.number(0...folders.count - 1)]
    let name = ItemName.simulated(Self.names[random.number(0...Self.names.count - 1)])
    let file = files.randomElement(using: &random)
    let item = items.filter { $0.inode.item != .documents }.randomElement(using: &random)
    world.scheduler.note("\(self.name) \(action) \(file?.path ?? "-") \(item?.path ?? "-") \(name)")
    switch action {
    case .save: try await save(name, in: folder, life)
    case .saveAgain: if let file { try await save(file.name, in: file.parent, life) }
    case .saveByRenaming:
      let target = file.map { ($0.parent, $0.name) } ?? (folder, name)
      let draft = ItemName.simulated("draft")
      try await save(draft, in: target.0, life)
      try rename(draft, in: target.0, to: target.1, in: target.0, life)
    case .append, .truncate:
      if let file { try await edit(file.inode.number, cuts: action == .truncate, life) }
    case .rename:
      if let item { try rename(item.name, in: item.parent, to: name, in: folder, life) }
    case .renameTree:
      let tree = items.filter { $0.inode.kind == .directory && $0.inode.item != .documents }
        .randomElement(using: &random)
      if let tree { try rename(tree.name, in: tree.parent, to: name, in: folder, life) }
    case .remove: if let file { try remove(file, life) }
    case .removeTree:
      if let item { try await removeTree(item, life) }
    case .makeDirectory:
      let made = try life.fileSystem.make(
        name.bytes, in: folder, NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0))
      life.fileSystem.forget(made.inode.number, count: 1)
    case .link:
      if let file {
        let made = try life.fileSystem.link(file.inode.number, as: name.bytes, in: folder)
        life.fileSystem.forget(made.inode.number, count: 1)
      }
    case .symbolicLink:
      let target = Array("target \(random.number(0...9))".utf8)
      let made = try life.fileSystem.make(
        name.bytes, in: folder,
        NewItem(kind: .symbolicLink, mode: 0o777, owner: 0, group: 0, target: target))
      life.fileSystem.forget(made.inode.number, count: 1)
    case .attribute:
      if let item, item.inode.kind != .symbolicLink {
        try life.fileSystem.setAttribute(
          Array("user.k\(random.number(0...2))".utf8), Array("\(random.number(0...99))".utf8),
          mode: .createOrReplace, of: item.inode.number)
      }
    case .mode:
      if let item, item.inode.kind != .symbolicLink {
        _ = try life.catalog.setAttributes(
          item.inode.number, AttributeChanges(mode: UInt16(0o600 + random.number(0...0o77))))
      }
    case .evict: if let file { try evict(file, life) }
    case .read: if let file { try await read(file.inode.number, life) }
    case .resolve:
      if let found = files.first(where: { !life.conflicts(of: $0.inode).isEmpty }) {
        try await resolve(found.inode, life)
      }
    }
  }

  // MARK: Names

  private func rename(
    _ name: ItemName, in parent: InodeNumber, to newName: ItemName, in newParent: InodeNumber,
    _ life: DeviceLife
  ) throws {
    let replaced = try life.catalog.lookup(newName, in: newParent)
    let moved = try life.catalog.lookup(name, in: parent)
    try life.fileSystem.rename(
      name.bytes, in: parent, to: newName.bytes, in: newParent, mode: .replace)
    if let replaced, replaced.number != moved?.number { supersede(replaced, life) }
  }

  private func remove(_ file: TreeItem, _ life: DeviceLife) throws {
    let inode = try life.catalog.lookup(file.name, in: file.parent)
    try life.fileSystem.remove(file.name.bytes, in: file.parent, directory: false)
    if let inode { supersede(inode, life) }
  }

  /// As `rm -r` does: one after the other, and not all at once.
  private func removeTree(_ item: TreeItem, _ life: DeviceLife) async throws {
    if item.inode.kind == .directory {
      for entry in try life.catalog.readDirectory(item.inode.number, after: 0, limit: 1000) {
        try await removeTree(
          TreeItem(
            path: "", parent: item.inode.number, name: entry.name, inode: entry.inode), life)
        if random.chance(10) { try await pause(life) }
      }
      for size in life.conflicts(of: item.inode) { world.ledger.supersede(size) }
      try life.fileSystem.remove(item.name.bytes, in: item.parent, directory: true)
    } else {
      try remove(item, life)
    }
  }

  private func resolve(_ inode: Catalog.Inode, _ life: DeviceLife) async throws {
    let versions = try life.sync.versions(of: inode.number)
    guard let kept = versions.randomElement(using: &random) else { return }
    // Before: a crash in the midst of it may leave it done.
    for version in versions where version.id != kept.id { world.ledger.supersede(version.size) }
    do {
      try await life.sync.resolve(inode.number, keep: [kept.id])
    } catch {
      world.scheduler.note("\(name) resolve: \(error)")
    }
  }

  /// The user saw this and does away with it; with a file go the conflict versions that it showed.
  func supersede(
    _ inode: Catalog.Inode, _ life: DeviceLife, alsoConflicts: Bool = true
  ) {
    guard inode.kind == .file else { return }
    world.ledger.supersede(inode.size)
    if alsoConflicts { for size in life.conflicts(of: inode) { world.ledger.supersede(size) } }
  }

  func pause(_ life: DeviceLife) async throws {
    let milliseconds = random.chance(20) ? random.number(100...20_000) : random.number(0...50)
    try? await Task.sleep(for: .milliseconds(milliseconds))
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
