internal import Catalog
internal import ContentStore
internal import ControlProtocol
internal import Glibc
internal import Model
internal import Platform
internal import SystemPackage

/// Copies the local part of a catalog's tree into a directory: names, content, links, modes, times
/// and attributes.
///
/// It may be the last copy of the data, so a failure is noted and the rest is copied. The walk is
/// no recursion and names one item at a time: a tree may be deeper than the kernel's paths or the
/// stack.
struct TreeExport {
  /// A directory on the way from the top to where the walk is.
  private struct Level {
    let inode: Catalog.Inode
    /// The top has none.
    let name: ItemName?
    let identity: OpenDirectory.Identity
    var page: ArraySlice<DirectoryEntry> = []
    var offset: Int64 = 0
  }

  let catalog: ContainerCatalog
  let content: ContentFiles
  /// Goes on after an earlier run, and replaces none of its files.
  let continues: Bool
  private let top: OpenDirectory
  private(set) var result: RestoredSetAside
  private var levels: [Level] = []
  /// A damaged catalog can have a directory twice, or within itself.
  private var entered: Set<InodeNumber> = []
  /// The first name of files that have several.
  private var linked: [InodeNumber: [ItemName]] = [:]
  private var lists = ListBudget()

  init(
    catalog: ContainerCatalog, content: ContentFiles, to directory: String, continues: Bool
  ) throws(Errno) {
    self.catalog = catalog
    self.content = content
    self.continues = continues
    top = try OpenDirectory(path: directory)
    result = RestoredSetAside(directory: PathBytes(directory))
  }

  /// Throws when it cannot go on: the directory was taken away.
  mutating func run() throws(Errno) {
    var here = top
    levels = [Level(inode: try catalog.inode(.root), name: nil, identity: top.identity)]
    while let level = levels.last {
      if let entry = nextEntry() {
        if let below = copy(entry, in: here) {
          levels.append(Level(inode: entry.inode, name: entry.name, identity: below.identity))
          here = below
        }
        continue
      }
      levels.removeLast()
      guard let name = level.name, let above = levels.last else { return }
      if let next = try here.above(above.identity) {
        here = next
      } else {
        here = try reach(levels.compactMap(\.name))
      }
      let directory = here
      attempt(name) { export throws(RestoreObstacle) in
        try export.copyAttributes(of: level.inode, to: name, in: directory)
      }
    }
  }

  private mutating func nextEntry() -> DirectoryEntry? {
    let last = levels.count - 1
    if levels[last].page.isEmpty {
      do throws(Errno) {
        levels[last].page =
          try catalog.readDirectory(
            levels[last].inode.number, after: levels[last].offset, limit: 256)[...]
      } catch {
        fail(nil, "cannot read its entries from the catalog: \(error)")
        return nil
      }
    }
    guard let entry = levels[last].page.popFirst() else { return nil }
    levels[last].offset = entry.offset
    return entry
  }

  /// From the top, a name at a time.
  private func reach(_ names: [ItemName]) throws(Errno) -> OpenDirectory {
    var result = top
    for name in names { result = try result.directory(name) }
    return result
  }

  /// Gives the directory, if it is one, to copy its items into.
  private mutating func copy(_ entry: DirectoryEntry, in here: OpenDirectory) -> OpenDirectory? {
    let (inode, name) = (entry.inode, entry.name)
    var below: OpenDirectory?
    attempt(name) { export throws(RestoreObstacle) in
      switch inode.kind {
      case .directory: below = try export.makeDirectory(inode, name, in: here)
      case .symbolicLink: try export.copyLink(inode, name, in: here)
      case .file: try export.copyFile(inode, name, in: here)
      // A FIFO, socket or device: it holds nothing.
      default: break
      }
    }
    return below
  }

  private mutating func makeDirectory(
    _ inode: Catalog.Inode, _ name: ItemName, in here: OpenDirectory
  ) throws(RestoreObstacle) -> OpenDirectory {
    guard entered.insert(inode.number).inserted else {
      throw RestoreObstacle(text: "the catalog has this directory in another place too")
    }
    return try RestoreObstacle.doing("cannot be created") { () throws(Errno) in
      if continues, let found = try here.status(name) {
        guard found.st_mode & S_IFMT == S_IFDIR else { throw .fileExists }
        // An earlier run may have set a mode that lets nobody write.
        try? here.setMode(0o700, of: name)
      } else {
        try here.makeDirectory(name)
      }
      return try here.directory(name)
    }
  }

