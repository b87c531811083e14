import Catalog
import FileSystem
import Model
import OperationSequences
import SystemPackage

extension ModelDriver {
  func performOnAttributes(_ operation: Operation) throws -> Outcome {
    switch operation {
    case .changeMode(let path, let mode):
      let inode = try find(path).inode
      guard inode.kind != .symbolicLink else { throw Errno.notSupportedOnSocket }
      try change(inode.number, StatusChanges(mode: mode))
    case .changeOwner(let path, let user, let group):
      let inode = try find(path).inode
      try change(inode.number, StatusChanges(owner: user, group: group))
    case .changeTimes(let path, let accessed, let modified):
      let inode = try find(path).inode
      guard accessed != .omit || modified != .omit else { break }
      try change(
        inode.number, StatusChanges(accessed: Self.time(accessed), modified: Self.time(modified)))
    case .setAttribute(let path, let name, let value, let flag):
      try system.setAttribute(
        Array(name.utf8), value.bytes,
        mode: flag == .any ? .createOrReplace : flag == .create ? .create : .replace,
        of: find(path).inode.number)
    case .removeAttribute(let path, let name):
      try system.removeAttribute(Array(name.utf8), of: find(path).inode.number)
    default:
      return try answer(operation)
    }
    return .done
  }

  private func change(_ number: InodeNumber, _ changes: StatusChanges) throws {
    _ = try finish(try system.setStatus(number, changes, caller: caller))
  }

  private static func time(_ change: TimeChange) -> StatusChanges.Time? {
    switch change {
    case .omit: nil
    case .now: .now
    case .at(let nanoseconds): .at(Timestamp(nanoseconds: nanoseconds))
    }
  }

  // MARK: Questions

  private func answer(_ operation: Operation) throws -> Outcome {
    switch operation {
    case .getAttribute(let path, let name):
      return .bytes(try system.attribute(Array(name.utf8), of: find(path).inode.number))
    case .listAttributes(let path):
      return .names(try attributeNames(find(path).inode.number, caller))
    case .status(let path):
      return .status(try status(find(path).inode.number))
    case .statusOpen(let number):
      return .status(try status(try slot(number).number))
    case .fileSystemStatus(let path):
      _ = try find(path)
      _ = try system.statistics()
      return .done
    case .readLink(let path):
      return .bytes(try system.readLink(find(path).inode.number))
    case .list(let path):
      let number = try find(path).inode.number
      try requireAlive(number)
      return .names(try list(number).map(\.name).sorted())
    case .listSome(let number, let count):
      return .names(try listSome(number, count))
    case .seekListing(let number, let quarters):
      guard try slot(number).handle == nil else { throw Errno.notDirectory }
      let offsets = slots[number]!.offsets
      slots[number]!.offsets.removeLast(offsets.count - offsets.count * quarters / 4)
      return .done
    default:
      throw Errno.noFunction
    }
  }

  func attributeNames(_ number: InodeNumber, _ caller: Caller = Caller(user: 0, group: 0)) throws
    -> [Name]
  {
    let bytes = try system.attributeNames(
      of: number, withComputed: false, caller: caller)
    return bytes.split(separator: 0).map { Name(Array($0)) }.sorted()
  }

  /// The kernel does not list a directory that was removed.
  private func requireAlive(_ number: InodeNumber) throws {
    let inode = try system.status(number).inode
    guard inode.kind == .directory else { throw Errno.notDirectory }
    guard inode.linkCount > 0 else { throw Errno.noSuchFileOrDirectory }
  }

  /// The whole of a directory, in pieces of a few names.
  func list(_ number: InodeNumber) throws -> [(name: Name, number: InodeNumber)] {
    var result: [(Name, InodeNumber)] = []
    var offset: UInt64 = 0
    while true {
      let piece = try system.list(number, from: offset, limit: 5)
      guard let last = piece.last else { return result }
      result += piece.map { (Name($0.name), $0.inode.number) }
      offset = last.offset
    }
  }

  private func listSome(_ number: Int, _ count: Int) throws -> [Name] {
    let slot = try slot(number)
    guard slot.handle == nil else { throw Errno.notDirectory }
    try requireAlive(slot.number)
    var names: [Name] = []
    while names.count < count {
      let offset = slots[number]!.offsets.last ?? 0
      let piece = try system.list(slot.number, from: offset, limit: count).prefix(
        count - names.count)
      if piece.isEmpty { break }
      slots[number]!.offsets += piece.map(\.offset)
      names += piece.map { Name($0.name) }
    }
    return names
  }
}
