import Catalog
import Model
import SystemPackage
import Testing

/// What a local file system is, as simply as it can be said.
private final class ReferenceTree {
  final class Node {
    let isDirectory: Bool
    var children: [ItemName: Node] = [:]
    var size: UInt64 = 0

    init(isDirectory: Bool) { self.isDirectory = isDirectory }

    func contains(_ other: Node) -> Bool {
      self === other || children.values.contains { $0.isDirectory && $0.contains(other) }
    }
  }

  let root = Node(isDirectory: true)

  func node(_ path: [ItemName]) -> Node? {
    var current = root
    for name in path {
      guard let next = current.children[name] else { return nil }
      current = next
    }
    return current
  }

  func directories(_ node: Node? = nil, _ path: [ItemName] = []) -> [[ItemName]] {
    var result = [path]
    for (name, child) in (node ?? root).children.sorted(by: { $0.key < $1.key })
    where child.isDirectory {
      result += directories(child, path + [name])
    }
    return result
  }

  func links(to node: Node, in start: Node? = nil) -> Int {
    (start ?? root).children.values.reduce(0) { sum, child in
      sum + (child === node ? 1 : 0) + (child.isDirectory ? links(to: node, in: child) : 0)
    }
  }

  func rename(
    _ name: ItemName, _ from: Node, _ newName: ItemName, _ to: Node, _ mode: RenameMode
  ) throws {
    guard let source = from.children[name] else { throw Errno.noSuchFileOrDirectory }
    if source.isDirectory, source.contains(to) { throw Errno.invalidArgument }
    let target = to.children[newName]
    switch mode {
    case .noReplace: if target != nil { throw Errno.fileExists }
    case .exchange:
      guard let target else { throw Errno.noSuchFileOrDirectory }
      if target.isDirectory, target.contains(from) { throw Errno.invalidArgument }
      from.children[name] = target
      to.children[newName] = source
      return
    case .replace:
      if let target, target !== source {
        if target.isDirectory {
          if !source.isDirectory { throw Errno.isDirectory }
          if !target.children.isEmpty { throw Errno.directoryNotEmpty }
        } else if source.isDirectory {
          throw Errno.notDirectory
        }
      }
    }
    if target === source { return }
    from.children[name] = nil
    to.children[newName] = source
  }
}

@Suite struct ModelTests {
  private static let names: [ItemName] = ["a", "b", "c", "d", "e.nosync", "f"]

