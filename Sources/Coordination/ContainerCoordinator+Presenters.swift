internal import Catalog
package import Model

/// Telling presenters what happens in this container: found out by the feed's thread, so that
/// whoever does something pays no more than saying what it was. Never with the catalog's lock held.
extension ContainerCoordinator {
  typealias Telling = ((ClaimQueue) -> [PresenterNews]) -> Void

  /// Has `body` done in its turn, with what tells presenters that are there now, but for
  /// `speakers`. It reads the catalog and then tells once, and may be done again when something was
  /// moved in between.
  func later(
    _ weight: Int, _ speakers: Set<PresenterID>,
    _ body: @escaping @Sendable (ContainerCoordinator, Telling) -> Void
  ) {
    let newest = claims.newestPresenter
    claims.feed.post(weight, of: top.container) { [weak self] in
      guard let self else { return }
      let isTold = self.moves.between { isStill in
        body(self) { news in
          self.claims.tell(upTo: newest, except: speakers) { isStill() ? news($0) : [] }
        }
      }
      if !isTold { self.presentEverything() }
    } overflow: { [weak self] in
      guard let self else { return }
      self.presentEverything()
    }
  }

  /// More happened than could be kept, or moves did not end: whoever presents something is to look
  /// at it anew.
  private func presentEverything() {
    let top = ClaimPath([top])
    claims.tell(upTo: .max, except: []) { queue in
      let around = queue.presenters(around: top)
      return (around.here + around.below).flatMap { presenter -> [PresenterNews] in
        guard let place = queue.presenters[presenter]?.path.places.last else { return [] }
        return [
          PresenterNews(presenter, .item(.moved)), PresenterNews(presenter, .item(.changed)),
          PresenterNews(presenter, .item(.changedAttributes)),
          PresenterNews(presenter, .subitem(.changed, place)),
        ]
      }
    }
  }

  // MARK: Where

  /// Where a name in a directory is as presenters have it; nil when the directory is gone.
  func newsPlace(_ name: ItemName, in parent: InodeNumber) -> NewsPlace? {
    guard let directory = newsDirectory(parent) else { return nil }
    return directory.child(Place(top.container, parent, name))
  }

  func newsPlace(_ number: InodeNumber) -> NewsPlace? {
    guard number != .root else {
      return NewsPlace(path: ClaimPath([top]), isInside: false, place: top)
    }
    // All of it follows from the path that it had at one moment: it may be moved meanwhile.
    guard let names = (try? catalog.path(of: number)) ?? nil, let name = names.last,
      let item = try? claimed(names), let document = item.path.places.last
    else { return nil }
    guard !item.below.isEmpty else {
      return NewsPlace(path: item.path, isInside: false, place: document)
    }
    var directory = InodeNumber.root
    for name in names.dropLast() {
      guard let next = (try? catalog.lookup(name, in: directory)) ?? nil else { return nil }
      directory = next.number
    }
    return NewsPlace(
      path: item.path, isInside: true, place: Place(top.container, directory, name))
  }

  private struct Directory {
    let path: ClaimPath
    /// A package, or in one.
    let isDocument: Bool

    func child(_ place: Place) -> NewsPlace {
      NewsPlace(
        path: isDocument ? path : ClaimPath(path.places + [place]), isInside: isDocument,
        place: place)
    }
  }

  private func newsDirectory(_ number: InodeNumber) -> Directory? {
    guard let names = (try? catalog.path(of: number)) ?? nil, let item = try? claimed(names),
      let inode = try? catalog.inode(number)
    else { return nil }
    let isPackage =
      inode.item != .root && inode.item != .documents
      && (inode.isPackage || (names.last.map { packages.contains($0) } ?? false))
    return Directory(path: item.path, isDocument: isPackage || !item.below.isEmpty)
  }

  // MARK: Who did it

  /// Those for whom somebody writes there under a claim: they know what changes.
  func speakers(at paths: [ClaimPath]) -> Set<PresenterID> {
    guard claims.isSpeaking else { return [] }
    return paths.reduce(into: []) { $0.formUnion(claims.speakers(at: $1)) }
  }

  private func speakers(of number: InodeNumber) -> Set<PresenterID> {
    guard claims.isSpeaking else { return [] }
    let here = newsPlace(number).map { claims.speakers(at: $0.path) } ?? []
    return here.union(claims.speakers(of: WrittenFile(top.container, number)))
  }

  /// The claim is about to end. What is written under it and is still open counts as its change.
  package func noteEnd(of claim: ClaimID) {
    guard claims.isSpeaking, let speech = claims.speech(claim) else { return }
    for number in writers {
      guard writerCount(number) > 0, let path = (try? claimed(number))?.path,
        speech.paths.contains(where: { $0.covers(path) })
      else { continue }
      claims.outlasts(WrittenFile(top.container, number), speech.presenter)
      // It may have been closed meanwhile.
      if writerCount(number) == 0 { noteSettled(number) }
    }
  }

