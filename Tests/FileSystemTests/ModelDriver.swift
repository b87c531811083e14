import Catalog
import FileSystem
import Model
import OperationSequences
import Platform
import SystemPackage

/// Does the steps on a `ContainerFileSystem`, and what the kernel does around it: it looks every
/// name of a path up, keeps what it was told, checks descriptors, and appends.
final class ModelDriver {
  struct Slot {
    let number: InodeNumber
    let flags: OpenFlags
    /// Nil for a directory.
    let handle: UInt64?
    var needsFlush = false
    /// Of a directory: where each name that was given ended.
    var offsets: [UInt64] = []
  }

  private let container: ModelContainer
  let root: InodeNumber
  var slots: [Int: Slot] = [:]
  /// What the kernel was told of, and how often.
  private var known: [InodeNumber: UInt64] = [:]
  var caller = Caller(user: 0, group: 0)

  var system: ContainerFileSystem { container.system }
  var catalog: ContainerCatalog { container.catalog }

  init(_ container: ModelContainer, root: InodeNumber) {
    self.container = container
    self.root = root
  }

  func run(_ step: Action) throws -> Outcome {
    caller = Caller(user: step.user.rawValue, group: step.user.rawValue)
    do {
      return try perform(step.operation)
    } catch let error as Errno {
      return .failed(error.rawValue)
    }
  }

  // MARK: Names

  func lookup(_ name: Name, in parent: InodeNumber) throws -> FileStatus? {
    guard let found = try system.lookup(name.bytes, in: parent) else { return nil }
    remember(found)
    return found
  }

  @discardableResult
  func remember(_ status: FileStatus) -> FileStatus {
    known[status.inode.number, default: 0] += 1
    return status
  }

  func slot(_ number: Int) throws -> Slot {
    guard let slot = slots[number] else { throw Errno.badFileDescriptor }
    return slot
  }

  func find(_ path: Path) throws -> FileStatus {
    let start = try path.slot.map { try slot($0).number } ?? root
    var status = try system.status(start)
    for name in path.names {
      guard status.inode.kind == .directory else { throw Errno.notDirectory }
      guard let next = try lookup(name, in: status.inode.number) else {
        throw Errno.noSuchFileOrDirectory
      }
      status = next
    }
    return status
  }

  /// The directory of a path's last name, the name, and what has it.
  func place(_ path: Path) throws -> (directory: InodeNumber, name: Name, found: FileStatus?) {
    let directory = try find(Path(slot: path.slot, path.names.dropLast())).inode
    guard directory.kind == .directory else { throw Errno.notDirectory }
    guard let name = path.names.last else { throw Errno.invalidArgument }
    return (directory.number, name, try lookup(name, in: directory.number))
  }

  /// The kernel forgets what it does not need: all but what is open.
  func forget() {
    let inUse = Set(slots.values.map(\.number) + [root])
    for (number, count) in known where !inUse.contains(number) {
      system.forget(number, count: count)
      known[number] = nil
    }
  }

  func closeAll() throws {
    for slot in slots.keys.sorted() { try close(slot) }
  }

  /// The process ended.
  func wasEnded() {
    slots = [:]
    known = [:]
  }

  func close(_ number: Int) throws {
    guard let slot = slots.removeValue(forKey: number), let handle = slot.handle else { return }
    defer { system.release(handle) }
    if slot.needsFlush { try system.flush(handle) }
  }

  func status(_ number: InodeNumber) throws -> ItemStatus {
    Self.describe(try system.status(number))
  }

  static func describe(_ status: FileStatus) -> ItemStatus {
    let inode = status.inode
    return ItemStatus(
      number: inode.number.rawValue, kind: NodeKind(inode.kind), mode: inode.mode,
      links: UInt64(inode.linkCount), user: inode.owner, group: inode.group, size: status.size,
      device: inode.device, accessed: inode.accessed.nanoseconds,
      modified: inode.modified.nanoseconds, changed: inode.changed.nanoseconds)
  }

  /// What needs the network has no business here: everything is local.
  func finish<Value>(_ step: Step<Value>) throws -> Value {
    guard case .done(let value) = step else { throw Errno.networkDown }
    return value
  }
}

extension NodeKind {
  init(_ kind: ItemKind) { self = NodeKind(rawValue: kind.rawValue)! }
}