  @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
  func randomOperationsAgreeWithTheReference(seed: UInt64) throws {
    var generator = SplitMix(state: seed)
    let fixture = try Fixture()
    let reference = ReferenceTree()
    let catalog = fixture.catalog

    func resolve(_ path: [ItemName], _ catalog: ContainerCatalog) throws -> InodeNumber {
      var current = fixture.documents
      for name in path { current = try #require(try catalog.lookup(name, in: current)).number }
      return current
    }

    for step in 0..<1500 {
      let directories = reference.directories()
      let path = directories.randomElement(using: &generator)!
      let otherPath = directories.randomElement(using: &generator)!
      let node = reference.node(path)!
      let other = reference.node(otherPath)!
      let name = Self.names.randomElement(using: &generator)!
      let newName = Self.names.randomElement(using: &generator)!
      let parent = try resolve(path, catalog)
      let newParent = try resolve(otherPath, catalog)
      var expected: Errno?
      var actual: Errno?
      func run(_ reference: () throws -> Void, _ real: () throws -> Void) throws {
        do { try reference() } catch let error as Errno { expected = error }
        do { try real() } catch let error as Errno { actual = error }
      }
      let operation = Int.random(in: 0..<10, using: &generator)
      switch operation {
      case 0, 1, 2:
        let isDirectory = operation == 0
        try run(
          {
            if node.children[name] != nil { throw Errno.fileExists }
            node.children[name] = ReferenceTree.Node(isDirectory: isDirectory)
          },
          {
            if isDirectory {
              try fixture.folder(name, in: parent)
            } else {
              try fixture.file(name, in: parent)
            }
          })
      case 3, 4:
        let isDirectory = operation == 3
        try run(
          {
            guard let child = node.children[name] else { throw Errno.noSuchFileOrDirectory }
            if isDirectory, !child.isDirectory { throw Errno.notDirectory }
            if !isDirectory, child.isDirectory { throw Errno.isDirectory }
            if !child.children.isEmpty { throw Errno.directoryNotEmpty }
            node.children[name] = nil
          },
          {
            let gone = try catalog.remove(name, in: parent, directory: isDirectory)
            if gone.isOrphan, Bool.random(using: &generator) {
              _ = try catalog.reclaim(gone.number)
            }
          })
      case 5, 6, 7:
        let mode = [RenameMode.replace, .replace, .noReplace, .exchange]
          .randomElement(using: &generator)!
        try run(
          { try reference.rename(name, node, newName, other, mode) },
          { _ = try catalog.rename(name, in: parent, to: newName, in: newParent, mode: mode) })
      case 8:
        guard let child = node.children[name] else { continue }
        try run(
          {
            if child.isDirectory { throw Errno.notPermitted }
            if other.children[newName] != nil { throw Errno.fileExists }
            other.children[newName] = child
          },
          {
            let number = try #require(try catalog.lookup(name, in: parent)).number
            _ = try catalog.link(number, as: newName, in: newParent)
          })
      default:
        guard let child = node.children[name], !child.isDirectory else { continue }
        child.size = UInt64.random(in: 0..<1000, using: &generator)
        let number = try #require(try catalog.lookup(name, in: parent)).number
        try fixture.write(number, child.size)
      }
      #expect(actual == expected, "seed \(seed), step \(step), operation \(operation)")
      if step % 200 == 199 { try catalog.commit(durable: false) }
      if step % 500 == 250 { try compare(reference, catalog, fixture.documents, reference.root) }
    }
    try compare(reference, catalog, fixture.documents, reference.root)
    try checkCounts(catalog)
    #expect(try fixture.isSound())
    // The same from the rows alone.
    try fixture.reopen()
    try compare(reference, fixture.catalog, fixture.documents, reference.root)
    #expect(try fixture.catalog.orphans().isEmpty)
    #expect(try fixture.isSound())
    try compareExclusion(fixture.catalog, fixture.documents, isExcluded: false)
  }

  private func compare(
    _ reference: ReferenceTree, _ catalog: ContainerCatalog, _ number: InodeNumber,
    _ node: ReferenceTree.Node
  ) throws {
    let entries = try catalog.readDirectory(number, after: 0, limit: 1000)
    #expect(entries.map(\.name).sorted() == node.children.keys.sorted())
    let names = try catalog.readNames(number, after: 0, limit: 1000)
    #expect(names.map(\.name) == entries.map(\.name))
    #expect(names.map(\.offset) == entries.map(\.offset))
    #expect(names.map(\.number) == entries.map(\.inode.number))
    #expect(names.map(\.kind) == entries.map(\.inode.kind))
    let directories = node.children.values.filter(\.isDirectory).count
    #expect(try catalog.inode(number).linkCount == UInt32(2 + directories))
    for entry in entries {
      guard let child = node.children[entry.name] else { continue }
      #expect((entry.inode.kind == .directory) == child.isDirectory)
      if child.isDirectory {
        try compare(reference, catalog, entry.inode.number, child)
      } else {
        #expect(entry.inode.size == child.size)
        #expect(entry.inode.linkCount == UInt32(reference.links(to: child)))
      }
    }
  }

  private func compareExclusion(
    _ catalog: ContainerCatalog, _ number: InodeNumber, isExcluded: Bool
  ) throws {
    for entry in try catalog.readDirectory(number, after: 0, limit: 1000) {
      let below = isExcluded || entry.name.isExcludedFromSync
      if entry.inode.linkCount == 1 || entry.inode.kind == .directory {
        #expect(entry.inode.isExcluded == below)
        // What syncs is dirty, for nothing was ever put into the log; what does not is not.
        #expect((try catalog.dirtyStamp(entry.inode.item) != nil) == !below)
      }
      if entry.inode.kind == .directory {
        try compareExclusion(catalog, entry.inode.number, isExcluded: below)
      }
    }
  }

  private func checkCounts(_ catalog: ContainerCatalog) throws {
    var counted = CatalogCounts()
    try catalog.forEachInode { inode in
      guard !inode.isOrphan, inode.number != .root else { return }
      counted.items += 1
      counted.totalBytes += inode.size
      counted.localBytes += inode.size
    }
    #expect(try catalog.counts() == counted)
  }
}
