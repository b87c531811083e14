import Glibc
import OperationSequences

extension ReferenceFileSystem {
  func perform(_ operation: Operation) throws -> Expectation {
    switch operation {
    case .open(let slot, let path, let flags, let mode):
      close(slot)
      try open(slot, path, flags, mode)
    case .close(let number):
      _ = try slot(number)
      close(number)
    case .makeNode(let path, let kind, let mode):
      _ = try make(path, kind, mode)
    case .makeDirectory(let path, let mode):
      _ = try make(path, .directory, mode)
    case .makeSymbolicLink(let target, let path):
      try make(path, .symbolicLink, 0o777).target = Array(target.utf8)
    case .link(let from, let to): try link(from, to)
    case .unlink(let path): try remove(path, isDirectory: false)
    case .removeDirectory(let path): try remove(path, isDirectory: true)
    case .rename(let from, let to, let mode): try rename(from, to, mode)
    default: return try performOnContent(operation)
    }
    return .exactly(.done)
  }

  private func open(_ slot: Int, _ path: Path, _ flags: OpenFlags, _ mode: UInt16) throws {
    var node: ReferenceNode
    var isNew = false
    do {
      node = try find(path)
      if flags.contains([.create, .exclusive]) { throw Refusal(EEXIST) }
    } catch let refusal as Refusal where refusal.code == ENOENT && flags.contains(.create) {
      // Only the last name may be missing.
      _ = try place(path)
      node = try make(path, .file, mode)
      isNew = true
    }
    switch node.kind {
    case .file:
      if flags.contains(.directory) { throw Refusal(ENOTDIR) }
    case .directory:
      if flags.contains(.write) || flags.contains(.create) { throw Refusal(EISDIR) }
      return add(node, [.read, .directory], isFlushed: false, to: slot)
    case .symbolicLink:
      throw Refusal(flags.contains(.directory) ? ENOTDIR : ELOOP)
    default:
      throw Refusal(flags.contains(.directory) ? ENOTDIR : ENXIO)
    }
    let isFlushed = isNew || flags.contains(.write)
    add(node, flags, isFlushed: isFlushed, to: slot)
    if isNew { note(node) }
    if flags.contains(.truncate), !isNew {
      node.content = []
      contentChanged(node)
    }
  }

  private func make(_ path: Path, _ kind: NodeKind, _ mode: UInt16) throws -> ReferenceNode {
    let (directory, name) = try newPlace(path)
    let inherits = directory.mode & 0o2000 != 0
    let node = ReferenceNode(
      kind, mode: inherits && kind == .directory ? mode | 0o2000 : mode, user: user.rawValue,
      group: inherits ? directory.group : user.rawValue)
    if kind == .characterDevice || kind == .blockDevice { node.device = ReferenceFileSystem.device }
    node.madeAs = (directory, name)
    directory.children[name] = node
    if kind == .directory {
      node.parent = directory
      directory.links += 1
    }
    touch(node)
    touchEntries(directory, name)
    return node
  }

  /// The number of every device node that steps make.
  static let device: UInt64 = 0x0103

  private func link(_ from: Path, _ to: Path) throws {
    let node = try find(from)
    let (directory, name) = try newPlace(to)
    guard !node.isDirectory else { throw Refusal(EPERM) }
    directory.children[name] = node
    node.links += 1
    node.changed = .justNow
    touch(node)
    touchEntries(directory, name)
  }

  private func remove(_ path: Path, isDirectory: Bool) throws {
    let node = try find(path)
    let (directory, name) = try place(path)
    if isDirectory {
      guard node.isDirectory else { throw Refusal(ENOTDIR) }
      guard node.children.isEmpty else { throw Refusal(ENOTEMPTY) }
    } else {
      guard !node.isDirectory else { throw Refusal(EISDIR) }
    }
    directory.children[name] = nil
    unlinked(node, from: directory)
    touchEntries(directory, name)
  }

  /// A node lost a name.
  private func unlinked(_ node: ReferenceNode, from directory: ReferenceNode) {
    if node.isDirectory {
      node.links = 0
      node.parent = nil
      directory.links -= 1
      // POSIX says nothing of it.
      node.modified = node.modified.perhaps
      node.changed = node.changed.perhaps
    } else {
      node.links -= 1
      node.changed = .justNow
    }
    touch(node)
  }

  private func rename(_ from: Path, _ to: Path, _ mode: ReplaceMode) throws {
    let (oldDirectory, oldName) = try place(from)
    let (newDirectory, newName) = try place(to)
    guard oldName.bytes.count <= 255 else { throw Refusal(ENAMETOOLONG) }
    guard let node = oldDirectory.children[oldName] else { throw Refusal(ENOENT) }
    guard newName.bytes.count <= 255 else { throw Refusal(ENAMETOOLONG) }
    let target = newDirectory.children[newName]
    if mode == .noReplace, target != nil { throw Refusal(EEXIST) }
    if mode == .exchange, target == nil { throw Refusal(ENOENT) }
    // Into itself, or over what it is in.
    if node.isDirectory, node.contains(newDirectory) { throw Refusal(EINVAL) }
    if let target, target.isDirectory, target.contains(oldDirectory) {
      throw Refusal(mode == .exchange ? EINVAL : ENOTEMPTY)
    }
    guard newDirectory.links > 0 else { throw Refusal(ENOENT) }
    // Two names of one file: nothing is done, and that is success.
    if target === node { return }
    if let target, mode == .replace {
      guard node.isDirectory || !target.isDirectory else { throw Refusal(EISDIR) }
      guard !node.isDirectory || target.isDirectory else { throw Refusal(ENOTDIR) }
      guard target.children.isEmpty else { throw Refusal(ENOTEMPTY) }
    }
    oldDirectory.children[oldName] = mode == .exchange ? target : nil
    newDirectory.children[newName] = node
    moved(node, from: oldDirectory, to: newDirectory)
    if let target {
      if mode == .exchange {
        moved(target, from: newDirectory, to: oldDirectory)
      } else {
        unlinked(target, from: newDirectory)
      }
    }
    touchEntries(oldDirectory, oldName)
    touchEntries(newDirectory, newName)
  }

  private func moved(
    _ node: ReferenceNode, from old: ReferenceNode, to new: ReferenceNode
  ) {
    node.changed = .justNow
    touch(node)
    guard node.isDirectory else { return }
    node.parent = new
    old.links -= 1
    new.links += 1
  }
}