  private mutating func copyLink(
    _ inode: Catalog.Inode, _ name: ItemName, in here: OpenDirectory
  ) throws(RestoreObstacle) {
    if try keeps(name, in: here) != nil { return }
    try RestoreObstacle.doing("cannot be created") { () throws(Errno) in
      try here.makeLink(name, to: inode.target)
    }
    try copyAttributes(of: inode, to: name, in: here)
  }

  private mutating func copyFile(
    _ inode: Catalog.Inode, _ name: ItemName, in here: OpenDirectory
  ) throws(RestoreObstacle) {
    if let there = try keeps(name, in: here) {
      // Further names link to the restored file, not to another one that has its name.
      if inode.linkCount > 1, Self.isCopy(there, of: inode) { noteName(of: inode, name) }
      return
    }
    if let first = linked[inode.number], let last = first.last,
      let other = try? reach(first.dropLast()), (try? here.link(name, to: last, in: other)) != nil
    {
      return
    }
    guard inode.content == .local else {
      if let path = lists.placeholder(path(of: name)) {
        result.placeholders.append(path)
      } else {
        result.unlisted += 1
      }
      return
    }
    let problem = try FileExport(content: content, inode: inode).write(name, in: here) {
      copy throws(RestoreObstacle) in
      try copyAttributes(of: inode, to: copy, in: here)
    }
    result.files += 1
    result.bytes &+= inode.size
    if inode.linkCount > 1 { noteName(of: inode, name) }
    if let problem { throw problem }
  }

  private mutating func noteName(of inode: Catalog.Inode, _ name: ItemName) {
    if linked[inode.number] == nil {
      linked[inode.number] = levels.compactMap(\.name) + [name]
    }
  }

  /// The status of an item that has the name already and stays. Nil: there is none, or this is the
  /// first run, which finds out when it makes the item.
  private mutating func keeps(_ name: ItemName, in here: OpenDirectory) throws(RestoreObstacle)
    -> stat?
  {
    guard continues else { return nil }
    let found = try RestoreObstacle.doing("cannot be read") { () throws(Errno) in
      try here.status(name)
    }
    if found != nil { result.kept += 1 }
    return found
  }

  private static func isCopy(_ there: stat, of inode: Catalog.Inode) -> Bool {
    let modified = inode.modified.timespec
    return there.st_mode & S_IFMT == S_IFREG && there.st_size == off_t(clamping: inode.size)
      && there.st_mtim.tv_sec == modified.tv_sec && there.st_mtim.tv_nsec == modified.tv_nsec
  }

  private func copyAttributes(
    of inode: Catalog.Inode, to name: ItemName, in here: OpenDirectory
  ) throws(RestoreObstacle) {
    try RestoreObstacle.doing("was copied, but not all of its attributes, mode and times") {
      () throws(Errno) in
      for attribute in try catalog.attributeNames(of: inode.number) {
        let value = try catalog.attribute(attribute, of: inode.number)
        // A file system without such attributes takes the files without them.
        try? here.setAttribute(attribute, value, of: name)
      }
      if inode.kind != .symbolicLink { try here.setMode(inode.mode & 0o777, of: name) }
      try here.setTimes([inode.accessed, inode.modified].map(\.timespec), of: name)
    }
  }

  // MARK: Failures

  private mutating func attempt(
    _ name: ItemName, _ body: (inout TreeExport) throws(RestoreObstacle) -> Void
  ) {
    do throws(RestoreObstacle) { try body(&self) } catch { fail(name, error.text) }
  }

  /// Nil: the directory where the walk is.
  private mutating func fail(_ name: ItemName?, _ reason: String) {
    result.failed += 1
    if let failure = lists.failure(path(of: name), reason) { result.failures.append(failure) }
  }

  private func path(of name: ItemName?) -> [UInt8] {
    let names = levels.compactMap(\.name) + [name].compactMap(\.self)
    return names.isEmpty ? [0x2E] : Array(names.map(\.bytes).joined(separator: [0x2F]))
  }
}
