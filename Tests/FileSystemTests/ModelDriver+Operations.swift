import Catalog
import FileSystem
import Model
import OperationSequences
import SystemPackage

extension ModelDriver {
  func perform(_ operation: Operation) throws -> Outcome {
    switch operation {
    case .open(let slot, let path, let flags, let mode):
      try close(slot)
      try open(slot, path, flags, mode)
    case .close(let number):
      _ = try slot(number)
      try close(number)
    case .makeNode(let path, let kind, let mode):
      try make(path, ItemKind(kind), mode)
    case .makeDirectory(let path, let mode):
      try make(path, .directory, mode)
    case .makeSymbolicLink(let target, let path):
      try make(path, .symbolicLink, 0o777, target: target)
    case .link(let from, let to):
      let source = try find(from).inode
      let (directory, name, found) = try place(to)
      // The kernel looks at the new name first.
      if source.kind == .directory, found != nil { throw Errno.fileExists }
      remember(try system.link(source.number, as: name.bytes, in: directory))
    case .unlink(let path):
      let (directory, name, _) = try place(path)
      try system.remove(name.bytes, in: directory, directory: false)
    case .removeDirectory(let path):
      let (directory, name, _) = try place(path)
      try system.remove(name.bytes, in: directory, directory: true)
    case .rename(let from, let to, let mode):
      try rename(from, to, mode)
    default:
      return try performOnContent(operation)
    }
    return .done
  }

  private func open(_ number: Int, _ path: Path, _ flags: OpenFlags, _ mode: UInt16) throws {
    var found: FileStatus?
    if path.names.isEmpty {
      found = try find(path)
    } else {
      let place = try place(path)
      found = place.found
      // A file that is there is opened by a create too, where that may race with another's.
      let mayCreate = found == nil || found?.inode.kind == .file && !flags.contains(.truncate)
      if flags.contains(.create), mayCreate {
        let (status, opened) = try system.create(
          place.name.bytes, in: place.directory, permissions: mode, OpenMode(flags), caller: caller)
        remember(status)
        slots[number] = Slot(
          number: status.inode.number, flags: flags, handle: opened.handle,
          needsFlush: opened.needsFlush)
        return
      }
    }
    guard let inode = found?.inode else { throw Errno.noSuchFileOrDirectory }
    if flags.contains([.create, .exclusive]) { throw Errno.fileExists }
    switch inode.kind {
    case .file:
      if flags.contains(.directory) { throw Errno.notDirectory }
      let opened = try system.open(inode.number, OpenMode(flags), caller: caller)
      slots[number] = Slot(
        number: inode.number, flags: flags, handle: opened.handle, needsFlush: opened.needsFlush)
    case .directory:
      if flags.contains(.write) || flags.contains(.create) { throw Errno.isDirectory }
      slots[number] = Slot(number: inode.number, flags: [.read, .directory], handle: nil)
    case .symbolicLink:
      throw flags.contains(.directory) ? Errno.notDirectory : Errno.tooManySymbolicLinkLevels
    default:
      throw flags.contains(.directory) ? Errno.notDirectory : Errno.noSuchAddressOrDevice
    }
  }

  private func make(_ path: Path, _ kind: ItemKind, _ mode: UInt16, target: String = "") throws {
    let (directory, name, _) = try place(path)
    let isDevice = kind == .characterDevice || kind == .blockDevice
    remember(
      try system.make(
        name.bytes, in: directory,
        NewItem(
          kind: kind, mode: mode, owner: caller.user, group: caller.group,
          device: isDevice ? ReferenceFileSystem.device : 0, target: Array(target.utf8))))
  }

  private func rename(_ from: Path, _ to: Path, _ mode: ReplaceMode) throws {
    // The kernel finds both directories before it looks at either name.
    _ = try directory(of: from)
    _ = try directory(of: to)
    let (oldDirectory, oldName, source) = try place(from)
    guard source != nil else { throw Errno.noSuchFileOrDirectory }
    let (newDirectory, newName, target) = try place(to)
    // It knows then what is there, and asks for nothing that is refused for that.
    if mode == .exchange, target == nil { throw Errno.noSuchFileOrDirectory }
    if mode == .noReplace, target != nil, source?.inode.kind == .directory {
      throw Errno.fileExists
    }
    if mode == .replace, let target, try isBelow(oldDirectory, target.inode.number) {
      throw source?.inode.kind == .directory && newDirectory == source?.inode.number
        ? Errno.invalidArgument : Errno.directoryNotEmpty
    }
    try system.rename(
      oldName.bytes, in: oldDirectory, to: newName.bytes, in: newDirectory,
      mode: mode == .replace ? .replace : mode == .noReplace ? .noReplace : .exchange)
  }

  private func isBelow(_ directory: InodeNumber, _ ancestor: InodeNumber) throws -> Bool {
    var current = directory
    while current != ancestor {
      guard current != root, try system.status(current).inode.linkCount > 0 else { return false }
      current = try list(current)[1].number
    }
    return true
  }

  private func directory(of path: Path) throws -> InodeNumber {
    let inode = try find(Path(slot: path.slot, path.names.dropLast())).inode
    guard inode.kind == .directory else { throw Errno.notDirectory }
    return inode.number
  }
}

extension ItemKind {
  init(_ kind: NodeKind) { self = ItemKind(rawValue: kind.rawValue)! }
}

extension OpenMode {
  init(_ flags: OpenFlags) {
    self.init(
      canRead: flags.contains(.read), canWrite: flags.contains(.write),
      truncates: flags.contains(.truncate), isExclusive: flags.contains(.exclusive))
  }
}
