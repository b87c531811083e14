package import Model

/// What a presenter is told after it has happened.
package struct PresenterNews: Hashable, Sendable {
  package enum Kind: Hashable, Sendable {
    case moved
    case changed
    /// Mode, times, the user's attributes, or what `user.ubiquity.*` tells.
    case changedAttributes
    case gainedVersion(VersionID)
    case lostVersion(VersionID)
    case resolvedVersion(VersionID)
  }

  package enum Subject: Hashable, Sendable {
    /// What is presented, wherever it is when that is told.
    case item(Kind)
    /// Something below it.
    case subitem(SubitemKind, Place)
  }

  package enum SubitemKind: Hashable, Sendable {
    case appeared
    /// From these names in its container.
    case moved(from: [ItemName])
    case changed
    case gainedVersion(VersionID)
    case lostVersion(VersionID)
    case resolvedVersion(VersionID)
  }

  package let presenter: PresenterID
  package let subject: Subject

  package init(_ presenter: PresenterID, _ subject: Subject) {
    self.presenter = presenter
    self.subject = subject
  }
}

/// Where something happened.
struct NewsPlace: Hashable, Sendable {
  /// As claims have it: of what is in a package, the package's.
  let path: ClaimPath
  /// In a package, and not the package itself.
  let isInside: Bool
  /// The item's own.
  let place: Place
}

/// What happened to one item, as those who present it or what is around it hear of it.
enum ItemNews: Hashable, Sendable {
  /// It was made, or was renamed onto a name that somebody presents. `replacing`: another had the
  /// name.
  case appeared(replacing: Bool)
  case changed
  case attributes
  /// Whether the content is here, has been sent and the like.
  case ubiquity
  case removed
  case gained(VersionID)
  case lost(VersionID)
  case resolved(VersionID)
}

/// Who is told what of what happened: rules, and nothing else.
///
/// Source: NSFilePresenter, "Responding to Changes", of which `presentedSubitem(at:didMoveTo:)` and
/// `presentedSubitemDidChange(at:)` say that a subitem may be at any depth and that a package's
/// presenter hears of changes in it as changes of the item too.
extension ClaimQueue {
  func news(_ news: ItemNews, at place: NewsPlace) -> [PresenterNews] {
    let around = presenters(around: place.path)
    var result: [PresenterNews] = []
    func tell(_ list: [PresenterID], _ subject: PresenterNews.Subject) {
      for presenter in list { result.append(PresenterNews(presenter, subject)) }
    }
    let here = around.here
    let document = place.path.places.last ?? place.place
    guard place.isInside else {
      switch news {
      case .appeared(let replacing):
        tell(here, .item(.changed))
        tell(around.above, .subitem(replacing ? .changed : .appeared, place.place))
      case .changed:
        tell(here, .item(.changed))
        tell(around.above, .subitem(.changed, place.place))
      case .attributes:
        tell(here, .item(.changedAttributes))
        tell(around.above, .subitem(.changed, place.place))
      case .ubiquity:
        tell(here, .item(.changedAttributes))
      case .removed:
        // Nothing is there any more that could have changed; who had to know was asked before.
        tell(around.above, .subitem(.changed, place.place))
      case .gained(let id):
        tell(here, .item(.gainedVersion(id)))
        tell(around.above, .subitem(.gainedVersion(id), place.place))
      case .lost(let id):
        tell(here, .item(.lostVersion(id)))
        tell(around.above, .subitem(.lostVersion(id), place.place))
      case .resolved(let id):
        tell(here, .item(.resolvedVersion(id)))
        tell(around.above, .subitem(.resolvedVersion(id), place.place))
      }
      return result
    }
    switch news {
    case .appeared(replacing: false):
      tell(here, .subitem(.appeared, place.place))
    case .appeared, .changed, .attributes, .removed:
      tell(here, .subitem(.changed, place.place))
    case .ubiquity:
      tell(here, .item(.changedAttributes))
      return result
    case .gained(let id): tell(here, .subitem(.gainedVersion(id), place.place))
    case .lost(let id): tell(here, .subitem(.lostVersion(id), place.place))
    case .resolved(let id): tell(here, .subitem(.resolvedVersion(id), place.place))
    }
    switch news {
    case .appeared, .changed, .attributes, .removed:
      tell(here, .item(.changed))
      tell(around.above, .subitem(.changed, document))
    default: break
    }
    return result
  }

  /// An item moved; `following` are those whose item it is, or is below it. `isReplacing`: another
  /// had the new name, so that those who present that name or what is above it see a change there,
  /// as when a program saves by renaming.
  func newsOfMove(
    from old: NewsPlace, named oldNames: [ItemName], to new: NewsPlace, isReplacing: Bool,
    following: [PresenterID]
  ) -> [PresenterNews] {
    var result: [PresenterNews] = following.map { PresenterNews($0, .item(.moved)) }
    let follows = Set(following)
    let oldAround = presenters(around: old.path)
    let newAround = presenters(around: new.path)
    let watchedOld = oldAround.above + (old.isInside ? oldAround.here : [])
    let watchedNew = newAround.above + (new.isInside ? newAround.here : [])
    let isLeft = Set(watchedOld)
    let isReached = Set(watchedNew)
    // What is below moved too, and it is not told of itself.
    func tell(_ list: [PresenterID], _ subject: PresenterNews.Subject) {
      for presenter in list where !follows.contains(presenter) {
        result.append(PresenterNews(presenter, subject))
      }
    }
    /// Of a package, those above it hear of the package alone.
    func split(_ list: [PresenterID], _ place: NewsPlace, _ here: [PresenterID])
      -> (near: [PresenterID], far: [PresenterID])
    {
      guard place.isInside else { return (list, []) }
      let near = Set(here)
      return (list.filter(near.contains), list.filter { !near.contains($0) })
    }
    let left = split(watchedOld, old, oldAround.here)
    let reached = split(watchedNew, new, newAround.here)
    if isReplacing {
      tell(left.near.filter { !isReached.contains($0) }, .subitem(.changed, old.place))
      tell(reached.near, .subitem(.changed, new.place))
    } else {
      tell(left.near, .subitem(.moved(from: oldNames), new.place))
      tell(reached.near.filter { !isLeft.contains($0) }, .subitem(.appeared, new.place))
    }
    let oldDocument = old.path.places.last ?? old.place
    let newDocument = new.path.places.last ?? new.place
    tell(left.far, .subitem(.changed, oldDocument))
    if oldDocument != newDocument || !old.isInside {
      tell(reached.far, .subitem(.changed, newDocument))
    }
    if old.isInside { tell(oldAround.here, .item(.changed)) }
    if new.isInside, old.path != new.path || !old.isInside {
      tell(newAround.here, .item(.changed))
    }
    if !new.isInside { tell(newAround.here, .item(.changed)) }
    return result
  }
}
