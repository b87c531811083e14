package import Catalog
package import Model

/// Claims and presenters go where their items go.
extension ContainerCoordinator {
  /// Whoever moves something in the catalog is to say so before, and `endMoving` after `noteMove`
  /// or `tell`, whether or not it came to that.
  package func beginMoving() { moves.begin() }
  package func endMoving() { moves.end() }

  /// A program renamed something: what is claimed or presented of it, and below it, goes with it,
  /// and presenters are told. `replaced`: what had the new name; with `isExchange` it has the old
  /// one now.
  ///
  /// A save is no move: what has come onto a name that is claimed or presented is that item from
  /// then on, two documents that change places have been saved, and one that is renamed to a
  /// backup's name is about to be. Source: NSFileCoordinator, of which a claim is on a URL;
  /// NSFilePresenter, presentedItemDidChange.
  package func noteMove(
    of inode: Catalog.Inode, from old: (directory: InodeNumber, name: ItemName),
    to new: (directory: InodeNumber, name: ItemName), replaced: Catalog.Inode?, isExchange: Bool
  ) {
    guard !claims.isEmpty, old.directory != new.directory || old.name != new.name else { return }
    guard let from = newsPlace(old.name, in: old.directory),
      let to = newsPlace(new.name, in: new.directory)
    else { return }
    let speakers = speakers(at: [from.path, to.path])
    let isSave =
      if isExchange {
        isDocument(inode, new.name) && replaced.map { isDocument($0, old.name) } ?? false
      } else {
        inode.kind != .directory && old.directory == new.directory
          && Self.isBackup(new.name, of: old.name)
      }
    var moves: [ItemMove] = []
    if !isSave, !from.isInside, !to.isInside {
      moves = [ItemMove(from: from.place, to: to.path)]
      if isExchange { moves.append(ItemMove(from: to.place, to: from.path)) }
    }
    let following = moves.isEmpty ? [] : claims.moved(moves)
    guard claims.isPresenting else { return }
    let isReplacing = replaced != nil
    later(1, speakers) { coordinator, tell in
      guard let from = coordinator.newsPlace(old.name, in: old.directory),
        let to = coordinator.newsPlace(new.name, in: new.directory)
      else { return }
      if isExchange, isSave {
        return tell { queue in queue.news(.changed, at: from) + queue.news(.changed, at: to) }
      }
      guard let names = coordinator.names(of: old) else { return }
      let back = isExchange ? coordinator.names(of: new) : nil
      tell { queue in
        // Whose item it is follows; the others of an exchange are told with the second half.
        let (here, others) = Self.split(following, queue, to.path)
        var news = queue.newsOfMove(
          from: from, named: names, to: to, isReplacing: isReplacing && !isExchange,
          following: isExchange ? here : following)
        if let back {
          news += queue.newsOfMove(
            from: to, named: back, to: from, isReplacing: false, following: others)
        }
        return news
      }
    }
  }

  private static func split(
    _ presenters: [PresenterID], _ queue: ClaimQueue, _ path: ClaimPath
  ) -> (at: [PresenterID], elsewhere: [PresenterID]) {
    let at = presenters.filter { queue.presenters[$0].map { path.covers($0.path) } ?? false }
    return (at, presenters.filter { !at.contains($0) })
  }

  private func names(of entry: (directory: InodeNumber, name: ItemName)) -> [ItemName]? {
    ((try? catalog.path(of: entry.directory)) ?? nil).map { $0 + [entry.name] }
  }

  private func isDocument(_ inode: Catalog.Inode, _ name: ItemName) -> Bool {
    switch inode.kind {
    case .directory: inode.isPackage || packages.contains(name)
    default: true
    }
  }

  /// Whether programs that save rename what was there to this first.
  static func isBackup(_ new: ItemName, of old: ItemName) -> Bool {
    guard new.bytes.starts(with: old.bytes) else { return false }
    let rest = new.bytes.dropFirst(old.bytes.count)
    return rest.last == 0x7E || [".bak", ".orig"].contains { rest.elementsEqual($0.utf8) }
  }

  // MARK: Other devices

  /// What other devices did was applied: claims and presenters go along, and presenters are told.
  func noteRemote(_ changes: [ItemChange]) {
    guard !claims.isEmpty else { return }
    var sources: [Place: ItemChange] = [:]
    for change in changes {
      guard case .moved(let parent, let name) = change.what else { continue }
      sources[Place(top.container, parent, name)] = change
    }
    var moves: [ItemMove] = []
    if !sources.isEmpty {
      for place in claims.concerned(Array(sources.keys)) {
        guard let change = sources[place], let to = newsPlace(change.name, in: change.parent),
          !to.isInside
        else { continue }
        moves.append(ItemMove(from: place, to: to.path))
      }
    }
    let following = moves.isEmpty ? [] : claims.moved(moves)
    guard claims.isPresenting else { return }
    later(changes.count, []) { coordinator, tell in
      coordinator.present(changes, following, tell)
    }
  }
}
