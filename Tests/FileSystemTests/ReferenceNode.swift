import OperationSequences

/// An inode of the reference.
final class ReferenceNode {
  /// When a time was last set.
  enum Time: Equatable {
    case known(Int64)
    /// By the last step: the real one has to lie within it, and is known from then on.
    case justNow
    /// The last step was free to set it or not.
    case perhapsNow(Int64)
  }

  let kind: NodeKind
  var mode: UInt16
  var user: UInt32
  var group: UInt32
  var device: UInt64 = 0
  var links: UInt64
  var content: [UInt8] = []
  var target: [UInt8] = []
  var attributes: [String: [UInt8]] = [:]
  var children: [Name: ReferenceNode] = [:]
  /// Of a directory that has a name.
  weak var parent: ReferenceNode?
  /// By which the real file system knows it; found by the name that it was made under.
  var number: UInt64?
  var madeAs: (parent: ReferenceNode, name: Name)?
  var accessed = Time.justNow
  var modified = Time.justNow
  var changed = Time.justNow
  /// Slots that have it open.
  var openings = 0
  /// The step that changed what a close of it has to find committed.
  var lastNoted = 0

  init(_ kind: NodeKind, mode: UInt16, user: UInt32, group: UInt32) {
    self.kind = kind
    self.mode = mode
    self.user = user
    self.group = group
    links = kind == .directory ? 2 : 1
  }

  var isDirectory: Bool { kind == .directory }

  var size: UInt64 {
    switch kind {
    case .file: UInt64(content.count)
    case .directory: 4096
    case .symbolicLink: UInt64(target.count)
    default: 0
    }
  }

  /// Whether `other` is this directory or in it, at whatever depth.
  func contains(_ other: ReferenceNode) -> Bool {
    var current: ReferenceNode? = other
    while let node = current {
      if node === self { return true }
      current = node.parent
    }
    return false
  }

  // MARK: Contents

  func write(_ bytes: [UInt8], at offset: Int) {
    if content.count < offset + bytes.count { resize(offset + bytes.count) }
    content.replaceSubrange(offset..<(offset + bytes.count), with: bytes)
  }

  func resize(_ size: Int) {
    if size < content.count {
      content.removeLast(content.count - size)
    } else {
      content.append(contentsOf: [UInt8](repeating: 0, count: size - content.count))
    }
  }

  func read(at offset: Int, count: Int) -> [UInt8] {
    guard offset < content.count else { return [] }
    return Array(content[offset..<min(content.count, offset + count)])
  }

  func zero(from offset: Int, count: Int) {
    guard offset < content.count else { return }
    let range = offset..<min(content.count, offset + count)
    content.replaceSubrange(range, with: [UInt8](repeating: 0, count: range.count))
  }

  // MARK: Attributes

  /// Source: inode(7). A write by one who may not keep them, and any change of owner, takes the
  /// set-user-ID bit, and the set-group-ID bit where the group may execute or it is not theirs.
  func dropPrivileges(by user: User) {
    mode &= ~0o4000
    if mode & 0o010 != 0 || user != .root && user.rawValue != group { mode &= ~0o2000 }
  }

  func contentChanged() {
    modified = .justNow
    changed = .justNow
  }

  /// What `status` tells of this node that is wrong; takes over the times that are not known yet.
  func check(_ status: ItemStatus, within window: ClosedRange<Int64>) -> [String] {
    var problems: [String] = []
    func same<Value: Equatable>(_ what: String, _ actual: Value, _ expected: Value) {
      if actual != expected { problems.append("\(what) is \(actual), not \(expected)") }
    }
    if let number { same("number", status.number, number) }
    number = status.number
    same("kind", status.kind, kind)
    same("mode", String(status.mode, radix: 8), String(mode, radix: 8))
    same("links", status.links, links)
    same("user", status.user, user)
    same("group", status.group, group)
    same("size", status.size, size)
    same("device", status.device, device)
    func time(_ what: String, _ actual: Int64, _ expected: inout Time) {
      switch expected {
      case .known(let known):
        same(what, actual, known)
      case .perhapsNow(let known) where actual == known:
        break
      case .justNow, .perhapsNow:
        if !window.contains(actual) {
          problems.append("\(what) is \(actual), not within the step, \(window)")
        }
      }
      expected = .known(actual)
    }
    time("access time", status.accessed, &accessed)
    time("modification time", status.modified, &modified)
    time("change time", status.changed, &changed)
    return problems
  }
}

extension ReferenceNode.Time {
  /// What a step leaves that may or may not set it.
  var perhaps: Self {
    if case .known(let time) = self { .perhapsNow(time) } else { self }
  }
}
