import Glibc
import OperationSequences

extension ReferenceFileSystem {
  func performOnContent(_ operation: Operation) throws -> Expectation {
    switch operation {
    case .write(let number, let offset, let count, let fill):
      let (node, flags) = try writable(number)
      guard count > 0 else { return .exactly(.number(0)) }
      let start = flags.contains(.append) ? node.content.count : Int(offset)
      node.write([UInt8](repeating: fill, count: count), at: start)
      contentChanged(node)
      return .exactly(.number(Int64(count)))
    case .read(let number, let offset, let count):
      let slot = try slot(number)
      guard slot.flags.contains(.read) else { throw Refusal(EBADF) }
      guard !slot.node.isDirectory else { throw Refusal(EISDIR) }
      return .exactly(.bytes(slot.node.read(at: Int(offset), count: count)))
    case .truncateOpen(let number, let size):
      let slot = try slot(number)
      guard !slot.node.isDirectory, slot.flags.contains(.write) else { throw Refusal(EINVAL) }
      slot.node.resize(Int(size))
      contentChanged(slot.node)
    case .truncate(let path, let size):
      let node = try find(path)
      guard !node.isDirectory else { throw Refusal(EISDIR) }
      guard node.kind == .file else { throw Refusal(EINVAL) }
      node.resize(Int(size))
      contentChanged(node)
    case .allocate(let number, let mode, let offset, let length):
      let (node, _) = try writable(number)
      guard length > 0 else { throw Refusal(EINVAL) }
      allocate(node, mode, Int(offset), Int(length))
      contentChanged(node)
    case .seekData(let number, let offset):
      return .when(try seek(number, HoleSeek(offset: offset, isHole: false)))
    case .seekHole(let number, let offset):
      return .when(try seek(number, HoleSeek(offset: offset, isHole: true)))
    case .copyRange(let from, let offset, let to, let newOffset, let count):
      return try copy(from, Int(offset), to, Int(newOffset), count)
    case .synchronize(let number):
      _ = try slot(number)
      noteCommitted()
    default:
      return try performOnAttributes(operation)
    }
    return .exactly(.done)
  }

  private func writable(_ number: Int) throws -> (ReferenceNode, OpenFlags) {
    let slot = try slot(number)
    guard slot.flags.contains(.write) else { throw Refusal(EBADF) }
    return (slot.node, slot.flags)
  }

  /// The content was set by a program.
  func contentChanged(_ node: ReferenceNode) {
    if user != .root { node.dropPrivileges(by: user) }
    node.contentChanged()
    touch(node)
    // Truncating opens it as well.
    node.lastNoted = count
  }

  private func allocate(_ node: ReferenceNode, _ mode: AllocateMode, _ offset: Int, _ length: Int) {
    switch mode {
    case .keepSize: break
    case .punchHole, .zeroRangeKeepSize: node.zero(from: offset, count: length)
    case .plain, .zeroRange:
      if mode == .zeroRange { node.zero(from: offset, count: length) }
      if node.content.count < offset + length { node.resize(offset + length) }
    }
  }

  private func seek(_ number: Int, _ seek: HoleSeek) throws -> (Outcome) -> String? {
    let node = try slot(number).node
    guard !node.isDirectory else { throw Refusal(EINVAL) }
    let content = node.content
    return { outcome in seek.check(outcome, of: content) }
  }

  private func copy(_ from: Int, _ offset: Int, _ to: Int, _ newOffset: Int, _ count: Int) throws
    -> Expectation
  {
    let source = try slot(from)
    let target = try slot(to)
    guard !source.node.isDirectory, !target.node.isDirectory else { throw Refusal(EISDIR) }
    guard source.flags.contains(.read), target.flags.contains(.write),
      !target.flags.contains(.append)
    else { throw Refusal(EBADF) }
    let bytes = source.node.read(at: offset, count: count)
    if source.node === target.node, newOffset + bytes.count > offset,
      newOffset < offset + bytes.count
    {
      throw Refusal(EINVAL)
    }
    guard !bytes.isEmpty else { return .exactly(.number(0)) }
    target.node.write(bytes, at: newOffset)
    contentChanged(target.node)
    return .exactly(.number(Int64(bytes.count)))
  }
}
