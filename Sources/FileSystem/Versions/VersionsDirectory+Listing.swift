internal import Catalog
internal import Model
package import SystemPackage

/// Listing: a mirror of a directory has the directories in it and the files in it that have
/// conflict versions; that of a file, or of a package, has the versions.
extension VersionsDirectory {
  /// Up to about `limit` names from `offset`, 0 being the start; empty at the end alone.
  package func list(_ node: VersionNode, from offset: UInt64, limit: Int) throws(Errno)
    -> [VersionName]
  {
    switch node {
    case .hidden:
      let root = VersionNode.mirror(.root).number
      return [
        VersionName(name: [0x2E], node: node.number, isDirectory: true, offset: 1),
        VersionName(name: [0x2E, 0x2E], node: 1, isDirectory: true, offset: 2),
        VersionName(name: Self.versionsName, node: root, isDirectory: true, offset: 3),
      ].filter { $0.offset > offset }
    case .mirror(let number):
      let inode = try shown(number)
      var result: [VersionName] = []
      if offset < Self.firstVersion {
        if inode.kind == .directory {
          result = try children(of: number, from: offset, limit: limit)
        } else {
          result = dots(of: node, from: offset)
        }
      }
      if result.count < limit { result += try versions(of: inode, from: offset) }
      return result
    case .version:
      throw Errno.notDirectory
    }
  }

  /// Versions come after all that the catalog lists. Offsets are signed for the kernel.
  private static var firstVersion: UInt64 { 1 << 62 }

  private func dots(of node: VersionNode, from offset: UInt64) -> [VersionName] {
    // Nobody needs the number of what is above: the kernel knows it itself.
    [([0x2E], UInt64(1)), ([0x2E, 0x2E], 2)].filter { $0.1 > offset }.map { name, next in
      VersionName(name: name, node: node.number, isDirectory: true, offset: next)
    }
  }

  private func children(of number: InodeNumber, from offset: UInt64, limit: Int) throws(Errno)
    -> [VersionName]
  {
    // Conflicts are few: their files are found from them, not by looking at all files.
    var conflicted: Set<InodeNumber> = []
    for item in try catalog.conflictedItems() {
      if let file = try catalog.inodeNumber(of: item) { conflicted.insert(file) }
    }
    var result: [VersionName] = []
    var position = offset
    while result.count < limit {
      let page = try fileSystem.listNames(number, from: position, limit: limit)
      guard let last = page.last else { break }
      position = last.offset
      for entry in page where entry.kind == .directory || conflicted.contains(entry.number) {
        result.append(
          VersionName(
            name: entry.name, node: VersionNode.mirror(entry.number).number, isDirectory: true,
            offset: entry.offset))
      }
    }
    return result
  }

  private func versions(of inode: Inode, from offset: UInt64) throws(Errno) -> [VersionName] {
    try versions(of: inode).enumerated().map { index, version in
      let number = VersionNode.preferred(version.id, of: inode.number)
      return VersionName(
        name: Array(version.id.description.utf8), node: VersionNode.version(number).number,
        isDirectory: false, offset: Self.firstVersion + UInt64(index) + 1)
    }.filter { $0.offset > offset }
  }
}