  func noteSettled(_ number: InodeNumber) {
    guard claims.isSpeaking else { return }
    claims.settled(WrittenFile(top.container, number))
  }

  // MARK: What

  private static func news(_ kind: ItemEvent.Kind) -> ItemNews? {
    switch kind {
    case .created: .appeared(replacing: false)
    case .changed: .changed
    case .attributes: .attributes
    case .removed: .removed
    case .evicted, .downloaded: .ubiquity
    case .moved, .versionGained, .versionsResolved, .overflow, .status, .statusBelow, .container,
      .containerDeleted:
      nil
    }
  }

  func present(_ kind: ItemEvent.Kind, _ name: ItemName, in parent: InodeNumber) {
    guard let news = Self.news(kind) else { return }
    let speakers =
      claims.isSpeaking
      ? self.speakers(at: newsPlace(name, in: parent).map { [$0.path] } ?? []) : []
    later(1, speakers) { coordinator, tell in
      guard let place = coordinator.newsPlace(name, in: parent) else { return }
      tell { $0.news(news, at: place) }
    }
  }

  func present(_ kind: ItemEvent.Kind, _ number: InodeNumber) {
    guard let news = Self.news(kind) else { return }
    later(1, speakers(of: number)) { coordinator, tell in
      guard let place = coordinator.newsPlace(number) else { return }
      tell { $0.news(news, at: place) }
    }
  }

  /// Items have been sent: they are in the backend as they are here.
  package func tellUploaded(_ items: [ItemID]) {
    guard claims.isPresenting, !items.isEmpty else { return }
    later(items.count, []) { coordinator, tell in
      let places = items.compactMap { item in
        ((try? coordinator.catalog.inodeNumber(of: item)) ?? nil)
          .flatMap { coordinator.newsPlace($0) }
      }
      tell { queue in places.flatMap { queue.news(.ubiquity, at: $0) } }
    }
  }

  /// What was resolved may still be there, or be lost too.
  func presentVersions(
    of number: InodeNumber, gained: [VersionID], lost: [VersionID], resolved: [VersionID]
  ) {
    later(1, []) { coordinator, tell in
      guard let place = coordinator.newsPlace(number) else { return }
      tell { queue in
        var result: [PresenterNews] = []
        for id in gained { result += queue.news(.gained(id), at: place) }
        for id in resolved { result += queue.news(.resolved(id), at: place) }
        for id in lost { result += queue.news(.lost(id), at: place) }
        return result + queue.news(.ubiquity, at: place)
      }
    }
  }

  /// A batch of what other devices did. `following`: those whose item moved.
  func present(_ changes: [ItemChange], _ following: [PresenterID], _ tell: Telling) {
    var directories: [InodeNumber: Directory?] = [:]
    func place(_ name: ItemName, _ parent: InodeNumber) -> NewsPlace? {
      let directory = directories[parent] ?? newsDirectory(parent)
      directories[parent] = .some(directory)
      return directory?.child(Place(top.container, parent, name))
    }
    // What has another's name now took its place: that one did not just go.
    var given: Set<Place> = []
    var taken: Set<Place> = []
    for change in changes {
      let place = Place(top.container, change.parent, change.name)
      switch change.what {
      case .removed: given.insert(place)
      case .created, .moved: taken.insert(place)
      case .changed, .attributes: break
      }
    }
    var news: [(ItemNews, NewsPlace)] = []
    var moves: [(from: NewsPlace, names: [ItemName], to: NewsPlace, isReplacing: Bool)] = []
    for change in changes {
      guard let here = place(change.name, change.parent) else { continue }
      let isReplacing = given.contains(here.place)
      switch change.what {
      case .created: news.append((.appeared(replacing: isReplacing), here))
      case .changed: news.append((.changed, here))
      case .attributes: news.append((.attributes, here))
      case .removed:
        if !taken.contains(here.place) { news.append((.removed, here)) }
      case .moved(let parent, let name):
        guard let from = place(name, parent),
          let names = (try? catalog.path(of: parent)) ?? nil
        else { continue }
        moves.append((from, names + [name], here, isReplacing))
      }
    }
    let followers = Set(following)
    tell { queue in
      var result = news.flatMap { queue.news($0.0, at: $0.1) }
      result += following.map { PresenterNews($0, .item(.moved)) }
      for move in moves {
        result += queue.newsOfMove(
          from: move.from, named: move.names, to: move.to, isReplacing: move.isReplacing,
          following: []
        ).filter { news in
          // Those that came along are where it is now, and are not told of a change there.
          !(followers.contains(news.presenter) && news.subject == .item(.changed))
        }
      }
      return result
    }
  }
}
