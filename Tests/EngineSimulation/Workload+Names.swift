import Catalog
import FileSystem
import Model
import SystemPackage

/// Moving, replacing and removing.
extension SimulatedDevice {
  func changeNames(_ action: Action, _ sight: Sight, _ life: DeviceLife) async throws {
    let (name, folder) = (sight.name, sight.folder)
    switch action {
    case .rename:
      if let item = sight.item {
        try rename(item.name, in: item.parent, to: name, in: folder, life)
      }
    case .renameTree:
      let tree = sight.items.filter { $0.inode.kind == .directory && $0.inode.item != .documents }
        .randomElement(using: &random)
      if let tree { try rename(tree.name, in: tree.parent, to: name, in: folder, life) }
    case .swap:
      let other = sight.items.filter { $0.inode.item != .documents }.randomElement(using: &random)
      if let item = sight.item, let other { try await swap(item, other, life) }
    case .changeCase:
      if let item = sight.item {
        try rename(item.name, in: item.parent, to: item.name.otherCase, in: item.parent, life)
      }
    case .replaceKind: if let item = sight.item { try await replaceKind(item, life) }
    case .remove: if let file = sight.file { try remove(file, life) }
    case .removeTree: if let item = sight.item { try await removeTree(item, life) }
    case .link:
      if let file = sight.file {
        let made = try life.fileSystem.link(file.inode.number, as: name.bytes, in: folder)
        account.ledger.link(file.inode.item)
        life.fileSystem.forget(made.inode.number, count: 1)
      }
    default: break
    }
  }

  func rename(
    _ name: ItemName, in parent: InodeNumber, to newName: ItemName, in newParent: InodeNumber,
    _ life: DeviceLife
  ) throws {
    let replaced = try life.catalog.lookup(newName, in: newParent)
    let moved = try life.catalog.lookup(name, in: parent)
    if let replaced, let moved, replaced.number != moved.number {
      try supersede(replaced, life)
      if replaced.kind == .directory { supersedeVersions(ofDirectory: replaced, life) }
      account.ledger.removeAttributes(of: replaced.item)
    }
    try life.fileSystem.rename(
      name.bytes, in: parent, to: newName.bytes, in: newParent, mode: .replace)
    // A document that is saved so keeps its item: that of the new file is gone, with what it had.
    if let moved, let now = try life.catalog.lookup(newName, in: newParent), now.item != moved.item
    {
      account.ledger.removeAttributes(of: moved.item)
    }
  }

  /// At once, or by way of a third name as programs do that know no better.
  private func swap(_ item: TreeItem, _ other: TreeItem, _ life: DeviceLife) async throws {
    if random.chance(50) {
      return try life.fileSystem.rename(
        item.name.bytes, in: item.parent, to: other.name.bytes, in: other.parent, mode: .exchange)
    }
    let between = ItemName.simulated("between")
    try rename(item.name, in: item.parent, to: between, in: item.parent, life)
    if random.chance(30) { try await pause(life) }
    try rename(other.name, in: other.parent, to: item.name, in: item.parent, life)
    if random.chance(30) { try await pause(life) }
    try rename(between, in: item.parent, to: other.name, in: other.parent, life)
  }

  /// A file gives its name to a directory, or a directory to a file.
  private func replaceKind(_ item: TreeItem, _ life: DeviceLife) async throws {
    try await removeTree(item, life)
    if item.inode.kind == .directory {
      try await save(item.name, in: item.parent, life)
    } else {
      try make(
        item.name, in: item.parent, NewItem(kind: .directory, mode: 0o755, owner: 0, group: 0),
        life)
    }
  }

  func remove(_ file: TreeItem, _ life: DeviceLife) throws {
    if let inode = try life.catalog.lookup(file.name, in: file.parent) {
      try supersede(inode, life, isRemoved: true)
    }
    try life.fileSystem.remove(file.name.bytes, in: file.parent, directory: false)
  }

  /// With a directory that was a package go the versions of that.
  private func supersedeVersions(ofDirectory directory: Catalog.Inode, _ life: DeviceLife) {
    for content in life.keptInConflicts(of: directory) {
      account.ledger.supersede(content)
      account.ledger.removePackageVersion()
    }
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
      account.ledger.removeAttributes(of: item.inode.item)
      supersedeVersions(ofDirectory: item.inode, life)
      try life.fileSystem.remove(item.name.bytes, in: item.parent, directory: true)
    } else {
      account.ledger.removeAttributes(of: item.inode.item)
      try remove(item, life)
    }
  }
}

extension ItemName {
  /// In capitals, or in small letters if it is in capitals.
  fileprivate var otherCase: ItemName {
    let text = "\(self)"
    return .simulated(text == text.uppercased() ? text.lowercased() : text.uppercased())
  }
}
