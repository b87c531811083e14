import Glibc
import OperationSequences

extension ReferenceFileSystem {
  func performOnAttributes(_ operation: Operation) throws -> Expectation {
    switch operation {
    case .changeMode(let path, let mode):
      let node = try find(path)
      guard node.kind != .symbolicLink else { throw Refusal(EOPNOTSUPP) }
      node.mode = mode
      attributesChanged(node)
    case .changeOwner(let path, let user, let group):
      let node = try find(path)
      let before = node.mode
      if !node.isDirectory { node.dropPrivileges(by: self.user) }
      // Of a file that someone writes to it is taken for what precedes a write.
      let isWritten = slots.values.contains { $0.node === node && $0.flags.contains(.write) }
      let isOwner = self.user == .root || self.user.rawValue == node.user
      if user == nil, group == nil, node.mode != before, !isOwner, !isWritten {
        node.mode = before
        throw Refusal(EPERM)
      }
      if let user { node.user = user }
      if let group { node.group = group }
      attributesChanged(node)
    case .changeTimes(let path, let accessed, let modified):
      let node = try find(path)
      guard accessed != .omit || modified != .omit else { break }
      set(&node.accessed, accessed)
      set(&node.modified, modified)
      attributesChanged(node)
    case .setAttribute(let path, let name, let value, let flag):
      let node = try find(path)
      try checkAttribute(name, of: node, isRead: false)
      if flag == .create, node.attributes[name] != nil { throw Refusal(EEXIST) }
      if flag == .replace, node.attributes[name] == nil { throw Refusal(ENODATA) }
      // As on ext4, where others set the change time.
      if node.attributes[name] == value.bytes { break }
      node.attributes[name] = value.bytes
      attributesChanged(node)
    case .removeAttribute(let path, let name):
      let node = try find(path)
      try checkAttribute(name, of: node, isRead: false)
      guard node.attributes.removeValue(forKey: name) != nil else { throw Refusal(ENODATA) }
      attributesChanged(node)
    default:
      return try answer(operation)
    }
    return .exactly(.done)
  }

  private func attributesChanged(_ node: ReferenceNode) {
    node.changed = .justNow
    touch(node)
    note(node)
  }

  private func set(_ time: inout ReferenceNode.Time, _ change: TimeChange) {
    switch change {
    case .omit: break
    case .now: time = .justNow
    case .at(let nanoseconds): time = .known(nanoseconds)
    }
  }

  /// Source: xattr(7).
  private func checkAttribute(_ name: String, of node: ReferenceNode, isRead: Bool) throws {
    // The kernel refuses those of other kinds before it comes to the name.
    if name == "user." { throw Refusal(EINVAL) }
    if name.hasPrefix("user."), node.kind != .file, node.kind != .directory {
      throw Refusal(isRead ? ENODATA : EPERM)
    }
    let isKnown = ["user.", "security.", "trusted."].contains { name.hasPrefix($0) }
    guard isKnown else { throw Refusal(EOPNOTSUPP) }
  }

  // MARK: Questions

  private func answer(_ operation: Operation) throws -> Expectation {
    switch operation {
    case .getAttribute(let path, let name):
      let node = try find(path)
      try checkAttribute(name, of: node, isRead: true)
      guard let value = node.attributes[name] else { throw Refusal(ENODATA) }
      return .exactly(.bytes(value))
    case .listAttributes(let path):
      let names = try find(path).attributes.keys.filter {
        user == .root || !$0.hasPrefix("trusted.")
      }
      return .exactly(.names(names.map { Name($0) }.sorted()))
    case .status(let path):
      return .when(try checkStatus(find(path)))
    case .statusOpen(let number):
      return .when(checkStatus(try slot(number).node))
    case .fileSystemStatus(let path):
      _ = try find(path)
      return .exactly(.done)
    case .readLink(let path):
      let node = try find(path)
      guard node.kind == .symbolicLink else { throw Refusal(EINVAL) }
      return .exactly(.bytes(node.target))
    case .list(let path):
      let node = try find(path)
      guard node.isDirectory else { throw Refusal(ENOTDIR) }
      guard node.links > 0 else { throw Refusal(ENOENT) }
      return .exactly(.names((node.children.keys + [Name("."), Name("..")]).sorted()))
    case .listSome(let number, let count):
      let node = try slot(number).node
      guard node.isDirectory else { throw Refusal(ENOTDIR) }
      guard node.links > 0 else { throw Refusal(ENOENT) }
      return .when { [self] outcome in
        guard case .names(let names) = outcome else { return "gave \(outcome)" }
        return slots[number]?.listing.check(names, isEnd: names.count < count)
      }
    case .seekListing(let number, let quarters):
      let node = try slot(number).node
      guard node.isDirectory else { throw Refusal(ENOTDIR) }
      slots[number]?.listing.seek(quarters: quarters, names: node.children.keys)
      return .exactly(.done)
    default:
      return .when { _ in "the reference does not know \(operation)" }
    }
  }

  private func checkStatus(_ node: ReferenceNode) -> (Outcome) -> String? {
    { outcome in
      guard case .status(let status) = outcome else { return "gave \(outcome)" }
      let problems = node.check(status, within: 1...0x7FFF_FFFF_FFFF_FFFF)
      return problems.isEmpty ? nil : problems.joined(separator: ", ")
    }
  }
}
