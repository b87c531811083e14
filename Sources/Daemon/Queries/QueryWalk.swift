internal import Catalog
internal import Coordination
internal import Model
internal import SystemPackage

/// Looks at the items of one container for a query: those that the scopes take in, a package as
/// one.
final class QueryWalk {
  private struct Directory {
    let number: InodeNumber
    let isPinned: Bool
    /// It is one, or is in one: what is in it is no result.
    let isPackage: Bool
  }

  private enum Found {
    case directory(Directory)
    case absent
  }

  let container: MountedContainer
  private let scope: QuerySelection
  private let coordinator: ContainerCoordinator
  private let catalog: ContainerCatalog
  /// Directories that were looked up.
  private var directories: [QueryPlace: Found] = [:]

  init(_ container: MountedContainer, _ scope: QuerySelection) {
    self.container = container
    self.scope = scope
    coordinator = container.session.coordinator
    catalog = container.session.catalog
  }

  // MARK: One place

  /// What is at a place, if it is a possible result.
  func candidate(at place: QueryPlace) throws(Errno) -> QueryCandidate? {
    try candidateOrPackage(at: place).candidate
  }

  /// The same, of how its directories are now.
  func lookAgain(at place: QueryPlace) throws(Errno) -> QueryCandidate? {
    directories = [:]
    return try candidate(at: place)
  }

  /// As above; of what is in a package, where that is.
  func candidateOrPackage(
    at place: QueryPlace
  ) throws(Errno) -> (candidate: QueryCandidate?, package: QueryPlace?) {
    guard !place.isEmpty, let name = Self.name(of: place) else { return (nil, nil) }
    let parent = place.parent
    guard case .directory(let directory) = try directory(at: parent) else {
      // Gone with its directory, which may have been in a package.
      return (nil, parent.isEmpty ? nil : try candidateOrPackage(at: parent).package)
    }
    guard !directory.isPackage else { return (nil, try outermostPackage(at: parent)) }
    guard scope.takesIn(place, of: container.session.id),
      let inode = try catalog.lookup(name, in: directory.number)
    else { return (nil, nil) }
    return (candidate(inode, name, place, in: directory), nil)
  }

  private func candidate(
    _ inode: Catalog.Inode, _ name: ItemName, _ place: QueryPlace, in directory: Directory
  ) -> QueryCandidate? {
    let isPackage = isPackage(inode, name)
    guard
      scope.takesIn(
        place, of: container.session.id, isDirectory: inode.kind == .directory && !isPackage)
    else { return nil }
    return QueryCandidate(
      container: container, place: place, name: name, inode: inode, isPackage: isPackage,
      isPinned: directory.isPinned || inode.isPinned)
  }

  private func isPackage(_ inode: Catalog.Inode, _ name: ItemName) -> Bool {
    inode.kind == .directory && inode.item != .documents
      && (inode.isPackage || coordinator.packages.contains(name))
  }

  private static func name(of place: QueryPlace) -> ItemName? {
    let start = place.lastIndex(of: 0x2F).map { $0 + 1 } ?? 0
    return try? ItemName(Array(place[start...]))
  }

  private func directory(at place: QueryPlace) throws(Errno) -> Found {
    if let known = directories[place] { return known }
    let found = try lookUp(place)
    directories[place] = found
    return found
  }

  private func lookUp(_ place: QueryPlace) throws(Errno) -> Found {
    guard !place.isEmpty else {
      let root = try catalog.inode(.root)
      return .directory(Directory(number: .root, isPinned: root.isPinned, isPackage: false))
    }
    guard let name = Self.name(of: place),
      case .directory(let above) = try directory(at: place.parent),
      let inode = try catalog.lookup(name, in: above.number), inode.kind == .directory
    else { return .absent }
    return .directory(below(above, inode, name))
  }

  private func below(_ above: Directory, _ inode: Catalog.Inode, _ name: ItemName) -> Directory {
    Directory(
      number: inode.number, isPinned: above.isPinned || inode.isPinned,
      isPackage: above.isPackage || isPackage(inode, name))
  }

  private func outermostPackage(at place: QueryPlace) throws(Errno) -> QueryPlace {
    var outermost = place
    while true {
      guard case .directory(let above) = try directory(at: outermost.parent), above.isPackage else {
        return outermost
      }
      outermost = outermost.parent
    }
  }

  /// Whether something is there that is no directory.
  func isLeaf(_ place: QueryPlace) throws(Errno) -> Bool {
    guard let name = Self.name(of: place),
      case .directory(let above) = try directory(at: place.parent),
      let inode = try catalog.lookup(name, in: above.number)
    else { return false }
    return inode.kind != .directory
  }

  // MARK: A tree

  /// Every possible result at and below a place, those of a directory before what is in it. The
  /// catalog is asked a page at a time. A directory that is gone meanwhile is left out.
  func visit(_ top: QueryPlace, _ body: (QueryCandidate) throws -> Void) throws {
    if let candidate = try candidate(at: top) { try body(candidate) }
    guard case .directory(let directory) = try directory(at: top), !directory.isPackage else {
      return
    }
    var pending = [(directory, top)]
    while let (directory, place) = pending.popLast() {
      guard scope.mayTakeInBelow(place, of: container.session.id) else { continue }
      var offset: Int64 = 0
      while true {
        let page = try page(of: directory.number, after: offset)
        guard let last = page.last else { break }
        for entry in page {
          let below = place.isEmpty ? entry.name.bytes : place + [0x2F] + entry.name.bytes
          guard below.count <= QuerySelection.longestPath else { continue }
          if scope.takesIn(below, of: container.session.id),
            let candidate = candidate(entry.inode, entry.name, below, in: directory)
          {
            try body(candidate)
          }
          if entry.inode.kind == .directory {
            let next = self.below(directory, entry.inode, entry.name)
            if !next.isPackage { pending.append((next, below)) }
          }
        }
        offset = last.offset
      }
    }
  }

  private func page(of directory: InodeNumber, after offset: Int64) throws(Errno)
    -> [DirectoryEntry]
  {
    do throws(Errno) {
      return try catalog.readDirectory(directory, after: offset, limit: 256)
    } catch {
      guard error == .noSuchFileOrDirectory || error == .notDirectory else { throw error }
      return []
    }
  }
}
