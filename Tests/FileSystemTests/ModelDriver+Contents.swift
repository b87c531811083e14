import Catalog
import FileSystem
import Model
import OperationSequences
import Platform
import SystemPackage

extension ModelDriver {
  func performOnContent(_ operation: Operation) throws -> Outcome {
    switch operation {
    case .write(let number, let offset, let count, let fill):
      let (slot, handle) = try writable(number)
      guard count > 0 else { return .number(0) }
      let end = try system.status(slot.number).size
      let file = try finish(try system.prepareWrite(handle, caller: caller))
      try file.write(
        [UInt8](repeating: fill, count: count), at: slot.flags.contains(.append) ? end : offset)
      try system.noteWritten(handle, to: file)
      return .number(Int64(count))
    case .read(let number, let offset, let count):
      let slot = try slot(number)
      guard slot.flags.contains(.read) else { throw Errno.badFileDescriptor }
      guard let handle = slot.handle else { throw Errno.isDirectory }
      return .bytes(try read(handle, offset, count))
    case .truncateOpen(let number, let size):
      let slot = try slot(number)
      guard slot.handle != nil, slot.flags.contains(.write) else { throw Errno.invalidArgument }
      try resize(slot.number, size, isOpen: true)
    case .truncate(let path, let size):
      let inode = try find(path).inode
      guard inode.kind != .directory else { throw Errno.isDirectory }
      guard inode.kind == .file else { throw Errno.invalidArgument }
      try resize(inode.number, size, isOpen: false)
    case .allocate(let number, let mode, let offset, let length):
      let (_, handle) = try writable(number)
      guard length > 0 else { throw Errno.invalidArgument }
      _ = try finish(
        try system.allocate(
          handle, mode: mode.rawValue, offset: offset, length: length, caller: caller))
    case .seekData(let number, let offset):
      return try seek(number, .data, offset)
    case .seekHole(let number, let offset):
      return try seek(number, .hole, offset)
    case .copyRange(let from, let offset, let to, let newOffset, let count):
      return .number(Int64(try copy(from, offset, to, newOffset, count)))
    case .synchronize(let number):
      guard let handle = try slot(number).handle else {
        try system.synchronizeNames()
        break
      }
      try system.synchronize(handle, dataOnly: number % 2 == 1)
    default:
      return try performOnAttributes(operation)
    }
    return .done
  }

  func read(_ handle: UInt64, _ offset: UInt64, _ count: Int) throws -> [UInt8] {
    let range = try finish(try system.read(handle, offset: offset, count: count))
    return try range.file?.read(count: range.count, at: range.offset) ?? []
  }

  private func writable(_ number: Int) throws -> (Slot, UInt64) {
    let slot = try slot(number)
    guard slot.flags.contains(.write), let handle = slot.handle else {
      throw Errno.badFileDescriptor
    }
    return (slot, handle)
  }

  private func resize(_ number: InodeNumber, _ size: UInt64, isOpen: Bool) throws {
    _ = try finish(
      try system.setStatus(number, StatusChanges(size: size), caller: caller, isOpen: isOpen))
  }

  private func seek(_ number: Int, _ kind: ContainerFileSystem.SeekKind, _ offset: UInt64) throws
    -> Outcome
  {
    guard let handle = try slot(number).handle else { throw Errno.invalidArgument }
    return .number(Int64(try system.seek(handle, kind, from: offset)))
  }

  /// The kernel has both sizes, and checks.
  private func copy(
    _ from: Int, _ offset: UInt64, _ to: Int, _ newOffset: UInt64, _ count: Int
  ) throws -> Int {
    let (source, target) = (try slot(from), try slot(to))
    guard let input = source.handle, let output = target.handle else { throw Errno.isDirectory }
    guard source.flags.contains(.read), target.flags.contains(.write),
      !target.flags.contains(.append)
    else { throw Errno.badFileDescriptor }
    let size = try system.status(source.number).size
    let count = min(count, Int(max(size, offset) - offset))
    if source.number == target.number, newOffset + UInt64(count) > offset,
      newOffset < offset + UInt64(count)
    {
      throw Errno.invalidArgument
    }
    guard count > 0 else { return 0 }
    return try finish(
      try system.copyRange(
        from: input, at: offset, to: output, at: newOffset, count: count, caller: caller))
  }
}
