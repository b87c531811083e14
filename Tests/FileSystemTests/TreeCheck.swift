import Catalog
import FileSystem
import OperationSequences
import SystemPackage

/// An item as a kill leaves it: all but contents, sizes and times.
struct TreeEntry: Hashable {
  let number: UInt64
  let kind: NodeKind
  let mode: UInt16
  let user: UInt32
  let group: UInt32
  let links: UInt64
  let device: UInt64
  let target: [UInt8]
  let attributes: [String: [UInt8]]

  init(_ node: ReferenceNode) {
    number = node.number ?? 0
    kind = node.kind
    mode = node.mode
    user = node.user
    group = node.group
    links = node.links
    device = node.device
    target = node.target
    attributes = node.attributes
  }
}

/// Whole trees, compared.
struct TreeCheck {
  private let driver: ModelDriver

  init(_ driver: ModelDriver) { self.driver = driver }

  /// Every item as `reference` has it, contents and times too; nil when it is so.
  func compare(_ reference: ReferenceFileSystem) throws -> String? {
    var seen: Set<UInt64> = []
    do {
      return try compare(InodeNumber(reference.root.number ?? 0), reference.root, "", &seen)
    } catch let error as Errno {
      return "\(error) while the tree is read"
    }
  }

  private func compare(
    _ number: InodeNumber, _ node: ReferenceNode, _ path: String, _ seen: inout Set<UInt64>
  ) throws -> String? {
    guard seen.insert(number.rawValue).inserted else { return nil }
    let problems = node.check(try driver.status(number), within: 0...0)
    if let first = problems.first { return "\(path)/: \(first)" }
    let names = try driver.attributeNames(number)
    guard names == node.attributes.keys.map({ Name($0) }).sorted() else {
      return "\(path)/ has attributes \(names)"
    }
    for (name, value) in node.attributes {
      guard try driver.system.attribute(Array(name.utf8), of: number) == value else {
        return "\(path)/: attribute \(name) has another value"
      }
    }
    switch node.kind {
    case .file:
      let bytes = try contents(number)
      guard bytes == node.content else {
        return "\(path) is \(Outcome.brief(bytes)), not \(Outcome.brief(node.content))"
      }
    case .symbolicLink:
      guard try driver.system.readLink(number) == node.target else { return "\(path): target" }
    case .directory:
      return try compareEntries(number, node, path, &seen)
    default:
      break
    }
    return nil
  }

  private func compareEntries(
    _ number: InodeNumber, _ node: ReferenceNode, _ path: String, _ seen: inout Set<UInt64>
  ) throws -> String? {
    let entries = try driver.list(number)
    guard entries.count >= 2, entries[0].name == Name("."), entries[0].number == number,
      entries[1].name == Name("..")
    else { return "\(path)/ does not begin with . and .." }
    guard entries.dropFirst(2).map(\.name).sorted() == node.children.keys.sorted() else {
      return "\(path)/ has \(entries.map(\.name)), not \(node.children.keys.sorted())"
    }
    for (name, child) in entries.dropFirst(2) {
      guard let expected = node.children[name] else { continue }
      guard child.rawValue == expected.number else { return "\(path)/\(name) is another item" }
      guard try driver.lookup(name, in: number)?.inode.number == child else {
        return "\(path)/\(name) is listed, and not found"
      }
      if expected.isDirectory, try driver.list(child)[1].number != number {
        return "\(path)/\(name)/.. is another directory"
      }
      if let problem = try compare(child, expected, "\(path)/\(name)", &seen) { return problem }
    }
    return nil
  }

  private func contents(_ number: InodeNumber) throws -> [UInt8] {
    let handle = try driver.system.open(number, OpenMode(), caller: driver.caller).handle
    defer { driver.system.release(handle) }
    return try driver.read(handle, 0, 1 << 20)
  }

  // MARK: After a kill

  /// The tree as it is, as nodes.
  func read() throws -> (root: ReferenceNode, entries: [String: TreeEntry]) {
    var nodes: [UInt64: ReferenceNode] = [:]
    let root = try read(driver.root, &nodes)
    return (root, Self.entries(of: ReferenceFileSystem(root: root)))
  }

  private func read(_ number: InodeNumber, _ nodes: inout [UInt64: ReferenceNode]) throws
    -> ReferenceNode
  {
    if let node = nodes[number.rawValue] { return node }
    let status = try driver.status(number)
    let node = ReferenceNode(
      status.kind, mode: status.mode, user: status.user, group: status.group)
    nodes[number.rawValue] = node
    node.links = status.links
    node.device = status.device
    for name in try driver.attributeNames(number) {
      node.attributes[name.description] = try driver.system.attribute(name.bytes, of: number)
    }
    switch status.kind {
    case .file: node.content = try contents(number)
    case .symbolicLink: node.target = try driver.system.readLink(number)
    case .directory:
      for (name, child) in try driver.list(number).dropFirst(2) {
        let below = try read(child, &nodes)
        if below.isDirectory { below.parent = node }
        node.children[name] = below
      }
    default: break
    }
    _ = node.check(status, within: 0...Int64.max)
    return node
  }

  /// Every path of a tree.
  static func entries(of reference: ReferenceFileSystem) -> [String: TreeEntry] {
    var result: [String: TreeEntry] = [:]
    func visit(_ node: ReferenceNode, _ path: String) {
      result[path] = TreeEntry(node)
      for (name, child) in node.children {
        visit(child, path + "/" + name.bytes.map { String($0, radix: 16) }.joined())
      }
    }
    visit(reference.root, "")
    return result
  }

  static func differences(_ found: [String: TreeEntry], _ expected: [String: TreeEntry]) -> String {
    Set(found.keys).union(expected.keys).sorted().compactMap { path in
      let (found, expected) = (found[path], expected[path])
      guard found != expected else { return nil }
      return "\(path): \(found.map { "\($0)" } ?? "nothing"), expected "
        + (expected.map { "\($0)" } ?? "nothing")
    }.joined(separator: "; ")
  }

  /// Files have the bytes that were last written to them, whatever became of their names since.
  func compareContents(_ found: ReferenceNode, _ reference: ReferenceFileSystem) -> String? {
    var problem: String?
    func visit(_ node: ReferenceNode, _ path: String) {
      if node.kind == .file, let known = reference.everMade[node.number ?? 0],
        known.content != node.content
      {
        problem =
          "after a kill \(path) is \(Outcome.brief(node.content)), not "
          + Outcome.brief(known.content)
      }
      for (name, child) in node.children { visit(child, "\(path)/\(name)") }
    }
    visit(found, "")
    return problem
  }
}
